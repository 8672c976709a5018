"""What a choice means, sample by sample: the transforms on its path, alone, with the values that were drawn for them.

Owns: the walk along a tree, and random trees.
Must not: gate anything: what is not chosen is not there.
Read next: ``test_choices.py``.
"""

from hypothesis import strategies as st

import pellucid as P
from pellucid import Pipeline
from pellucid.pipeline.records import Record
from pellucid.transforms.choices import Choice

__all__ = ["alone", "path_of", "trees"]


def path_of(transforms, record, sample):
    """[(transform, its drawn values)] that this sample goes through, read off the record by the meaning of each choice."""
    path, at = [], 0

    def walk(sequence, taken):
        nonlocal at
        for transform in sequence:
            values = {name: value[sample : sample + 1] for name, value in record.params[at].items()}
            at += 1
            if not isinstance(transform, Choice):
                if taken:
                    path.append((transform, values))
                continue
            for turn in range(transform.turns):
                for number, branch in enumerate(transform.branches):
                    walk(branch, taken and _taken(transform, values, turn, number))

    walk(transforms, True)
    assert at == len(record.params)
    return path


def _taken(choice, values, turn, branch):
    if isinstance(choice, P.OneOf):
        return int(values["choice"][0].argmax()) == branch
    if isinstance(choice, P.Shuffle):
        return int(values["order"][0, turn]) == branch
    if isinstance(choice, P.Apply):
        return "gate" not in values or bool(values["gate"][0])
    if choice.replace:
        return int(values[f"choice_{turn}"][0].argmax()) == branch
    return branch in values["order"][0, : choice.n].tolist()


def alone(transforms, record, sample, **options):
    """A pipeline of the path and its record."""
    path = path_of(transforms, record, sample)
    augment = Pipeline([transform for transform, _ in path], **options)
    plan = augment.plan(record.plan.specs[0])
    return augment, Record(plan, tuple(values for _, values in path), 1)


# Pictures and fills are in the middle of the range and factors small: clips, which a run has for all its samples, stay idle.
WARPS = (
    P.RandomRotation(30, fill=0.4),
    P.RandomRotation(30, fill=0.6),
    P.RandomRotation(30, padding_mode="border"),
    P.RandomShear(20, fill=0.5),
    P.RandomTranslate((0.3, 0.3), p=0.6, fill=0.5),
    P.RandomPerspective(0.4, p=0.8, fill=0.45),
    P.RandomScale((0.6, 1.5), padding_mode="reflection"),
)
PLAIN = (P.RandomHorizontalFlip(), P.RandomVerticalFlip(p=0.8), P.RandomRotation90())
COLORS = (
    P.RandomBrightness(0.05),
    P.RandomSaturation(0.1),
    P.RandomInvert(),
    P.RandomHue(0.2),
    P.RandomGrayscale(p=0.4),
    P.RandomChannelShuffle(),
)
BARRIERS = (P.RandomGamma(), P.RandomGaussianBlur(3), P.RandomSolarize(0.5))
CROPS = (
    P.RandomCrop(9),
    P.RandomResizedCrop(9, antialias=False),
    (P.Resize(11, antialias=False), P.RandomHorizontalFlip(), P.CenterCrop(9)),
    (P.RandomHorizontalFlip(), P.CenterCrop(9)),
)


@st.composite
def trees(draw, leaves, *, warps=(), depth=2):
    """A list of transforms and choices among them; no sample meets more than one of ``warps``."""

    def sequence(level, warp):
        count = draw(st.integers(1, 3))
        place = draw(st.integers(0, count - 1)) if warp else -1
        return [element(level, warp and i == place) for i in range(count)]

    def element(level, warp):
        kind = draw(st.sampled_from(["leaf", "OneOf", "OneOf", "SomeOf", "Shuffle", "Apply"])) if level else "leaf"
        if kind == "leaf":
            return draw(st.sampled_from(warps if warp else leaves))
        if kind == "Apply":
            return P.Apply(sequence(level - 1, warp), p=draw(st.sampled_from([0.5, 1.0])))
        count = draw(st.integers(1, 3))
        n = draw(st.integers(0, count))
        only = draw(st.integers(0, count - 1))
        mine = {"OneOf": lambda i: warp, "Shuffle": lambda i: warp and i == only, "SomeOf": lambda i: warp and n <= 1}[kind]
        branches = [[] if draw(st.booleans()) and i else sequence(level - 1, mine(i)) for i in range(count)]
        if kind == "OneOf":
            return P.OneOf(branches, weights=draw(st.sampled_from([None, tuple(range(1, count + 1))])))
        return P.Shuffle(branches) if kind == "Shuffle" else P.SomeOf(branches, n=n, replace=draw(st.booleans()))

    return sequence(depth, bool(warps))
