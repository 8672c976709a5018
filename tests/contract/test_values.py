"""Every transform: identity, purity, batching, dtypes, replay."""

import re

import pytest
import torch

from pellucid import Key, Pipeline
from tests.cases import CASES, IDS, images, pipeline, size_of


def same(case, left, right):
    return torch.equal(left, right) if case.batch_exact else bool((left - right).abs().max() < 1e-6)


every = pytest.mark.parametrize("case", CASES, ids=IDS)


def test_every_transform_has_a_row():
    from pellucid import ALL

    assert {type(case.transform) for case in CASES} == set(ALL)


@every
def test_resting_form_changes_nothing(case):
    x = images(case, dtype=torch.float32)
    out = Pipeline([case.identity])(x)
    if case.exact_identity:
        assert torch.equal(out, x)
    else:
        assert (out - x).abs().max() < 3e-6


@every
def test_batch_equals_loop(case):
    x = images(case, batch=5, dtype=torch.float32)
    index = torch.arange(5)
    whole = pipeline(case)(x, key=Key(3, 2, index))
    rows = [slice(i, i + case.group) for i in range(0, 5, case.group)]
    single = torch.cat([pipeline(case)(x[row], key=Key(3, 2, index[row])) for row in rows])
    assert same(case, whole, single)


@every
@pytest.mark.parametrize("dtype", [torch.float32, torch.uint8], ids=str)
def test_shapes_and_dtypes_are_known_without_pixels(case, dtype):
    x = images(case, dtype=torch.float32)
    x = x if dtype.is_floating_point else (x.clamp(0, 1) * 255).to(dtype)
    made, empty = (pipeline(case)(image, key=Key(3, 2)) for image in (x, x.to("meta")))
    assert empty.is_meta
    assert (empty.shape, empty.dtype) == (made.shape, made.dtype)


@every
def test_prefix_of_a_larger_batch(case):
    x = images(case, batch=6, dtype=torch.float32)
    assert same(case, pipeline(case)(x)[:4], pipeline(case)(x[:4]))


@every
def test_what_lies_around_pictures_in_memory_is_not_read(case):
    x = images(case, dtype=torch.float32)
    around = torch.full((3 * x.numel(),), float("nan"))
    within = around[x.numel() : -x.numel()].view_as(x).copy_(x)
    found = []
    for leaf in (x.clone().requires_grad_(), within.requires_grad_()):
        out = pipeline(case)(leaf)
        found.append((out, torch.autograd.grad(out.sum(), leaf)[0] if out.requires_grad else out))
    assert all(torch.equal(one, other) for one, other in zip(*found, strict=True))


@every
def test_input_and_global_generator_untouched(case):
    x = images(case, dtype=torch.float32)
    before, version = x.clone(), x._version
    torch.manual_seed(11)
    state = torch.get_rng_state()
    out = pipeline(case)(x)
    assert torch.equal(torch.get_rng_state(), state)
    assert x._version == version
    assert torch.equal(x, before)
    assert out.data_ptr() != x.data_ptr()


@every
def test_replay_is_bit_identical(case):
    x = images(case, dtype=torch.float32)
    augment = pipeline(case)
    out, record = augment(x, return_record=True)
    assert torch.equal(augment.apply(x, record), out)
    later = pipeline(case)
    rest = slice(case.group, None)
    assert torch.equal(later.apply(x[rest], record[rest]), out[rest])


@every
def test_saved_record_replays(case, tmp_path):
    from pellucid import Record

    x = images(case, dtype=torch.float32)
    augment = pipeline(case)
    out, record = augment(x, return_record=True)
    record.save(tmp_path / "record.pt")
    assert torch.equal(augment.apply(x, Record.load(tmp_path / "record.pt")), out)


@every
def test_seeds_and_steps_differ(case):
    x = images(case, batch=16, dtype=torch.float32)
    augment = pipeline(case)
    first, second = augment(x), augment(x)
    draws = [draw.distribution.span() for draw in augment.plan(augment._spec(augment._parse(x))).draws]
    random = any(low < high for low, high in draws)  # a number that is given is drawn, too, and always the same
    assert torch.equal(first, second) != random
    assert torch.equal(pipeline(case)(x), first)


@every
def test_same_on_batch_shares_the_draw(case):
    x = images(case, batch=1, dtype=torch.float32).expand(4, -1, -1, -1)
    out = Pipeline([case.transform], same_on_batch=True, seed=2)(x)
    assert torch.equal(out, out[:1].expand_as(out))


@every
def test_unbatched_empty_and_video(case):
    x = images(case, batch=4, dtype=torch.float32)
    one = pipeline(case)(x[0])
    assert torch.equal(one, pipeline(case)(x[:1])[0])
    for dtype in (torch.float32, torch.uint8):
        empty = pipeline(case)(x[:0].to(dtype))
        assert empty.shape == (0, *one.shape)
        assert empty.dtype == pipeline(case)(x.to(dtype)).dtype
    video = pipeline(case)(torch.stack((x, x), 1))
    assert video.shape[:2] == (4, 2)
    assert torch.equal(video[:, 0], pipeline(case)(x))
    assert torch.equal(video[:, 0], video[:, 1])


@every
@pytest.mark.parametrize("dtype", [torch.uint8, torch.float16, torch.bfloat16, torch.float64])
def test_dtype_is_kept_and_close(case, dtype):
    x = images(case, dtype=torch.float64)
    truth = pipeline(case)(x)
    given = torch.round(x * 255).to(torch.uint8) if dtype == torch.uint8 else x.to(dtype)
    out = pipeline(case)(given)
    assert out.dtype == (torch.float32 if dtype == torch.uint8 and case.name == "Normalize" else dtype)
    assert out.shape == truth.shape
    if case.jumps and dtype != torch.float64:
        if dtype == torch.uint8:
            return  # 8-bit pictures have steps of their own: tests/estimators/test_discrete.py has them against torchvision
        truth = pipeline(case)(given.double())
    if case.name in ("Pad", "PadIfNeeded", "Letterbox", "RandomZoomOut", "ScaleJitter") and dtype == torch.uint8:
        return  # its fill is in the image's own units, which differ
    scale = 255.0 if out.dtype == torch.uint8 else 1.0
    tolerance = {torch.uint8: 1.5 / 255, torch.float16: 2e-3, torch.bfloat16: 1.6e-2, torch.float64: 0.0}[dtype]
    if out.dtype == torch.uint8:
        truth = truth.clamp(0, 1)
    gain = 5.0 if case.name in ("Normalize", "ColorJitter", "RandomHue", "RandomGamma") else 1.5  # slopes of the maps themselves
    assert (out.double() / scale - truth).abs().max() <= tolerance * gain


@every
@pytest.mark.parametrize("layout", ["channels_last", "expanded", "strided"])
def test_layouts(case, layout):
    x = images(case, dtype=torch.float32)
    other = {
        "channels_last": lambda: x.to(memory_format=torch.channels_last),
        "expanded": lambda: x[:1].expand(3, -1, -1, -1),
        "strided": lambda: torch.stack((x, x), -1)[..., 0],
    }[layout]()
    assert torch.equal(pipeline(case)(other), pipeline(case)(other.contiguous()))


@every
def test_any_number_of_channels_or_a_clear_error(case):
    from pellucid import InvalidArgument

    errors = " ".join(type(case.transform).__doc__.partition("Errors:")[2].split())
    needs_three = "other than 3 channels" in errors or "other than the image's channels" in errors
    needs_rgb = needs_three or "other than 1 or 3 channels" in errors
    for channels in (1, 2, 5):
        x = images(case, channels=channels, dtype=torch.float32)
        if needs_three or (needs_rgb and channels != 1):
            with pytest.raises(InvalidArgument, match=str(channels)):
                pipeline(case)(x)
        else:
            assert pipeline(case)(x).shape[1] == channels


@every
def test_callable_on_its_own(case):
    x = images(case, dtype=torch.float32)
    assert torch.equal(case.transform(x, key=Key(5, 0)), Pipeline([case.transform], seed=5)(x))


@every
def test_value_semantics(case):
    import pickle

    copy = pickle.loads(pickle.dumps(case.transform))
    assert copy == case.transform
    assert hash(copy) == hash(case.transform)
    with pytest.raises(AttributeError):
        case.transform.p = 0.3


@every
def test_serialisation_round_trip(case, tmp_path):
    augment = pipeline(case)
    for suffix in ("toml", "json"):
        path = tmp_path / f"pipeline.{suffix}"
        augment.save(path)
        again = Pipeline.load(path)
        assert again.transforms == augment.transforms
        assert again.to_dict() == augment.to_dict()
    x = images(case, dtype=torch.float32)
    assert torch.equal(again(x), Pipeline([case.transform], seed=5)(x))


@every
def test_plan_is_static_hashable_and_printable(case):
    from pellucid.engine.plan import make_plan
    from tests.cases import spec_of

    plan = make_plan((case.transform,), spec_of(case))
    assert hash(plan) == hash(make_plan((case.transform,), spec_of(case)))
    assert plan == make_plan((case.transform,), spec_of(case))
    assert re.search(r"\[\d", str(plan))
    assert plan.size_in == size_of(case)
