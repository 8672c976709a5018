"""Pipelines as graphs: the same pixels at every size, the map back, and draws among the inputs."""

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import pellucid as P
from pellucid import presets
from pellucid.cli import app
from pellucid.core.graphs import save_graph
from pellucid.errors import InvalidArgument
from pellucid.export import evaluation_graph, export_pipeline, maps_to_picture
from pellucid.functional import ten_crop, transform_boxes, transform_points
from pellucid.random.compiled import draw_words as compiled_words
from pellucid.random.key import draw_words
from pellucid.views import TTA
from tests.refusals import refused

IMAGENET = P.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
HALVES = P.Normalize((0.5,) * 3, (0.5,) * 3)
CHAINS = {
    # Twelve that others publish, at a quarter of their sizes.
    "torchvision, classification": [P.Resize(64), P.CenterCrop(56), IMAGENET],
    "torchvision, classification V2": [P.Resize(58), P.CenterCrop(56), IMAGENET],
    "torchvision, EfficientNet": [P.Resize(64, interpolation="bicubic"), P.CenterCrop(56), IMAGENET],
    "torchvision, segmentation": [P.Resize(130), IMAGENET],
    "torchvision, SSD": [P.Resize((75, 75), antialias=False), P.Normalize((0.48235, 0.45882, 0.40784), (1 / 255.0,) * 3)],
    "YOLO": [P.Letterbox(160, fill=114 / 255)],
    "YOLOX": [P.Letterbox((104, 160), fill=114 / 255, antialias=False)],
    "RT-DETR": [P.Resize((160, 160), antialias=False)],
    "CLIP": [P.Resize(56, interpolation="bicubic"), P.CenterCrop(56), P.Normalize((0.48, 0.46, 0.41), (0.27, 0.26, 0.28))],
    "DINO": [P.Resize(64, interpolation="bicubic"), P.CenterCrop(56), IMAGENET],
    "SAM": [P.LongestMaxSize(128), P.PadIfNeeded(128), IMAGENET],  # whose own bars stand at the right and the bottom
    "ViT": [P.Resize((56, 56)), HALVES],
    "longest side, padded": [P.LongestMaxSize(40), P.PadIfNeeded(48, padding_mode="reflect_101")],
    "crop of what is too small": [P.CenterCrop((90, 30), fill=0.2)],
    "pad, mirrored": [P.Pad((1, 2, 3, 4), padding_mode="reflection"), IMAGENET],
    "pad, repeated": [P.Pad(5, padding_mode="border")],
    "pad, then resize": [P.Pad(5, fill=(0.1, 0.2, 0.3)), P.Resize(30)],
    "letterbox with bars": [P.Letterbox((48, 64), fill=0.4)],
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


@pytest.mark.parametrize("name", ["torchvision, classification", "longest side, padded"])
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


DRAWN = {
    "flips, crop": [P.RandomHorizontalFlip(), P.RandomVerticalFlip(), P.RandomCrop(24, padding=2)],
    "crops": [P.RandomResizedCrop(24), IMAGENET],
    "affine, perspective": [P.RandomAffine(20, scale=(0.8, 1.2)), P.RandomPerspective(0.4)],
    "colours": [P.ColorJitter(0.3, 0.3, saturation=0.3), P.RandomGrayscale(), IMAGENET],
    "hue": [P.ColorJitter(0.3, 0.3, saturation=0.3, hue=0.1), P.RandomChannelShuffle()],
    "noise": [P.RandomGaussianNoise(0.1), P.RandomErasing()],
    "JPEG": [P.RandomJPEG((50, 90))],
}
SIZE = (30, 41)
KEY = P.Key(7, 3, torch.tensor([5, 2**33 + 1, 9]))


def inputs_of(pipeline, image, draws):
    """What a graph is given beside the picture, by name: the key, or what a record of the same draw holds."""
    if draws == "key":
        return {"seed": torch.tensor(KEY.seed), "step": torch.tensor(KEY.step), "index": KEY.index}
    params = pipeline.draw(image, key=KEY).params
    return {f"{k}.{name}": value for k, values in enumerate(params) for name, value in values.items()}


def assert_drawn(outputs, image, pipeline):
    wanted, record = pipeline(image, key=KEY, return_record=True)
    pixels, src_from_dst = outputs
    assert (pixels.shape, pixels.dtype) == (wanted.shape, wanted.dtype)
    assert (pixels.double() - wanted.double()).abs().max() <= (1 if pixels.dtype == torch.uint8 else 1e-5 / 0.22)
    assert torch.allclose(src_from_dst, record.src_from_dst.float(), rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("draws", ["key", "values"])
def test_a_drawn_pipeline_draws_the_same_in_a_program(draws, tmp_path):
    pipeline = P.Pipeline([P.RandomHorizontalFlip(), P.RandomAffine(20), P.ColorJitter(0.3)])
    path = pipeline.to_onnx(tmp_path / "drawn.pt2", dtype=torch.float32, size=SIZE, draws=draws)
    program = torch.export.load(path)
    assert not any("pellucid" in str(node.target) for node in program.graph.nodes)
    image = bytes_of(SIZE, 3) / 255  # one more than it was exported with
    assert_drawn(program.module()(image, *inputs_of(pipeline, image, draws).values()), image, pipeline)


@pytest.mark.slow
@pytest.mark.parametrize("name", DRAWN)
@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
@pytest.mark.parametrize("draws", ["key", "values"])
def test_a_drawn_pipeline_draws_the_same_in_onnx(name, dtype, draws, tmp_path):
    runtime = pytest.importorskip("onnxruntime")
    pipeline, image = P.Pipeline(DRAWN[name]), bytes_of(SIZE, 3) if dtype == torch.uint8 else bytes_of(SIZE, 3) / 255
    session = runtime.InferenceSession(str(pipeline.to_onnx(tmp_path / "drawn.onnx", dtype=dtype, size=SIZE, draws=draws)))
    given = {"image": image} | inputs_of(pipeline, image, draws)
    assert [one.name for one in session.get_inputs()] == list(given)
    outputs = session.run(None, {key: value.numpy() for key, value in given.items()})
    assert_drawn(map(torch.from_numpy, outputs), image, pipeline)


def in_onnxruntime(graph, example, dynamic, path):
    """A function of tensors that onnxruntime computes."""
    runtime = pytest.importorskip("onnxruntime")
    names = [f"x{i}" for i in range(len(example))]
    save_graph(lambda: torch.export.export(graph, example, dynamic_shapes=dynamic), path, inputs=names, outputs=[])
    session = runtime.InferenceSession(str(path))
    return lambda *given: [
        torch.from_numpy(np.atleast_1d(one))
        for one in session.run(None, {name: one.numpy() for name, one in zip(names, given, strict=True)})
    ]


def test_the_words_of_a_draw_are_the_same_bits_in_onnx(tmp_path):
    pytest.importorskip("onnxscript")
    slots = torch.tensor([0, 1, 2**31, 2**32 - 1, 123456789])

    class Words(torch.nn.Module):
        def forward(self, seed, step, index):
            return draw_words(seed, step, index, slots)

    dynamic = ({}, {}, {0: torch.export.Dim.DYNAMIC})
    words = in_onnxruntime(Words(), (torch.tensor(0), torch.tensor(0), torch.arange(2)), dynamic, tmp_path / "words.onnx")
    index = torch.tensor([0, 1, 2**32 - 1, 2**32, 2**40 + 3, 2**62])
    for seed in (0, 1, 2**31 + 5, 2**32 - 1, 2**45 + 7, 2**63 - 1):
        for step in (0, 3, 2**32 - 1):
            pair = torch.tensor(seed), torch.tensor(step)
            assert torch.equal(words(*pair, index)[0], compiled_words(*pair, index, slots, None))


def test_boxes_points_and_masks_come_back_through_the_map():
    crop, pad = [P.Resize(40), P.CenterCrop(32)], [P.LongestMaxSize(40), P.PadIfNeeded(48)]
    for steps, count in (([P.Letterbox(64)], 50), (crop, 5), (pad, 5)):
        pipeline = P.Pipeline(steps)
        graph = evaluation_graph(pipeline)
        for size in sizes(count):
            image = bytes_of(size, samples=1)
            boxes = torch.tensor([[[0.1, 0.2, 0.9, 0.7]]]) * torch.tensor([size[1], size[0]]).repeat(2)
            record = pipeline.draw(image)
            there = transform_boxes(boxes.double(), record.matrix)  # not cut by a crop
            pixels, src_from_dst = graph(image / 255)
            assert (transform_boxes(there.float(), src_from_dst) - boxes).abs().max() <= 1e-3
            points = record.map_points(boxes.reshape(1, 2, 2).double()).float()
            assert (transform_points(points, src_from_dst) - boxes.reshape(1, 2, 2)).abs().max() <= 1e-3
            assert torch.allclose(maps_to_picture(pixels, src_from_dst, image), pipeline.inverse(pixels, record), atol=2e-4)


class Detector(torch.nn.Module):
    """What is deployed: a picture of any size goes in, and its own boxes, points and masks come out."""

    def __init__(self, pipeline):
        super().__init__()
        self.prepare = evaluation_graph(pipeline)

    def forward(self, image, boxes, points):
        pixels, src_from_dst = self.prepare(image)
        masks = maps_to_picture(pixels, src_from_dst, image)
        return transform_boxes(boxes, src_from_dst), transform_points(points, src_from_dst), masks


class Views(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.prepare = evaluation_graph(P.Pipeline([P.Resize((32, 48)), IMAGENET]))
        self.views = TTA([P.Pipeline([]), P.Pipeline([P.RandomHorizontalFlip(p=1.0)])], model)

    def forward(self, image):
        return self.views(self.prepare(image)[0])


@pytest.mark.slow
def test_boxes_points_and_masks_come_back_in_onnx(tmp_path):
    some, pipeline = torch.export.Dim.DYNAMIC, P.Pipeline([P.Letterbox(64)])
    graph = Detector(pipeline)
    example = torch.zeros(2, 3, 61, 83), torch.zeros(2, 5, 4), torch.zeros(2, 7, 2)
    run = in_onnxruntime(graph, example, ({0: some, 2: some, 3: some}, {0: some, 1: some}, {0: some, 1: some}), tmp_path / "d.onnx")
    for size in sizes(50):
        image, boxes = bytes_of(size) / 255, torch.rand(2, 3, 4) * 64
        record = pipeline.draw(image)
        exact = transform_boxes(boxes.double(), record.src_from_dst)
        found, points, masks = run(image, boxes, boxes[..., :2])
        assert (found - exact).abs().max() <= 1e-3
        assert (points - transform_points(boxes[..., :2].double(), record.src_from_dst)).abs().max() <= 1e-3
        assert (masks - pipeline.inverse(graph.prepare(image)[0], record)).abs().max() <= 2e-4


@pytest.mark.slow
@pytest.mark.parametrize("of", ["maps", "scores"])
def test_views_of_a_picture_are_a_graph(of, tmp_path):
    torch.manual_seed(0)
    maps = torch.nn.Conv2d(3, 4, 3, padding=1, stride=2)
    graph = Views(maps if of == "maps" else torch.nn.Sequential(maps, torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten())).eval()
    run = in_onnxruntime(
        graph, (torch.zeros(2, 3, 61, 83),), (dict.fromkeys((0, 2, 3), torch.export.Dim.DYNAMIC),), tmp_path / "v.onnx"
    )
    for size in sizes(5):
        image = bytes_of(size, 3) / 255
        assert (run(image)[0] - graph(image)).abs().max() <= 1e-5


@pytest.mark.slow
def test_a_program_in_cpp_prepares_a_picture_as_the_pipeline_does(tmp_path):
    if shutil.which("g++") is None:
        pytest.skip("no g++")
    root, pipeline = Path(torch.__path__[0]), P.Pipeline(CHAINS["torchvision, classification"])
    if not (root / "include/torch/csrc/inductor/aoti_package/model_package_loader.h").exists():
        pytest.skip("torch came without its headers")
    program = torch.export.load(pipeline.to_onnx(tmp_path / "evaluate.pt2", dtype=torch.uint8))
    torch._inductor.aoti_compile_and_package(program, package_path=str(tmp_path / "prepare.pt2"))
    source = Path(__file__).parent.parent / "examples/deploy/prepare.cpp"
    include = [f"-I{root}/include", f"-I{root}/include/torch/csrc/api/include"]
    link = [f"-L{root}/lib", "-ltorch", "-ltorch_cpu", "-lc10", f"-Wl,-rpath,{root}/lib"]
    subprocess.run(["g++", "-std=c++20", *include, str(source), *link, "-o", "prepare"], cwd=tmp_path, check=True)
    for size in sizes(3):
        image = bytes_of(size, 1)
        command = ["./prepare", "prepare.pt2", *map(str, size)]
        rows = image[0].movedim(0, -1).contiguous().numpy().tobytes()
        done = subprocess.run(command, cwd=tmp_path, input=rows, capture_output=True, check=True)
        found = torch.frombuffer(bytearray(done.stdout), dtype=torch.float32).reshape(1, 3, 56, 56)
        assert_same(found, image, pipeline)


def test_ten_crops_are_those_of_the_function():
    pipeline = P.Pipeline([P.Resize(40), IMAGENET])
    for size in sizes(10):
        image = bytes_of(size)
        views, src_from_dst = evaluation_graph(pipeline, ten_crop=(30, 35))(image)
        wanted = ten_crop(pipeline(image), (30, 35))
        assert (views - wanted).abs().max() <= 1e-5 / 0.22
        corner = src_from_dst @ torch.tensor(
            [34.0, 0.0, 1.0]
        )  # the right end of the first row, which the mirrored view has at the left
        assert torch.allclose(corner[0], (src_from_dst @ torch.tensor([0.0, 0.0, 1.0]))[6], atol=1e-3)


@pytest.mark.slow
def test_ten_crops_in_onnx(tmp_path):
    runtime, pipeline = pytest.importorskip("onnxruntime"), P.Pipeline([P.Resize(40), IMAGENET])
    session = runtime.InferenceSession(str(export_pipeline(pipeline, tmp_path / "ten.onnx", dtype=torch.float32, ten_crop=32)))
    for size in sizes(10):
        image = bytes_of(size) / 255
        views, _ = map(torch.from_numpy, session.run(None, {"image": image.numpy()}))
        assert (views - ten_crop(pipeline(image), 32)).abs().max() <= 1e-5 / 0.22


def test_a_pipeline_without_draws_exports_at_one_size_too():
    pipeline = P.Pipeline([P.Resize(20), P.RandomGrayscale(p=1.0), P.CenterCrop(16)])
    image = torch.rand(2, 3, 30, 40)
    program = torch.export.export(pipeline, (image,))
    assert not any("pellucid" in str(node.target) for node in program.graph.nodes)
    assert torch.allclose(program.module()(image), pipeline(image))


def test_what_has_no_such_graph_is_named():
    refused(InvalidArgument, r"steps of evaluation.*RandomHorizontalFlip", evaluation_graph, P.Pipeline([P.RandomHorizontalFlip()]))
    refused(InvalidArgument, "one step that resizes", evaluation_graph, P.Pipeline([P.Resize(20), P.Resize(10)]))
    refused(InvalidArgument, "antialias", evaluation_graph, P.Pipeline([P.Resize(20, interpolation="bicubic", antialias=False)]))
    refused(InvalidArgument, "None with a size", export_pipeline, P.Pipeline([P.Resize(20)]), "evaluate.pt2", size=30, ten_crop=20)
    refused(InvalidArgument, "draws", export_pipeline, P.Pipeline([P.RandomHorizontalFlip()]), "drawn.pt2", size=30, draws="all")
    with pytest.raises(InvalidArgument, match="decide no size"):
        export_pipeline(P.Pipeline([P.RandomRotation90(), P.RandomCrop(20)]), "drawn.pt2", size=(30, 40))
    refused(InvalidArgument, r"\.onnx or \.pt2.*pip install torch_xla", export_pipeline, P.Pipeline([P.Resize(20)]), "evaluate.bin")
    with pytest.raises(InvalidArgument, match=r"uint8 or torch\.float32"):
        export_pipeline(P.Pipeline([P.Resize(20)]), "evaluate.pt2", dtype=torch.float16)


@pytest.mark.slow
def test_an_operator_that_onnx_lacks_is_named(tmp_path):
    pytest.importorskip("onnxscript")
    square = torch.rand(2, 3, 3)
    program = torch.export.export(_Inverse(), (square,))
    with pytest.raises(InvalidArgument, match=r"operators for \(opset 20\), got aten\.linalg_inv_ex.*Write \.pt2"):
        save_graph(lambda: program, tmp_path / "inverse.onnx", inputs=["square"], outputs=["inverse"])
    assert not list(tmp_path.iterdir())


class _Inverse(torch.nn.Module):
    def forward(self, square):
        return torch.linalg.inv(square)


def test_the_command_writes_a_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    P.Pipeline(CHAINS["torchvision, classification"]).save(tmp_path / "evaluate.toml")
    result = CliRunner().invoke(app, ["export", "evaluate.toml", "--to", "torch", "--floats"])
    assert result.exit_code == 0, result.output
    assert "pixels, src_from_dst" in result.output
    assert (tmp_path / "evaluate.pt2").stat().st_size > 1000
    for given, sentence in (
        (["--to", "stablehlo"], "pip install torch_xla"),
        (["evaluate.onnx", "--to", "torch"], "a name ending in .pt2 for --to torch"),
        (["--to", "tensorrt"], "'onnx', 'torch', 'stablehlo'"),
    ):
        result = CliRunner().invoke(app, ["export", "evaluate.toml", *given])
        assert result.exit_code != 0
        assert sentence in " ".join(result.output.replace("│", " ").split()), given
