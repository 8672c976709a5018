"""A tape computes what the recorded code computes, and refuses what it cannot."""

import gc
import math

import numpy as np
import pytest
import torch

from pellucid.core.tape import Recording, TapeError, cached_recording, is_plain_eager, plain, record
from pellucid.geometry.matrices import affine_src_from_dst, inverse

F64 = torch.float64


def samples(count=19, numbers=4):
    generator = torch.Generator().manual_seed(1)
    x = 4 * torch.rand(count, numbers, dtype=F64, generator=generator) - 2
    x[0], x[1], x[2] = 0.0, -0.0, 1.0
    x[3, 0], x[4, -1], x[5, numbers // 2] = torch.inf, -torch.inf, torch.nan
    x[6] = x[6, 0]  # ties
    return x


def play(tape, x):
    (found,) = tape.play(x.contiguous().numpy())
    return torch.from_numpy(found)


EXACT = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: 1.0 - x - y,
    "mul": lambda x, y: x * y * 1.0,
    "div": lambda x, y: x / y,
    "reciprocal": lambda x, y: 1.0 / x,
    "neg": lambda x, y: -x,
    "abs": lambda x, y: x.abs(),
    "floor": lambda x, y: x.floor(),
    "ceil": lambda x, y: x.ceil(),
    "trunc": lambda x, y: x.trunc(),
    "round": lambda x, y: torch.round(2 * x),
    "remainder": torch.remainder,
    "remainder by a number": lambda x, y: torch.remainder(3 * x, -1.5),
    "minimum": torch.minimum,
    "maximum": torch.maximum,
    "clamp": lambda x, y: torch.clamp(x, -1.0, 1.0),
    "clamp above": lambda x, y: torch.clamp(x, max=0.5),
    "comparisons": lambda x, y: torch.where(x < y, x, 0.0) + (x <= y) * x + (x > y) * y + (x >= y) + (x == y) * x + (x != y) * y,
    "logic": lambda x, y: ((x > 0) & (y > 0)) * x + ((x > 0) | ~(y > 0)) * y,
    "where": lambda x, y: torch.where(x > y, x, 2.0),
    "isfinite": lambda x, y: torch.isfinite(x).to(F64),
    "square": lambda x, y: x**2,
    "single precision": lambda x, y: x.to(torch.float32).to(F64),
    "largest": lambda x, y: torch.stack((x, y, x * y), -1).amax(-1),
    "smallest": lambda x, y: torch.stack((x, y, x * y), -1).amin(-1),
    "sum of nothing": lambda x, y: torch.stack((x, y), -1)[:, :0].sum(-1) + x,
    "moves": lambda x, y: torch.stack((x, y, torch.full_like(x, 3.0)), -1).flip(-1)[:, 1:].sum(-1),
}


@pytest.mark.parametrize("name", EXACT)
def test_exact_operations_have_the_same_bits(name):
    x = samples()
    tape = record(lambda a, b: [EXACT[name](a, b)], [(), ()], exact=True)
    expected = EXACT[name](x[:, 0], x[:, 1]).to(F64)
    np.testing.assert_array_equal(play(tape, x[:, :2])[:, 0].numpy(), expected.numpy())


@pytest.mark.parametrize("function", [torch.sqrt, torch.cos, torch.sin, torch.tan, torch.exp, torch.log, lambda x: x**1.7])
def test_functions_agree_to_rounding_and_are_not_exact(function):
    x = samples(numbers=1).abs()
    tape = record(lambda a: [function(a)], [()])
    torch.testing.assert_close(play(tape, x)[:, 0], function(x[:, 0]), rtol=1e-15, atol=1e-15, equal_nan=True)
    with pytest.raises(TapeError):
        record(lambda a: [function(a)], [()], exact=True)


def test_sorting_is_stable():
    x = torch.tensor([[3.0, 1.0, 2.0, 0.0], [1.0, 1.0, 0.0, 0.0], [0.0, 2.0, 2.0, 2.0]], dtype=F64)
    tape = record(lambda row: [torch.argsort(row, dim=-1, stable=True)], [(4,)], exact=True)
    assert torch.equal(play(tape, x), torch.argsort(x, dim=-1, stable=True).to(F64))


def test_matrices():
    def function(degrees, shift, scale, shear):
        matrix = affine_src_from_dst(
            center=(3.0, 4.5), degrees=degrees, translate=(shift[:, 0], shift[:, 1]), shear=(shear[:, 0], shear[:, 1]), scale=scale
        )
        return inverse(matrix), matrix @ inverse(matrix), matrix[:, 0]

    x = torch.rand(9, 6, dtype=F64) + 0.5
    arguments = x[:, 0] * 90, x[:, 1:3], x[:, 3], x[:, 4:]
    recording = Recording(function, [(), (2,), (), (2,)])
    rows = torch.cat((arguments[0][:, None], x[:, 1:]), 1)
    torch.testing.assert_close(recording.play(rows.numpy()), function(*arguments), rtol=1e-13, atol=1e-13)


def test_structure_dtypes_and_constants_come_back():
    def function(x, order):
        return {"a": (x, None), "b": order.to(torch.int64), "c": torch.tensor([[1.0, math.pi]], dtype=F64), "d": x > 0.5}

    x = torch.tensor([[0.25, 1.0, 2.0], [0.75, 0.0, 1.0]], dtype=F64)
    result = Recording(function, [(), (2,)]).play(x.numpy())
    assert torch.equal(result["a"][0], x[:, 0])
    assert result["a"][1] is None
    assert torch.equal(result["b"], x[:, 1:].to(torch.int64))
    assert torch.equal(result["c"], torch.tensor([[1.0, math.pi]] * 2, dtype=F64))
    assert torch.equal(result["d"], torch.tensor([False, True]))


def test_dead_code_is_dropped_and_common_terms_are_computed_once():
    tape = record(lambda x: [torch.sin(x).exp() * 0 + x, (x + 1) * (x + 1)][1:], [()])
    assert len(tape.code) == 2


@pytest.mark.parametrize(
    "function",
    [
        lambda x: [torch.linalg.inv(x.expand(3, 3))],
        lambda x: [x * float(x)],
        lambda x: [x if x > 0 else -x],
        lambda x: [torch.div(x, 0.3, rounding_mode="floor")],
        lambda x: [torch.erfinv(x)],
        lambda x: [x.to(torch.float32) * 2],
    ],
    ids=["no rule", "reads a value", "branches", "option", "unknown function", "arithmetic in single precision"],
)
def test_what_cannot_be_taped_says_so(function):
    with pytest.raises(TapeError):
        record(function, [()])


def test_empty_batches_and_many_samples():
    tape = record(lambda x: [x * 2], [()])
    for count in (0, 1, 7, 8, 9, 1000):
        x = torch.arange(float(count), dtype=F64)[:, None]
        assert torch.equal(play(tape, x), 2 * x)


def test_recordings_live_as_long_as_their_owner():
    class Owner:
        pass

    owner, calls = Owner(), []

    def make():
        calls.append(1)
        return "made"

    assert cached_recording(owner, "key", make) == cached_recording(owner, "key", make) == "made"
    assert len(calls) == 1
    del owner
    gc.collect()
    again = Owner()
    assert cached_recording(again, "key", make) == "made"
    assert len(calls) == 2


def test_who_is_listening():
    assert is_plain_eager()
    seen = []
    torch.func.vmap(lambda x: seen.append(is_plain_eager()) or x)(torch.ones(2))
    with torch.autograd.forward_ad.dual_level():
        seen.append(is_plain_eager())
    with torch._subclasses.FakeTensorMode():
        seen.append(is_plain_eager())
    torch.jit.trace(lambda x: seen.append(is_plain_eager()) or x, torch.ones(2), check_trace=False)
    torch.compile(lambda x: x + is_plain_eager(), backend="eager", fullgraph=True)(torch.ones(2))
    assert seen == [False] * 4
    leaf = torch.ones(2, dtype=F64, requires_grad=True)
    assert not plain([leaf])
    assert not plain([torch.ones(2)])
    with torch.no_grad():
        assert plain([leaf])
