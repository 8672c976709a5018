"""What is only near is taken with a note, and never where there is an equal."""

import inspect
import re
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch

from pellucid import InvalidArgument
from pellucid.interop import from_torchvision, read_albumentations, read_kornia, read_torchvision
from pellucid.interop.albumentations_nearest import NEAR as ALBUMENTATIONS
from pellucid.interop.nearest_tables import KORNIA, TORCHVISION
from pellucid_bench.configurations import PIPELINES, imported
from tests.interop.test_options import ALBUMENTATIONS as EXACT
from tests.interop.test_options import BASE, VALUES, options_of
from tests.peers import albumentations

READERS = {"albumentations": read_albumentations, "torchvision": read_torchvision, "kornia": read_kornia}
NEEDED = {
    "CropNonEmptyMaskIfExists": {"height": 64, "width": 64},
    "RandomSizedBBoxSafeCrop": {"height": 64, "width": 64},
    "AtLeastOneBBoxRandomCrop": {"height": 64, "width": 64},
    "RandomSizedCrop": {"min_max_height": (90, 100), "size": (64, 64)},
    "OneOrOther": {"first": {"name": "InvertImg"}, "second": {"name": "ToGray"}},
    "CropAndPad": {"percent": -0.1},
    "ScaleJitter": {"target_size": (64, 64)},
    "RandomShortestSize": {"min_size": [32, 64]},
    "RandomResize": {"min_size": 32, "max_size": 64},
    "FixedSizeCrop": {"size": (64, 64)},
    "Resize": {"size": (64, 64)},
    "LongestMaxSize": {"max_size": 64},
    "SmallestMaxSize": {"max_size": 64},
    "PadTo": {"size": (64, 64)},
}
TABLES = [
    (library, name)
    for library, table in (("albumentations", ALBUMENTATIONS), ("torchvision", TORCHVISION), ("kornia", KORNIA))
    for name in sorted(table)
]


def batch(pipeline, size=96):
    """A batch of all that the pipeline knows, as lists where rows are left out."""
    boxes = torch.tensor([[0.3, 0.3, 0.2, 0.2], [0.5, 0.5, 0.4, 0.4]]) * (1 if pipeline.options.box_format == "yolo" else size)
    boxes = boxes.repeat(2, 1, 1)
    if pipeline.options.box_format != "yolo":
        boxes[..., 2:] += boxes[..., :2] + 2
    found = {
        "image": torch.from_numpy(np.random.default_rng(0).integers(0, 256, (2, 3, size, size), dtype=np.uint8)),
        "mask": torch.ones(2, 1, size, size, dtype=torch.uint8),
        "boxes": boxes.clamp(0, size),
        "labels": torch.tensor([[1, 2], [3, 4]]),
        "keypoints": torch.full((2, 3, 2), size / 2),
    }
    found |= {key: found[kind] for key, kind in pipeline.options.targets.items() if kind in found}
    return {key: list(value) for key, value in found.items()} if pipeline.options.drop_invalid else found


def runs(pipeline, size=96):
    given = batch(pipeline, size)
    out = pipeline(given)
    for image, mask in zip(out["image"], out["mask"], strict=True):
        assert image.shape[-2:] == mask.shape[-2:]
        assert torch.isfinite(image.float()).all()


@pytest.mark.parametrize(("library", "name"), TABLES)
def test_what_is_near_is_taken_with_a_note_and_refused_otherwise(library, name):
    described = {"name": name, **NEEDED.get(name, {})}
    found = READERS[library](described, size=(96, 96))
    assert found.missing == ()
    assert any(note.startswith(f"Nearest: {name}: ") for note in found.notes)
    refused = READERS[library](described, match="exact").missing
    assert refused[0].reason
    assert refused[0].name == name
    runs(found.pipeline)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", sorted(ALBUMENTATIONS))
def test_every_option_of_what_is_near_is_read_or_named(name):
    A = albumentations()
    kind = getattr(A, name, None)
    if kind is None:
        pytest.skip("of version 1")
    base = {"name": name, "p": 1.0, **NEEDED.get(name, {})}
    for option in options_of(kind) if name not in ("FromFloat", "ToRGB") else ():  # which do nothing, by any probability
        usual = inspect.signature(kind.__init__).parameters[option].default
        value = -0.2 if usual is None or usual is inspect.Parameter.empty else other(usual)
        before, after = (READERS["albumentations"](one) for one in (base, {**base, option: value}))
        told = after.notes != before.notes or after.missing != before.missing
        assert told or after.pipeline.transforms != before.pipeline.transforms, f"{name}({option}={value!r})"


def other(usual):
    """Another value of an option's kind."""
    if isinstance(usual, bool):
        return not usual
    if isinstance(usual, int):
        return usual + 2
    if isinstance(usual, float):
        return usual * 0.5 + 0.01
    if isinstance(usual, tuple):
        return tuple(map(other, usual))
    return "another" if isinstance(usual, str) else {"another": 1}


@pytest.mark.parametrize("name", sorted(EXACT))
def test_what_has_an_equal_is_that_equal(name):
    """With any option, the nearest of what can be exact is the exact one."""
    for option, value in (("p", 0.3), *((key.rpartition(".")[2], value) for key, value in VALUES.items())):
        described = {"name": name, **BASE.get(name, {}), option: value}
        exact, near = (read_albumentations(described, match=match) for match in ("exact", "nearest"))
        at_times = any("changes the size at times" in note for note in near.notes)  # a batch has no such thing
        if not exact.missing and not at_times:
            assert near.pipeline.transforms == exact.pipeline.transforms
            assert near.notes == exact.notes


FITTING = {"38042677417": 1024, "keshavsbhandari/CS4347": 128}  # a large crop; sizes that stay


@pytest.mark.parametrize("one", PIPELINES, ids=lambda one: one.source.replace(" ", ":"))
def test_public_pipelines_run(one):
    found = imported(one)
    larger = any(size in one.text for size in ("height=736", "height=1080", "IfExists(1024"))  # than a test's picture may be
    if not found.missing and not larger:
        crops = any(name in one.text for name in ("RandomCrop(", "CropNonEmpty"))
        if one.source == "HichTala/dota-train":  # whole, but a crop around boxes stands behind what moves them
            with pytest.raises(InvalidArgument, match="before all that moves boxes"):
                runs(found.pipeline, 600)
        else:
            runs(found.pipeline, FITTING.get(one.source, 520 if crops else 96))


APART = ("Lambda", "Mosaic", "RandomTransplantation", "VideoSequential")  # functions, other pictures, and clips


def test_what_the_page_of_names_counts_is_imported():
    """What counts there is known to the importer, and so is every transform that stands there under a name here."""
    page = (Path(__file__).parents[2] / "docs" / "coverage.md").read_text()
    counted = 0
    for section in page.split("\n## ")[1:4]:
        library = section.partition(" ")[0]
        for name, here, how in re.findall(r"^\| (\w+) \| (.*) \| (exact|nearest|) \|$", section, re.MULTILINE):
            if not how and not re.match("`[A-Z]", here):
                continue
            found = READERS[library]({"name": name})
            unknown = any(one.reason.startswith("nothing here") or "is not here" in one.reason for one in found.missing)
            assert not unknown or (not how and (name in APART or here == "`Lambda`")), f"{library}: {name}"
            counted += bool(how)
    assert counted > 200


def test_what_is_near_is_a_warning_where_no_notes_are_returned():
    with pytest.warns(UserWarning, match="Nearest: RandomZoomOut: .*\nmatch='exact' refuses these"):
        from_torchvision({"name": "RandomZoomOut"})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        from_torchvision({"name": "RandomInvert"})


@pytest.mark.parametrize(("fill", "taken"), [({"Image": (9, 8, 7), "Mask": 1}, (9, 8, 7)), ({"others": 5}, 5), ({0: (9, 8, 7)}, 0)])
def test_a_canvas_is_filled_by_the_name_of_the_kind_as_there(fill, taken):
    """Of a key that names no kind torchvision takes nothing."""
    assert read_torchvision({"name": "RandomZoomOut", "fill": fill}).pipeline[0].fill == taken
