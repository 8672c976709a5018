"""Pipelines in source text: found, read without being run, printed as code that makes the same; hostile ones give sentences."""

import pytest

import pellucid
from pellucid import InvalidArgument, Pipeline
from pellucid.interop import as_code, from_source, read_albumentations, read_torchvision
from pellucid_bench.configurations import PIPELINES, imported
from tests.refusals import refused

FILE = """
import cv2
import albumentations as A
import torchvision.transforms as T
from albumentations.pytorch import ToTensorV2
from torchvision.transforms import InterpolationMode
open(TRACE, "w").close()
SIZE = 64
class CFG:
    p = 0.3
def get(size=SIZE, train=True):
    steps = [A.Resize(size, size // 2, interpolation=cv2.INTER_LINEAR), A.HorizontalFlip(p=CFG.p)]
    if train:
        steps.append(A.RandomBrightnessContrast(0.1, [0.1] * 2))
    steps += [A.Normalize(**{"mean": (0.5,) * 3, "std": (0.5,) * 3}), ToTensorV2()]
    return A.Compose(steps, bbox_params=A.BboxParams(format="yolo", label_fields=["kinds"]))
class Data:
    def __init__(self):
        self.size = 2 * 16
        self.turn = T.Compose([T.RandomRotation(9, interpolation=InterpolationMode.BILINEAR), T.CenterCrop(self.size), own(3)])
"""


def test_functions_of_the_file_that_return_one_thing_are_read():
    text = """
import albumentations as A
def blur(p=0.4, *, size=3):
    taps = [A.Blur(size), A.MedianBlur(size)]
    return A.OneOf(taps, p=p)
def colors():
    return [A.RandomGamma(), A.InvertImg(p=1)]
def twice():
    return [twice(), twice()]
t = A.Compose([blur(0.2), blur(size=5), *colors(), twice()] + ([A.Blur()] if args.blur else []))
"""
    ((_, _, _, read),) = from_source(text)
    assert [step.p for step in read.pipeline[:2]] == [0.2, 0.4]
    assert [type(step).__name__ for step in read.pipeline[2:]] == ["RandomGamma", "RandomInvert"]
    assert read.missing[-1].name == "[A.Blur()] if args.blur else []"
    assert len(read.missing) > 1  # what calls itself has an end


def test_what_a_file_spells_out_is_found_and_not_run(tmp_path):
    trace = tmp_path / "trace"
    first, second = from_source(FILE.replace("TRACE", repr(str(trace))))
    assert not trace.exists()
    assert (first.name, first.library, first.line) == ("get", "albumentations", 16)
    assert first.imported.missing == ()
    assert first.imported.pipeline.transforms == (
        pellucid.Resize((64, 32), antialias=False),
        pellucid.RandomHorizontalFlip(0.3),
        pellucid.RandomBrightnessContrast((-0.1, 0.1), (0.1, 0.1), p=0.5),
        pellucid.Normalize((0.5,) * 3, (0.5,) * 3),
    )
    assert first.imported.pipeline.options.targets == {"masks": "mask", "kinds": "labels"}
    assert (second.name, second.library) == ("self.turn", "torchvision")
    assert second.imported.pipeline[0].interpolation == "bilinear"
    assert second.imported.pipeline[1].size == 32
    assert [one.name for one in second.imported.missing] == ["own(3)"]


def test_names_from_elsewhere_are_missing_unless_they_are_given():
    text = "from torchvision.transforms import v2\nt = v2.Compose([v2.Resize(size=cfg.size), v2.RandomInvert(p)])"
    (found,) = from_source(text)
    assert [one.option for one in found.imported.missing] == ["size=cfg.size", "p=p"]
    (found,) = from_source(text, names={"cfg.size": [9, 8], "p": 0.2})
    assert found.imported.pipeline.transforms == (pellucid.Resize((9, 8)), pellucid.RandomInvert(0.2))


@pytest.mark.parametrize("one", PIPELINES, ids=lambda one: one.source.replace(" ", ":"))
def test_code_makes_the_same_pipeline(one):
    pipeline = imported(one).pipeline
    again = eval(as_code(pipeline), {**vars(pellucid), "torch": pytest.importorskip("torch")})
    assert isinstance(again, Pipeline)
    assert again.transforms == pipeline.transforms
    assert again.options == pipeline.options


@pytest.mark.parametrize("seed", [None, 0, 7])
def test_code_holds_the_seed_that_was_said(seed):
    again = eval(as_code(Pipeline([pellucid.RandomInvert()], seed=seed)), vars(pellucid))
    assert again.to_dict().get("seed") == seed


def test_powers_lengths_and_empty_choices_are_read():
    steps = "steps = [A.HorizontalFlip(p=1), A.InvertImg(p=1)]\n"
    text = f"import albumentations as A\n{steps}t = A.Compose([A.OneOf(steps, p=1 - (len(steps) + 1) ** -1), A.OneOf([], p=1.0)])"
    (found,) = from_source(text)
    assert found.imported.missing == ()
    (chosen,) = found.imported.pipeline.transforms
    assert chosen.p == pytest.approx(2 / 3)
    huge = "import albumentations as A\nt = A.Compose([A.Rotate(9 ** 9 ** 9)])"
    assert from_source(huge)[0].imported.missing


@pytest.mark.parametrize(("library", "imports"), [("kornia", "kornia.augmentation"), ("torchvision", "torchvision.transforms")])
def test_a_sequence_of_torch_is_one_of_transforms_where_all_of_it_are(library, imports):
    text = f"import {imports} as T\nfrom torch import nn\nt = nn.Sequential(T.RandomHorizontalFlip(p=1.0), T.RandomInvert(p=0.5))\n"
    (found,) = from_source(
        text + "net = nn.Sequential(nn.Linear(3, 4), nn.ReLU())\nmixed = nn.Sequential(T.RandomInvert(), nn.ReLU())"
    )
    assert (found.name, found.library, found.imported.missing) == ("t", library, ())
    assert len(found.imported.pipeline) == 2


HEAD = "import albumentations as A\nimport torchvision.transforms as T\n"
HOSTILE = {
    "a loop of names": "x = y\ny = x\nt = A.Compose([A.Rotate(limit=x)])",
    "a list that holds itself": "s = []\ns.append(s)\nt = A.Compose(s)",
    "a million elements": "t = T.Compose([T.Normalize([0.5] * 10 ** 9, [0.5] * 999999999)])",
    "no list": "t = A.Compose(3)",
    "no transforms": "t = A.Compose()",
    "numbers for transforms": "t = T.Compose([3, 'x', None, [T.RandomInvert(3, 4, 5)]])",
    "an option of another type": "t = A.Compose([A.Rotate(limit={'x': []}), A.CoarseDropout(max_height='tall')])",
    "an option that is not there": "t = A.Compose([A.Rotate(limt=3), A.Resize(3, 4, 5, 6, 7, 8, 9)])",
    "ranges the wrong way round": "t = A.Compose([A.GaussianBlur(blur_limit=(9, 3)), A.RandomSizedCrop((9, 0), -3, 4)])",
    "division by zero": "t = T.Compose([T.Resize(1 // 0), T.Pad(-(3 % 0))])",
    "a call of the system": "t = T.Compose([T.Resize(__import__('os').system('exit 1'))])",
    "nan and infinity": "t = A.Compose([A.Rotate(float('nan')), A.RandomScale(float('inf')), A.ElasticTransform(1e300, 1e-300)])",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_configurations_give_sentences(name):
    (found,) = from_source(HEAD + HOSTILE[name])
    assert len(found.imported.missing) > 0 or name in ("a list that holds itself",)
    for one in found.imported.missing:
        assert str(one).startswith("pipeline")
        assert str(one).endswith(".")
        assert one.reason


@pytest.mark.parametrize("text", ["t = (", "\0", "(" * 9999, "x = " + "-" * 100_000 + "1", "x" * 3_000_000])
def test_what_is_not_python_is_refused(text):
    refused(InvalidArgument, "source", from_source, text)


@pytest.mark.parametrize("read", [read_albumentations, read_torchvision])
@pytest.mark.parametrize("match", ["near", None])
def test_another_match_is_refused(read, match):
    refused((InvalidArgument, TypeError), "match", read, {"name": "RandomInvert"}, match=match)
