"""Options are named: what may stand by place, how fields are ordered, one word for one thing, and calls as they were before."""

import copy
import inspect
import pickle
import warnings
from dataclasses import fields, replace
from importlib import import_module

import pytest
import torch

import pellucid as P
from pellucid import functional as PF
from pellucid.transforms import VOLUMES, formerly
from pellucid_bench.site.pages import PACKAGES
from tests.refusals import refused

COMMON = {
    *("interpolation", "padding_mode", "border", "fill", "mask_fill", "antialias", "clip", "same_on_batch", "center", "expand"),
    *("image_gradient", "surrogate", "h", "estimator", "temperature", "pairing", "num_classes", "impl", "gradient_scale", "key"),
}
"""Options of many, which say how and not what; none of them stands by place where another thing does."""

OTHER_WORDS = {
    "value": "fill",
    "mask_value": "mask_fill",
    "magnitude": "surrogate",
    "angle": "degrees",
    "ksize": "kernel_size",
    "border_value": "fill",
    "border_mode": "padding_mode",
    "dsize": "size",
    "backend": "impl",
    "mode": "interpolation",
}

KEPT = {
    **dict.fromkeys(("warp_affine", "warp_perspective", "remap"), "OpenCV's own signatures"),
    "get_rotation_matrix2d": "OpenCV's own signature",
    "HueSaturationValue.value": "the V of HSV",
    "shift_hsv.value": "the V of HSV",
    **dict.fromkeys(("RandomElastic.magnitude", "GridDistortion.magnitude", "RandomThinPlateSpline.magnitude"), "how far, drawn"),
    "RandomElastic3.magnitude": "how far, drawn",
    **dict.fromkeys(("RandomFisheye.angle", "fisheye.angle"), "between a ray and the axis, and the name of a draw"),
    **dict.fromkeys(("RandomSnow.angle", "snow.angle"), "clockwise, and the name of a draw"),
}
"""What has another word than most, and why."""

BY_PLACE = {"ColorJitter": 4}
"""More fields by place than two: torchvision's order, in which every recipe writes them."""

FUNCTIONS = [getattr(PF, name) for name in PF.__all__]
OTHERS = {
    f"{package}.{name}": value
    for package, _ in PACKAGES.values()
    for name, value in vars(import_module(package)).items()
    if name in import_module(package).__all__ and inspect.isfunction(value)
}
"""All public functions of the reference."""


def by_place(call):
    return [one for one in inspect.signature(call).parameters.values() if one.kind is one.POSITIONAL_OR_KEYWORD]


@pytest.mark.parametrize("kind", [*P.ALL, *VOLUMES, P.Lambda], ids=lambda kind: kind.__name__)
def test_two_fields_at_most_stand_by_place_and_p_last_but_one(kind):
    names, free = [one.name for one in fields(kind)], [one.name for one in by_place(kind)]
    assert len(free) <= BY_PLACE.get(kind.__name__, 2)
    assert free == names[: len(free)]
    assert not COMMON & set(free[1:])
    assert "p" not in free[1:]
    assert names[-1] == "same_on_batch" or not {"p", "same_on_batch"} & set(names)
    assert "p" not in names or names[-2] == "p"


@pytest.mark.parametrize("function", OTHERS.values(), ids=OTHERS)
def test_of_what_has_a_default_two_stand_by_place_at_most(function):
    free = [one.name for one in by_place(function) if one.default is not one.empty]
    assert len(free) <= 2
    assert not COMMON & set(free)


@pytest.mark.parametrize("call", [*P.ALL, *VOLUMES, *FUNCTIONS], ids=lambda one: one.__name__)
def test_one_thing_has_one_word(call):
    found = {name for name in inspect.signature(call).parameters if name in OTHER_WORDS}
    assert call.__name__ in KEPT or all(f"{call.__name__}.{name}" in KEPT for name in found), found


def test_an_old_call_says_how_to_write_it():
    with pytest.warns(DeprecationWarning, match=r"^Write RandomErasing\(p=1.0, scale=\(0.1, 0.2\)\); version 0.5 takes") as told:
        made = P.RandomErasing(1.0, (0.1, 0.2))
    assert told[0].filename == __file__
    assert made == P.RandomErasing(p=1.0, scale=(0.1, 0.2))
    with pytest.warns(DeprecationWarning, match=r"^Write RandomPosterize\(3, p=1.0, surrogate='none'\)") as told:
        assert P.RandomPosterize(3, p=1.0, magnitude="none") == P.RandomPosterize(3, p=1.0, surrogate="none")
    image = torch.rand(1, 3, 6, 6)
    with pytest.warns(DeprecationWarning, match=r"^Write affine\(image, 10.0, \(1, 0\), scale=2.0\)") as told:
        moved = PF.affine(image, 10.0, (1, 0), 2.0)
    assert told[0].filename == __file__
    assert torch.equal(moved, PF.affine(image, 10.0, (1, 0), scale=2.0))
    with pytest.warns(DeprecationWarning, match=r"^Write rotate\(image, degrees=10.0\)"):
        assert torch.equal(PF.rotate(image, angle=10.0), PF.rotate(image, 10.0))


def test_old_fields_are_read():
    with pytest.warns(DeprecationWarning, match=r"Write `.fill` for the `.value` of RandomErasing"):
        assert P.RandomErasing(fill=0.3).value == 0.3
    spec = {"pellucid": 1, "transforms": [{"name": "RandomErasing", "value": 0.3}, {"name": "RandomCLAHE", "magnitude": "none"}]}
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a file of before needs nobody to write it anew
        assert P.Pipeline.from_dict(spec).transforms == (P.RandomErasing(fill=0.3), P.RandomCLAHE(surrogate="none"))


@pytest.mark.parametrize("kind", P.ALL, ids=lambda kind: kind.__name__)
def test_every_transform_can_be_called_as_before(kind):
    """What was by place once has the names it has now, and what still is comes first."""
    free = [one.name for one in by_place(kind)]
    places = formerly._PLACES.get(kind.__name__, " ".join(one.name for one in fields(kind))).split()
    assert sorted(places) == sorted(one.name for one in fields(kind))
    assert places[: len(free)] == free


def test_too_much_or_twice_is_refused():
    with pytest.raises(TypeError, match=r"RandomInvert\(\) takes p by place, and nothing else; got 3 values. Name the others."):
        P.RandomInvert(0.5, False, 3)
    refused(TypeError, "two values for 'p'", P.RandomPerspective, 0.5, 1.0, p=0.5)
    refused(TypeError, "two values for 'fill'", P.RandomErasing, fill=0.5, value=0.5)


def test_a_misspelt_option_is_answered_with_the_right_one():
    image = torch.rand(1, 3, 4, 4)
    said = {
        "RandomRotation() has no option 'degres'; did you mean degrees=?": lambda: P.RandomRotation(degres=10),
        "ColorJitter() has no option 'brigthness'; did you mean brightness=?": lambda: P.ColorJitter(brigthness=0.2),
        "rotate() has no option 'interpolate'; did you mean interpolation=?": lambda: PF.rotate(image, 3.0, interpolate="nearest"),
        "Pipeline() has no option 'sed'; did you mean seed=?": lambda: P.Pipeline([], sed=3),
        "RandomInvert() has no option 'magnitude'; it has p, same_on_batch.": lambda: P.RandomInvert(magnitude=3),
    }
    for text, call in said.items():
        with pytest.raises(TypeError) as caught:
            call()
        assert str(caught.value) == text


def test_targets_by_place_are_answered_with_both_forms():
    with pytest.raises(P.InvalidType, match=r"augment\(image=image, mask=mask\), or as a dict"):
        P.Pipeline([P.RandomInvert()])(torch.rand(1, 3, 4, 4), torch.zeros(1, 4, 4))


def test_values_stay_values():
    made = P.RandomAffine(10.0, (0.1, 0.1), scale=(0.9, 1.1), fill=0.5)
    assert pickle.loads(pickle.dumps(made)) == copy.deepcopy(made) == replace(made) == made
    assert replace(made, scale=None).scale is None
    assert pickle.loads(pickle.dumps(PF.affine)) is PF.affine
    assert list(inspect.signature(P.RandomErasing).parameters) == [one.name for one in fields(P.RandomErasing)]


def test_old_calls_compile():
    image = torch.rand(1, 3, 6, 6)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        for call in (lambda x: PF.affine(x, 10.0, (1, 0), 2.0), lambda x: PF.rotate(x, angle=10.0)):
            compiled = torch.compile(call, fullgraph=True, backend="eager")
            torch.testing.assert_close(compiled(image), call(image))


def test_surrogates_and_implementations_reach_every_warp():
    """With `gradient_scale` the result is the same, and the slope to the map another."""
    image, four = (
        torch.rand(1, 2, 7, 9, dtype=torch.float64),
        torch.tensor([[0.0, 0.0], [8.0, 0.0], [8.0, 6.0], [0.0, 6.0]]).double(),
    )
    moved = {
        "perspective": lambda by, **options: PF.perspective(image, four, four + by, **options),
        "elastic": lambda by, **options: PF.elastic(image, by * torch.ones(1, 7, 9, 2).double(), **options),
    }
    for call in moved.values():
        by = torch.tensor(0.1, dtype=torch.float64, requires_grad=True)
        exact, wide = call(by, impl="reference"), call(by, impl="reference", gradient_scale=1.5)
        slopes = [torch.autograd.grad((out * image).sum(), by)[0] for out in (exact, wide)]
        assert torch.equal(exact, wide)
        assert not torch.allclose(*slopes)
        refused(P.InvalidArgument, "impl", call, by, impl="none")
