"""Plans and tapes for sizes not seen before: the same as if they had been made for that size, and not made again."""

import gc
import itertools
import math
import pickle
from dataclasses import dataclass

import numpy as np
import pytest
import torch

import pellucid as P
from pellucid.core.caches import Recent
from pellucid.core.tape import Number, Recording, TapeError, record, recorder, recording
from pellucid.engine.plan import Plans, make_plan
from pellucid.geometry.matrices import scale_shift
from pellucid.segments import Warp, WarpSpec
from pellucid.types import ImageSpec
from tests.cases import CASES, IDS, MEAN, STD

NORMALIZE = P.Normalize(MEAN, STD)
PIPELINES = {
    **{name: ([case.transform], {}) for name, case in zip(IDS, CASES, strict=True)},
    "flagship": (
        [
            P.RandomAffine(15, translate=(0.1, 0.1)),
            P.RandomHorizontalFlip(),
            P.ColorJitter(0.2, 0.2, saturation=0.2, hue=0.05),
            NORMALIZE,
        ],
        {},
    ),
    "classification": ([P.RandomResizedCrop((20, 24)), P.RandomHorizontalFlip(), NORMALIZE], {}),
    "evaluation": ([P.Resize(24), P.CenterCrop(20), NORMALIZE], {}),
    "letterbox": ([P.Letterbox((26, 30), fill=0.4), P.RandomAffine(10), NORMALIZE], {}),
    "crop": ([P.RandomAffine(20), P.RandomCrop(9, pad_if_needed=True), P.RandomErasing(p=0.8)], {}),
    "canvases": ([P.Pad((1, 2, 3, 0), fill=0.3), P.RandomRotation(30), P.CenterCrop(40, fill=0.1), P.RandomPerspective(0.4)], {}),
    "one canvas": ([P.RandomAffine(20), P.CenterCrop(9), P.RandomPerspective(0.3)], {"canvas": "image"}),
    "unfused": ([P.RandomAffine(20), P.RandomResizedCrop(9), P.RandomPerspective(0.3)], {"fuse": False}),
    "resizes": ([P.Resize((19, 23)), P.RandomAffine(10), P.Resize(12, antialias=False)], {}),
}
SIZES = [(32, 32), (24, 36), (47, 31), (20, 24), (64, 40), (9, 9), (13, 60), (26, 30)]
every = pytest.mark.parametrize("name", PIPELINES)


def sizes_of(name):
    case = dict(zip(IDS, CASES, strict=True)).get(name)
    if case is None:
        return SIZES
    sizes = [(h, h) for h, _ in SIZES] if case.square else SIZES
    of_whole = case.size or (1, 1)  # what a size of its own divides
    return [tuple(-(-side // unit) * unit for side, unit in zip(size, of_whole, strict=True)) for size in sizes]


def plans_of(name):
    transforms, options = PIPELINES[name]
    return Plans(tuple(transforms), **{"fuse": True, "canvas": "each", "same_on_batch": False, **options})


@every
def test_plans_are_those_that_would_be_made(name):
    transforms, options = PIPELINES[name]
    plans = plans_of(name)
    for height, width in sizes_of(name):
        spec = ImageSpec(3, height, width)
        plan, expected = plans.of(spec), make_plan(tuple(transforms), spec, **options)
        assert plan == expected
        assert repr(plan) == repr(expected)  # ints are ints
        assert hash(plan) == hash(expected)
    (planned,) = plans._recorded._kept.values()
    assert not planned._plainly, "planned for each size"


def tapes_of(plans):
    recipes = {id(plan.kind) for plan in plans._made._kept.values()}
    kept = [tape for recipe in recipes for tape in recording._recordings.get(recipe, {}).values() if tape is not None]
    inner = [plans for plans in kept if isinstance(plans, Plans)]  # a mixture's chains
    return [tape.recording for tape in kept if not isinstance(tape, Plans)] + [one for plans in inner for one in tapes_of(plans)]


@every
def test_a_size_not_seen_before_gives_the_bits_of_a_pipeline_of_its_own(name):
    transforms, options = PIPELINES[name]
    seasoned = P.Pipeline(transforms, seed=4, **options)
    for height, width in sizes_of(name):
        x = torch.rand(3, 3, height, width, generator=torch.Generator().manual_seed(height * width))
        key = P.Key(7, 3, torch.arange(3))
        batch = {"image": x, "keypoints": torch.rand(3, 5, 2, dtype=torch.float64) * torch.tensor([width, height])}
        found, drawn = seasoned(batch, key=key, return_record=True)
        expected, record = P.Pipeline(transforms, seed=4, **options)(batch, key=key, return_record=True)
        assert found.keys() == expected.keys()
        assert all(torch.equal(found[target], expected[target]) for target in expected)
        assert torch.equal(seasoned(x, key=key), expected["image"])
        for ours, theirs in zip(drawn.params, record.params, strict=True):
            assert ours.keys() == theirs.keys()
            assert all(torch.equal(ours[key], theirs[key]) for key in ours)
    tapes = tapes_of(seasoned._plans)
    assert not any(one._plainly for one in tapes), "taped for each size"
    asked = [len(branch._tape._read) for one in tapes for branch in one._branches]
    assert max(asked, default=0) <= 1, "asks what planning has asked"


@pytest.mark.parametrize("name", ["flagship", "classification", "evaluation", "letterbox", "crop", "canvases"])
def test_sizes_of_one_kind_are_recorded_once(name, monkeypatch):
    transforms, options = PIPELINES[name]
    pipeline = P.Pipeline(transforms, seed=1, **options)
    pipeline(torch.rand(2, 3, 90, 120))
    made = []
    kept = recorder._Recorder.__init__
    monkeypatch.setattr(recorder._Recorder, "__init__", lambda self, *args: made.append(1) or kept(self, *args))
    for height, width in [(91, 120), (90, 127), (77, 113), (100, 190)]:
        pipeline(torch.rand(2, 3, height, width))
    assert not made


def test_ten_thousand_sizes_need_the_memory_of_few():
    """With a smaller number; each of them was kept for ever once."""
    pipeline = P.Pipeline([P.RandomResizedCrop(4), P.RandomHorizontalFlip(), P.RandomCrop(3)], seed=0)
    sizes = iter(itertools.product(range(4, 54), range(4, 44)))

    def objects_after(count):
        for height, width in itertools.islice(sizes, count):
            pipeline(torch.zeros(1, 3, height, width))
        gc.collect()
        return len(gc.get_objects()), len(recording._recordings)

    before, tapes = objects_after(400)
    after, more = objects_after(1600)
    assert len(pipeline._plans._made) == 64
    assert more <= tapes
    assert after - before < 400


def test_least_recently_used_goes_first():
    kept, made = Recent(2), []
    for key in "abac":  # c takes the place of b
        kept.get(key, lambda key=key: made.append(key) or key)
    assert made == ["a", "b", "c"]
    assert kept.get("a", lambda: "made again") == "a"
    assert kept.get("b", lambda: "made again") == "made again"
    assert len(kept) == 2


def test_a_copied_pipeline_plans_for_itself():
    pipeline = P.Pipeline([P.RandomAffine(10)], seed=3)
    x = torch.rand(2, 3, 8, 9)
    expected = pipeline(x, key=P.Key(1, 2))
    again = pickle.loads(pickle.dumps(pipeline))
    assert not len(again._plans._made)
    assert torch.equal(again(x, key=P.Key(1, 2)), expected)


ARITHMETIC = {
    "sums": lambda h, w: h + w - 3 + (5 - h) - +w,
    "products": lambda h, w: 2 * h * w * 3,
    "quotients": lambda h, w: h / w + 1 / h + w / 3,
    "whole quotients": lambda h, w: (h // 7, -h // 7, (h - w) // w, 1000 // h, h // w),
    "remainders": lambda h, w: (h % 7, -h % 32, h % w, 100 % w),
    "powers": lambda h, w: h**2 + (w / 2) ** 2,
    "roundings": lambda h, w: tuple(f(x) for f in (round, math.floor, math.ceil, math.trunc) for x in (h, h / 2, w / 4, -h / 4)),
    "signs": lambda h, w: (-h, abs(h - w), -(h / 2), abs(-w / 3)),
    "least": lambda h, w: (min(h, w), max(1, h - w), min(1.0, w / h)),
    "comparisons": lambda h, w: (h < w, h <= w, h > 7, h <= 7, h == w, h != w, 2 * h < w),
    "readings": lambda h, w: (int(h), int(w / 3), float(h), float(w / 3), f"{h}x{w:03d}", str(h), len(range(h - w))),
    "truth": lambda h, w: (bool(h - w), "yes" if h - 8 else "no"),
    "indices": lambda h, w: ("a", "b", "c")[h % 3],
    "roots": lambda h, w: math.sqrt(h * w),
}


@pytest.mark.parametrize("name", ARITHMETIC)
def test_arithmetic_is_that_of_python(name):
    function = ARITHMETIC[name]
    recorded = Recording(function, [8, 8])
    for h, w in [(8, 8), (9, 14), (33, 7), (1, 2), (640, 480), (2, 1), (16, 8)]:
        found, expected = recorded.play(np.array([[h, w]], np.float64)), function(h, w)
        assert found == expected
        assert repr(found) == repr(expected)
    assert not recorded._plainly


def test_what_is_not_read_is_recorded_once():
    recorded = Recording(lambda h, w: (h * w, round(h / 3), max(1, w)), [5, 6])
    for h, w in [(7, 8), (100, 3), (2, 2)]:
        assert recorded.play(np.array([[h, w]], np.float64)) == (h * w, round(h / 3), w)
    assert len(recorded._branches) == 1
    assert recorded.play(np.array([[3.0, 0.0]])) == (0, 1, 1)
    assert len(recorded._branches) == 2


def test_beside_tensors_a_number_is_one():
    def function(x, h, w):
        rows = torch.stack((x * h, x / w, h / x, w - x, torch.where(x > 0.2, x, h**2), torch.clamp(x, max=w / 100)))
        return rows.T, x < h / 50, torch.full_like(x, w)

    recorded = Recording(function, [(), 20, 30])
    for h, w in [(20, 30), (7, 9), (480, 640)]:
        x = torch.rand(11, dtype=torch.float64)
        rows = np.stack([x.numpy(), np.full(11, float(h)), np.full(11, float(w))], 1)
        for ours, theirs in zip(recorded.play(rows), function(x, h, w), strict=True):
            assert ours.dtype == theirs.dtype
            assert torch.equal(ours, theirs)
    assert not recorded._plainly


def test_values_of_samples_may_still_not_be_read():
    with pytest.raises(TapeError):
        Recording(lambda x, h: x * float(x + h), [(), 5])


def test_few_branches_are_kept():
    recorded = Recording(lambda h: (int(h),), [1], most=4)
    for h in range(1, 40):
        assert recorded.play(np.array([[float(h)]])) == (h,)
    assert len(recorded._branches) == 4


def test_errors_are_those_of_plain_ints():
    recorded = Recording(lambda h: 12 / (h - 3), [5])
    assert recorded.play(np.array([[7.0]])) == 3.0
    with pytest.raises(ZeroDivisionError):
        recorded.play(np.array([[3.0]]))
    with pytest.raises(TypeError):
        hash(Number(None, 0, 5))
    assert len(record(lambda x, h: [x * h], [(), 4]).code) == 1


@dataclass(frozen=True)
class Halves(P.Transform):
    """Looks at sizes in every way that a number does not bear."""

    how: str = "int"

    def segment(self, spec):
        size = {"int": (int(spec.height * 0.5) + 1, spec.width), "range": (len(range(0, spec.height, 2)), spec.width)}
        return WarpSpec(size.get(self.how, (spec.height // 2 + 1, spec.width)), along_axes=True, resamples=False)

    def lower(self, values, spec, like):
        if self.how == "tensor":
            shift = torch.tensor([spec.height / 4], dtype=like.dtype).round()
        elif self.how == "isinstance":
            shift = like[None] + (round(spec.height / 4) if isinstance(spec.height, int) else "no number")
        elif self.how == "float":
            shift = like[None] + round(float(spec.height) / 4)
        else:
            shift = like[None] + round(spec.height / 4)
        return Warp(scale_shift(1.0, 0.0, 1.0, shift, like))


@pytest.mark.parametrize("how", ["int", "range", "plain", "float", "tensor", "isinstance"])
def test_transforms_that_need_ints_have_them(how):
    pipeline = P.Pipeline([Halves(how), P.RandomHorizontalFlip(1.0)])
    for height, width in [(8, 5), (9, 5), (21, 30), (8, 6), (9, 5)]:
        x = torch.rand(2, 3, height, width)
        out = pipeline(x)
        top, rows = round(height / 4), (height + 1) // 2 if how == "range" else height // 2 + 1
        assert torch.equal(out, x[:, :, top : top + rows].flip(-1))


def test_what_no_tape_can_do_is_computed_for_every_size():
    pipeline = P.Pipeline([P.RandomLieAffine(), P.RandomHorizontalFlip()], seed=2)
    for height, width in SIZES:
        x = torch.rand(2, 3, height, width)
        out, record = pipeline(x, return_record=True)
        assert torch.equal(pipeline.apply(x, record), out)
