"""Forward mode of the compiled resize: the reference's tangents, by one pass, while pictures, windows and colours move."""

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from torch.func import jacfwd, jacrev, jvp

from pellucid import ColorJitter, Key, Normalize, Pipeline, RandomHorizontalFlip, RandomResizedCrop, Resize
from pellucid.kernels.resize import reference

from .resizes import resizes
from .test_warp_tangents import Counting, along_draws, floating, refuse
from .warps import Call, resize

F64 = torch.float64


def through(call, impl):
    def run(tensors):
        return Call(tensors, call.options, call.stages, call.layout).run(
            lambda *given, **options: resize(*given, **options, impl=impl)
        )

    return run


@settings(max_examples=24, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)
@given(resizes())
def test_tangents_equal_the_reference_in_double(call):
    call, generator = call.to(F64), torch.Generator().manual_seed(1)
    names = list(call.tensors)
    changes = {n: torch.randn(t.shape, dtype=F64, generator=generator) for n, t in call.tensors.items()}
    for moving in (names, names[:1], names[1:]):  # all, the picture, all but the picture
        by = {n: changes[n] if n in moving else torch.zeros_like(changes[n]) for n in names}
        (out, along), (wanted, expected) = (jvp(through(call, impl), (call.tensors,), (by,)) for impl in ("cpu", "reference"))
        assert (out - wanted).abs().max() <= 1e-12 * (1 + wanted.abs().max())
        assert (along - expected).abs().max() <= 1e-9 * (1 + expected.abs().max())


STEPS = {
    "crop": [RandomResizedCrop((8, 9))],
    "bicubic, flipped, normalised": [
        RandomResizedCrop((8, 9), interpolation="bicubic"),
        RandomHorizontalFlip(),
        Normalize(0.5, 0.2),
    ],
    "sharp": [RandomResizedCrop((5, 4), antialias=False)],
    "hue and clip behind": [RandomResizedCrop((8, 9)), ColorJitter(0.4, 0.4, saturation=0.4, hue=0.1)],
}


@pytest.mark.parametrize("name", STEPS)
@pytest.mark.parametrize("picture_too", [False, True])
def test_drawn_windows(name, picture_too, monkeypatch):
    image, change = torch.rand(2, 2, 3, 19, 21, dtype=F64, generator=torch.Generator().manual_seed(0))
    slow, fast = (Pipeline(STEPS[name], impl=impl) for impl in ("reference", "cpu"))
    drawn = slow.draw(image, key=Key(3, 4))
    by = {name: 0.01 * torch.ones_like(value) for name, value in floating(drawn).items()}
    along = along_draws(drawn, image, change, by, picture_too=picture_too)
    expected = along(slow)
    monkeypatch.setattr(reference, "resize", refuse)
    with Counting() as counting:
        found = along(fast)
    assert counting.seen["pellucid.cpu_resize_dual"] == 1
    assert expected.abs().max() > 1e-3
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)


def test_columns_equal_rows():
    image = torch.rand(1, 1, 9, 8, dtype=F64, generator=torch.Generator().manual_seed(0))
    sized = Pipeline([RandomResizedCrop((3, 3)), Resize((2, 4))])
    record = sized.draw(image, key=Key(1, 1))
    value = record.params[0]["area"] if "area" in record.params[0] else next(iter(record.params[0].values()))
    name = next(n for n, v in record.params[0].items() if v is value)

    def run(value):
        return sized.apply(image, record.with_param(0, name, value))

    torch.testing.assert_close(jacfwd(run)(value), jacrev(run)(value))
