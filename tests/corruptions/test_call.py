"""What holds for every corruption: keys, dtypes, layouts, gradients, errors."""

import pytest
import torch
from torch.autograd import gradcheck

from pellucid import InvalidArgument, InvalidType, Key
from pellucid.corruptions import GRADIENTS, NAMES, corrupt
from tests.refusals import refused

FROST = [torch.rand(3, 40, 50, generator=torch.Generator().manual_seed(k)) for k in range(2)]
every = pytest.mark.parametrize("name", NAMES)


def run(x, name, severity=3, key=None):
    scale = 1.0 if x.dtype.is_floating_point else 255.0
    frost = {"frost": [picture * scale for picture in FROST]} if name == "frost" else {}
    return corrupt(x, name, severity, key=Key(4, 1) if key is None else key, **frost)


def test_the_fifteen():
    assert len(NAMES) == 15 == len(GRADIENTS)


@every
def test_a_key_names_the_sample_whatever_is_beside_it(name):
    x = torch.rand(3, 3, 16, 20)
    state = torch.get_rng_state()
    whole = run(x, name)
    assert torch.equal(torch.get_rng_state(), state)
    last = run(x[2:], name, key=Key(4, 1, torch.tensor([2])))
    torch.testing.assert_close(whole[2:], last, atol=2e-6, rtol=0)
    assert x._version == 0
    twins = run(x[:1].expand(2, -1, -1, -1).contiguous(), name)
    fixed = name in ("defocus_blur", "zoom_blur", "brightness", "contrast", "pixelate", "jpeg_compression")
    assert torch.allclose(twins[0], twins[1], atol=1e-6) == fixed


@every
@pytest.mark.parametrize("dtype", [torch.uint8, torch.float16, torch.float64])
def test_dtypes_one_image_and_none(name, dtype):
    x = (torch.rand(2, 3, 16, 20) * (255 if dtype == torch.uint8 else 1)).to(dtype)
    out = run(x, name)
    assert out.dtype == dtype
    assert out.shape == x.shape
    assert run(x[0], name).shape == (3, 16, 20)
    assert run(x[:0], name).shape == (0, 3, 16, 20)
    assert float(out.min()) >= 0
    assert float(out.max()) <= (255 if dtype == torch.uint8 else 1)


@every
def test_the_gradient_is_the_declared_one(name):
    x = (0.35 + 0.3 * torch.rand(1, 3, 5, 4, dtype=torch.float64)).requires_grad_()
    (gradient,) = torch.autograd.grad(run(x, name, 1).square().sum(), x)
    assert gradient.isfinite().all()
    assert (gradient != 0).any()
    if not GRADIENTS[name].startswith("surrogate"):
        assert gradcheck(lambda image: run(image, name, 1), (x,), fast_mode=False)


def test_a_surrogate_of_glass_is_the_adjoint_of_its_moves():
    """Without the rounding to bytes the blur is linear, and this is its slope: it preserves the sum that each source hands on."""
    x = torch.rand(1, 3, 16, 16, dtype=torch.float64, requires_grad=True)
    g = torch.rand(1, 3, 16, 16, dtype=torch.float64)
    (gradient,) = torch.autograd.grad((run(x, "glass_blur") * g).sum(), x)
    small = 1e-2 * torch.rand(1, 3, 16, 16, dtype=torch.float64)
    # The rounding moves each value by less than a level; the mean over many of them shows the slope.
    change = ((run(x + 40 * small, "glass_blur") - run(x, "glass_blur")) * g).sum().detach()
    assert abs(float(change) / float((gradient * 40 * small).sum()) - 1) < 0.02


def test_errors():
    x = torch.rand(2, 3, 12, 12)
    refused(InvalidArgument, "name", corrupt, x, "fogg", key=Key(0))
    refused(InvalidArgument, "severity", corrupt, x, "fog", 0, key=Key(0))
    refused(InvalidArgument, "severity", corrupt, x, "fog", 6, key=Key(0))
    refused(InvalidArgument, "severity", corrupt, x, "fog", True, key=Key(0))
    refused(InvalidArgument, "severity", corrupt, x, "fog", 2.0, key=Key(0))
    refused(InvalidType, "key", corrupt, x, "fog", key=3)
    refused(InvalidArgument, r"key\.index", corrupt, x, "fog", key=Key(0, 0, torch.arange(3)))
    refused(InvalidArgument, "frost", corrupt, x, "frost", key=Key(0))
    refused(InvalidArgument, "frost", corrupt, x, "fog", key=Key(0), frost=FROST)
    refused(InvalidArgument, "at least 12x12", corrupt, x, "frost", key=Key(0), frost=[torch.rand(3, 9, 9)])
    refused(InvalidArgument, "frost", corrupt, x, "frost", key=Key(0), frost=[])
    refused(InvalidType, "frost", corrupt, x, "frost", key=Key(0), frost=[1, 2])


def test_a_folder_without_pictures(tmp_path):
    refused(InvalidArgument, "frost", corrupt, torch.rand(2, 3, 12, 12), "frost", key=Key(0), frost=tmp_path)
