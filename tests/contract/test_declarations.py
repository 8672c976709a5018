"""A gradient is declared once, per instance, and the docstring says the same."""

import itertools
import re
from dataclasses import fields, replace
from typing import get_args

import pytest

from pellucid import ALL, RandomAffine, RandomPosterize, RandomRotation
from pellucid.transforms.choices import Choice
from pellucid.transforms.mixture import Mixture, PerCell
from pellucid.types import ClipRule, CodecGradient, EndClip, ImageGradient, Interpolation, Surrogate
from tests.cases import CASES

KINDS = r"(?:exact|almost everywhere|surrogate|none)"
OPTIONS = {
    "ImageGradient": ImageGradient,
    "Surrogate": Surrogate,
    "CodecGradient": CodecGradient,
    "Interpolation": Interpolation,
    "ClipRule": ClipRule,
    "EndClip": EndClip,
}


def variants(transform):
    """The transform under every choice of its options that a gradient may depend on."""
    options = {f.name: get_args(OPTIONS[f.type]) for f in fields(transform) if f.type in OPTIONS}
    return [replace(transform, **dict(zip(options, chosen, strict=True))) for chosen in itertools.product(*options.values())]


def declared(kind):
    """By name, the kinds of gradient that any variant of any row of a class declares."""
    found = {}
    for case in CASES:
        for transform in variants(case.transform) if type(case.transform) is kind else ():
            for name, gradient in transform.gradients.items():
                found.setdefault(name, set()).add(gradient.split(":")[0].replace("_", " "))
    return found


def documented(kind, names):
    """The same as the docstring says it; a name stands for all values that begin with it, such as ``translate`` in x and y."""
    section = re.search(r"Gradient:\n(.*?)\n    \S", kind.__doc__, re.DOTALL).group(1)
    found = {}
    for said, kinds in re.findall(rf"((?:\w+, )*\w+): ({KINDS}(?:(?:,|,? or) {KINDS})*)\b", " ".join(section.split())):
        for name in said.split(", "):
            meant = [one for one in names if one == name or one.startswith(f"{name}_")]
            assert meant, f"{kind.__name__} draws no {name!r}"
            for one in meant:
                assert one not in found, f"{one} is documented twice"
                found[one] = set(re.findall(KINDS, kinds))
    return found


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.__name__)
def test_docstrings_say_what_is_declared(kind):
    expected = declared(kind)
    if issubclass(kind, Choice | Mixture | PerCell):  # as its branches say
        expected = {name: kinds for name, kinds in expected.items() if name != "image" and not name[0].isdigit()}
    assert documented(kind, list(expected)) == expected


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.__name__)
def test_declarations_are_in_the_agreed_words(kind):
    for transform in (variant for case in CASES if type(case.transform) is kind for variant in variants(case.transform)):
        for name, gradient in transform.gradients.items():
            assert re.fullmatch(r"exact|almost_everywhere|none|surrogate: .+", gradient), (name, gradient)


def test_options_decide_and_the_class_speaks_for_the_defaults():
    assert RandomPosterize(image_gradient="none").gradients["image"] == "none"
    assert RandomPosterize(image_gradient="soft", surrogate="none").gradients["bits"] == "none"
    assert RandomPosterize.gradients == RandomPosterize().gradients
    assert RandomPosterize.gradients["image"] == "surrogate: straight_through"
    assert RandomRotation(3, interpolation="nearest").gradients["degrees"] == "surrogate: bilinear"
    assert RandomAffine.gradients == RandomAffine(3).gradients


@pytest.mark.parametrize("case", [case for case in CASES if case.targets], ids=lambda case: type(case.transform).__name__)
def test_what_moves_says_what_it_does_to_each_target(case):
    """The section that is written where a docstring has none says that only images change."""
    assert "On each target:\n        image only.\n" not in type(case.transform).__doc__
