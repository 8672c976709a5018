"""Every kind through every transform, every way: a batch, its pictures alone, lists, clips, records replayed and undone.

Many kinds go in one batch, and each is compared on its own. Those that some transforms refuse go in others: vectors, which turn
with one map, what belongs to the picture as a whole, as cameras do, and what belongs to a camera's scene.
"""

import math
from functools import cached_property

import pytest
import torch

from pellucid import InvalidArgument, InvalidType, Key, Pipeline
from pellucid.targets.kinds import KINDS, OURS
from pellucid.types import ImageSpec
from tests import cases as flat
from tests import kinds
from tests.volumes import cases as deep

COUNT = 4
KEY = Key(7, 3, torch.tensor([4, 0, 11, 2]))
GAP = 1e-9
CASES = [*flat.CASES, *deep.CASES]
NAMES = [*flat.IDS, *[f"{case.name}-{i}" for i, case in enumerate(deep.CASES)]]
every = pytest.mark.parametrize("case", CASES, ids=NAMES)
families = pytest.mark.parametrize("family", ["free", "turned", "whole", "scene"])


@pytest.fixture(autouse=True)
def _shapes_checked():
    """Shapes in signatures are held to elsewhere in this folder; here they would cost three quarters of the time."""


def test_every_kind_has_a_row():
    """But for what takes up what bends beside a camera's scene."""
    assert {row.name for row in (*kinds.FLAT, *kinds.SPACE)} == set(OURS) - {"residual"}


def family_of(kind):
    if kind.scene is not None and not kind.interpolation:
        return "scene"
    return "whole" if kind.whole else "turned" if kind.turn else "free"


class Ways:
    """A transform with some kinds of targets, and the calls that have to agree."""

    def __init__(self, case, family):
        self.space = case in deep.CASES
        self.picture = "volume" if self.space else "image"
        self.size = (6, 8, 7) if self.space else flat.size_of(case)
        self.larger = (9, 8, 9) if self.space else (2 * self.size[0], 2 * self.size[1])
        self.case = case
        self.rows = [row for row in (kinds.SPACE if self.space else kinds.FLAT) if family_of(KINDS[row.name]) == family]
        if getattr(case, "objects", False):  # masks go with boxes under one key, and outlines are refused
            self.rows = [row for row in self.rows if row.key != "boxes_turned" and not KINDS[row.name].corners]
        spec = ImageSpec.of(2 if self.space else 3, self.size)
        self.mixes = bool(Pipeline([case.transform]).plan(spec).moving_layers)
        formats = {row.key: "cxcywhr" for row in self.rows if row.key == "boxes_turned"}
        pairs = {row.key: [(0, 1)] for row in self.rows if row.key == "keypoints_persons" and not self.mixes}
        cameras = "residual" if family == "scene" else "matrix"  # few transforms let it pass unless a residual takes up what bends
        self.augment = Pipeline([case.transform], box_format=formats, pairs=pairs, cameras=cameras)
        self.batch = self.made(self.size)
        self.faults = []

    def made(self, size):
        generator = torch.Generator().manual_seed(sum(size))
        shape = (COUNT, 2 if self.space else 3, *size)
        batch = {self.picture: 0.3 + 0.4 * torch.rand(shape, generator=generator, dtype=torch.float64)}
        if getattr(self.case, "objects", False):
            batch["masks"] = kinds.objects(COUNT, size)
        for row in self.rows:
            batch |= {row.key: row.make(COUNT, size)} | {key: make(COUNT, size) for key, make in row.beside.items()}
        return batch

    @cached_property
    def drawn(self):
        """The batch's result and record, or the sentence that refuses it."""
        found = said(self.augment, self.batch, key=KEY, return_record=True)
        return found if isinstance(found, tuple) else (found, None)

    @cached_property
    def listed(self):
        found = said(self.augment, lists(self.batch), key=KEY, return_record=True)
        return found if isinstance(found, tuple) else (found, None)

    def agree(self, way, found, wanted, *, but=()):
        """Note where results, or the sentences in their place, differ."""
        found, wanted = rows(found), rows(wanted)
        if isinstance(found, str) or isinstance(wanted, str):
            if found != wanted:
                self.faults.append(f"{way}: {said_of(found)} instead of {said_of(wanted)}")
            return
        self.faults += [f"{way}: {key} is missing" for key in wanted if key not in found and key not in but]
        self.faults += [f"{way}: {key} appears" for key in found if key not in wanted]
        self.faults += [
            f"{way}: {key} differs"
            for key, value in wanted.items()
            if key in found and not (len(found[key]) == len(value) and all(map(self.same, found[key], value)))
        ]

    @staticmethod
    def same(found, wanted):
        """Whether two values are equal, but for what a wide register rounds otherwise at another place of a batch."""
        found, wanted = (trimmed(torch.as_tensor(value)) for value in (found, wanted))
        if found.dtype != wanted.dtype or found.shape != wanted.shape:
            return False
        return torch.allclose(found, wanted, rtol=0.0, atol=GAP if found.is_floating_point() else 0.0, equal_nan=True)


def trimmed(rows):
    """Polygons of one picture without the columns of NaN that only others in its batch need."""
    return rows[:, ~rows.isnan().all(-1).all(0)] if rows.dim() == 3 and rows.shape[-1] == 2 else rows


def said(call, *args, **options):
    """What a call gives, or the sentence that it refuses with."""
    try:
        return call(*args, **options)
    except (InvalidArgument, InvalidType) as error:
        sentence = str(error)
        return sentence.partition(": ")[2] if sentence.startswith("sample ") else sentence


def said_of(found):
    return found if isinstance(found, str) else "a result"


def rows(result):
    """A result as a list of each entry's samples."""
    return result if isinstance(result, str) else {key: list(value) for key, value in result.items()}


def lists(batch):
    return {key: list(value) for key, value in batch.items()}


def one(batch, i):
    return {key: value[i] for key, value in batch.items()}


def key_of(i):
    return Key(KEY.seed, KEY.step, KEY.index[i : i + 1])


def together(results):
    """Results of single pictures as one."""
    refused = next((result for result in results if isinstance(result, str)), None)
    return refused or {key: [result[key] for result in results] for key in results[0]}


def but(batch, *keys):
    return batch if isinstance(batch, str) else {key: value for key, value in batch.items() if key not in keys}


@every
@families
def test_a_list_is_its_pictures_alone(case, family):
    ways = Ways(case, family)
    augment, (plain, _), (listed, _) = ways.augment, ways.drawn, ways.listed
    if ways.mixes:
        assert isinstance(listed, str)
        assert family != "free" or "one batch" in listed
        return
    ways.agree("alone", together([said(augment, one(ways.batch, i), key=key_of(i)) for i in range(COUNT)]), plain)
    ways.agree("list", listed, plain)
    sizes = [ways.batch, ways.made(ways.larger)]
    several = [one(sizes[i % 2], i) for i in range(COUNT)]
    batch = {key: [some[key] for some in several] for key in ways.batch}
    apart = together([said(augment, some, key=key_of(i)) for i, some in enumerate(several)])
    both = said(augment, batch, key=KEY, return_record=True)
    ways.agree("sizes", both if isinstance(both, str) else both[0], apart)
    if not isinstance(both, str):
        ways.agree("sizes replayed", said(augment.apply, batch, both[1]), apart)
    assert not ways.faults


@every
@families
def test_a_clip_is_its_frames(case, family):
    ways = Ways(case, family)
    if ways.space:
        return
    clip = {key: torch.stack((value, value), 1) for key, value in ways.batch.items()}
    found = said(ways.augment, clip, key=KEY)
    for frame in range(2):
        ways.agree(f"frame {frame}", found if isinstance(found, str) else {k: v[:, frame] for k, v in found.items()}, ways.drawn[0])
    assert not ways.faults


@every
@families
def test_a_record_replays(case, family):
    ways = Ways(case, family)
    augment, (plain, record), (listed, listed_record) = ways.augment, ways.drawn, ways.listed
    if record is None:
        pictures = {key: value for key, value in ways.batch.items() if key in (ways.picture, "masks")}
        plan = augment.draw(pictures, key=KEY).plan
        assert family != "free", plain
        assert plan.moving_layers or (plan.bends and family == "whole"), plain
        return
    ways.agree("replayed", said(augment.apply, ways.batch, record), plain)
    late = ("image", "volume")
    ways.agree("late", said(augment.apply, but(ways.batch, *late), record), but(plain, *late))
    if not ways.mixes:
        ways.agree(
            "part",
            said(augment.apply, {k: v[1:3] for k, v in ways.batch.items()}, record[1:3]),
            {k: v[1:3] for k, v in plain.items()},
        )
        ways.agree("list", said(augment.apply, lists(ways.batch), listed_record), listed)
    assert not ways.faults


@every
@families
def test_what_is_undone_is_what_went_in(case, family):
    ways = Ways(case, family)
    augment, (plain, record), (listed, listed_record) = ways.augment, ways.drawn, ways.listed
    if record is None:
        return
    back = said(augment.inverse, plain, record)
    if ways.mixes:
        assert isinstance(back, str)
        return
    ways.agree("list", said(augment.inverse, listed, listed_record), back)
    ways.agree("alone", together([said(augment.inverse, one(plain, i), record[i]) for i in range(COUNT)]), back)
    assert not isinstance(back, str), back
    assert back[ways.picture].shape == ways.batch[ways.picture].shape
    where = known(ways, record)
    for row in ways.rows:
        if row.back is not None:
            gap = away(KINDS[row.name], back[row.key], ways.batch[row.key], where)
            if not gap <= row.back:
                ways.faults.append(f"{row.key}: {gap:.3g}")
    assert not ways.faults


def known(ways, record):
    """(B, 1, H, W): where the inverse shows what the result had shown, two pixels away from where it does not."""
    blank = torch.zeros(COUNT, 2 if ways.space else 3, *record.size_out, dtype=torch.float64)
    _, valid = ways.augment.inverse(blank, record, return_valid=True)
    inside = valid > 0.999
    if not ways.space:  # what lay outside of the first picture came back as a fill
        inside &= ways.augment.inverse({"heatmap": ways.augment.valid_mask(record)}, record)["heatmap"] > 0.999
    outside = torch.nn.functional.pad(1.0 - inside.double(), [2] * 2 * len(ways.size), value=1.0)
    return (torch.nn.functional.max_pool3d if ways.space else torch.nn.functional.max_pool2d)(outside, 5, 1) == 0


def away(kind, found, first, where):
    """How far what came back is from what went in; of labels of pixels, the share of those that differ."""
    if found.shape != first.shape:
        return math.inf
    gap = (found.double() - first.double()).abs()
    if kind.interpolation:
        gap = gap[(where if gap.dim() == where.dim() else where[:, 0]).expand_as(gap)]
    gap = (gap > 0).double().mean() if kind.interpolation == "nearest" and gap.numel() else gap.max() if gap.numel() else gap.sum()
    return float(gap)
