"""Evaluation pipelines as graphs: the same pixels at every size, and the map back."""

import pytest
import torch
from typer.testing import CliRunner

import pellucid as P
from pellucid import presets
from pellucid.cli import app
from pellucid.errors import InvalidArgument
from pellucid.export import evaluation_graph, export_pipeline

IMAGENET = P.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
CHAINS = {
    "classification": [P.Resize(40), P.CenterCrop(32), IMAGENET],
    "letterbox": [P.Letterbox(64), IMAGENET],
    "letterbox with bars": [P.Letterbox((48, 64), fill=0.4)],
    "longest side, padded": [P.LongestMaxSize(40), P.PadIfNeeded(48, padding_mode="reflect_101")],
    "crop of what is too small": [P.CenterCrop((90, 30), fill=0.2)],
    "pad, mirrored": [P.Pad((1, 2, 3, 4), padding_mode="reflection"), IMAGENET],
    "pad, repeated": [P.Pad(5, padding_mode="border")],
    "pad, then resize": [P.Pad(5, fill=(0.1, 0.2, 0.3)), P.Resize(30)],
    "CLIP": [P.Resize(56, interpolation="bicubic"), P.CenterCrop(56), P.Normalize((0.48, 0.46, 0.41), (0.27, 0.26, 0.28))],
    "SAM": [P.LongestMaxSize(64), P.PadIfNeeded(64), IMAGENET],
    "not antialiased": [P.Resize((37, 90), antialias=False)],
    "nearest": [P.Resize((37, 90), interpolation="nearest")],
    "back": [IMAGENET, P.Denormalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))],
}
EVALUATIONS = [name for name in presets.names() if name.endswith("-eval")]


def sizes(count):
    random = torch.Generator().manual_seed(1)
    return [tuple(torch.randint(20, 140, (2,), generator=random).tolist()) for _ in range(count)]


def bytes_of(size, samples=2):
    return torch.randint(0, 256, (samples, 3, *size), dtype=torch.uint8, generator=torch.Generator().manual_seed(sum(size)))


def assert_same(found, image, pipeline):
    """Bytes within a level; floats to 1e-5 of the units before they were normalised, from what the pipeline computes in float64."""
    steps = pipeline.transforms
    wanted = pipeline(image)
    assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype)
    if found.dtype == torch.uint8:
        assert (found.int() - wanted.int()).abs().max() <= 1
    else:
        deviation = min((min(step.std) for step in steps if isinstance(step, P.Normalize)), default=1.0)
        exact = P.Pipeline(steps)(image.double() / (255 if image.dtype == torch.uint8 else 1))
        assert (found - exact).abs().max() * deviation <= 1e-5


@pytest.mark.parametrize("name", CHAINS)
@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
def test_the_graph_computes_what_the_pipeline_does_at_fifty_sizes(name, dtype):
    if name == "back" and dtype == torch.uint8:
        pytest.skip("bytes come back as bytes from a pipeline, which folds the two into nothing")
    pipeline = P.Pipeline(CHAINS[name])
    graph = evaluation_graph(pipeline)
    for size in sizes(50):
        image = bytes_of(size) if dtype == torch.uint8 else bytes_of(size) / 255
        record = pipeline.draw(image)
        found, src_from_dst = graph(image)
        assert_same(found, image, pipeline)
        assert torch.allclose(src_from_dst, torch.linalg.inv(record.matrix[0].double()).float(), atol=1e-4), size


@pytest.mark.parametrize("name", EVALUATIONS)
def test_presets_of_evaluation_have_graphs(name):
    pipeline = presets.load(name)
    graph = evaluation_graph(pipeline)
    for size in ((300, 400), (411, 257)):
        image = bytes_of(size, samples=1)
        assert_same(graph(image)[0], image, pipeline)


@pytest.mark.parametrize("name", ["classification", "longest side, padded"])
def test_the_program_runs_at_other_sizes_after_it_was_saved(name, tmp_path):
    pipeline = P.Pipeline(CHAINS[name])
    path = export_pipeline(pipeline, tmp_path / "new" / "evaluate.pt2", dtype=torch.float32)
    program = torch.export.load(path).module()
    for size in sizes(5):
        image = bytes_of(size) / 255
        assert_same(program(image)[0], image, pipeline)


@pytest.mark.slow
@pytest.mark.parametrize("name", CHAINS)
@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
def test_onnx_runs_without_us(name, dtype, tmp_path):
    runtime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    if name == "back":
        pytest.skip("has no size")
    pipeline = P.Pipeline(CHAINS[name])
    path = export_pipeline(pipeline, tmp_path / "evaluate.onnx", dtype=dtype)
    session = runtime.InferenceSession(str(path))
    for samples, size in enumerate(sizes(50), 1):
        image = bytes_of(size, samples % 3 + 1) if dtype == torch.uint8 else bytes_of(size, samples % 3 + 1) / 255
        pixels, src_from_dst = map(torch.from_numpy, session.run(None, {"image": image.numpy()}))
        assert_same(pixels, image, pipeline)
        assert torch.allclose(src_from_dst, evaluation_graph(pipeline)(image)[1])


def test_boxes_come_back_through_the_map():
    pipeline = P.Pipeline([P.Letterbox(64)])
    image, boxes = bytes_of((50, 90), samples=1), torch.tensor([[[10.0, 5.0, 80.0, 44.0]]])
    there = pipeline({"image": image, "boxes": boxes})["boxes"]
    _, src_from_dst = evaluation_graph(pipeline)(image)
    corners = there.reshape(1, 2, 2) - 0.5  # of pixels' middles
    back = torch.cat((corners, torch.ones(1, 2, 1)), -1) @ src_from_dst.T
    assert torch.allclose(back[..., :2].reshape(1, 1, 4) + 0.5, boxes, atol=1e-3)


def test_a_pipeline_without_draws_exports_at_one_size_too():
    pipeline = P.Pipeline([P.Resize(20), P.RandomGrayscale(p=1.0), P.CenterCrop(16)], impl="reference")
    image = torch.rand(2, 3, 30, 40)
    program = torch.export.export(pipeline, (image,))
    assert not any("pellucid" in str(node.target) for node in program.graph.nodes)
    assert torch.allclose(program.module()(image), pipeline(image))


def test_what_has_no_such_graph_is_named():
    with pytest.raises(InvalidArgument, match=r"steps of evaluation.*RandomHorizontalFlip"):
        evaluation_graph(P.Pipeline([P.RandomHorizontalFlip()]))
    with pytest.raises(InvalidArgument, match="one step that resizes"):
        evaluation_graph(P.Pipeline([P.Resize(20), P.Resize(10)]))
    with pytest.raises(InvalidArgument, match="antialias"):
        evaluation_graph(P.Pipeline([P.Resize(20, interpolation="bicubic", antialias=False)]))
    with pytest.raises(InvalidArgument, match=r"\.onnx or \.pt2"):
        export_pipeline(P.Pipeline([P.Resize(20)]), "evaluate.bin")
    with pytest.raises(InvalidArgument, match=r"uint8 or torch\.float32"):
        export_pipeline(P.Pipeline([P.Resize(20)]), "evaluate.pt2", dtype=torch.float16)


def test_the_command_writes_a_file(tmp_path):
    P.Pipeline(CHAINS["classification"]).save(tmp_path / "evaluate.toml")
    result = CliRunner().invoke(app, ["export", str(tmp_path / "evaluate.toml"), str(tmp_path / "evaluate.pt2"), "--floats"])
    assert result.exit_code == 0, result.output
    assert "pixels, src_from_dst" in result.output
    assert (tmp_path / "evaluate.pt2").stat().st_size > 1000
