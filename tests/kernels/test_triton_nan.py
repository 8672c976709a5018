"""What is not a number shows where it does in the reference, by the maximum and minimum of a device (``interpreted.py``)."""

import pytest
import torch

from pellucid.segments.chain import AffineStage, ClipStage, HueStage

from .interpreted import DEVICE, runs  # noqa: F401
from .warps import reference
from .warps import triton as kernels

WHERE = ("image", "maps", "matrix", "offset", "fill", "turns", "mix", "shift")


def results(by, where, value, padding_mode, window=False):
    """The result and all gradients of a flagship, of which one number of the first sample is ``value``."""
    random = torch.Generator().manual_seed(5)
    draw = lambda *shape: torch.rand(shape, generator=random)  # noqa: E731
    tensors = {"image": draw(2, 3, 6, 7), "maps": torch.tensor([[[0.9, 0.1, 0.3], [-0.1, 0.8, 0.4]]] * 2)}
    tensors |= {"matrix": torch.eye(3) + 0.1 * draw(2, 3, 3), "offset": 0.1 * draw(2, 3), "fill": draw(2, 3)}
    tensors |= {"turns": draw(2), "mix": torch.eye(3) + 0.1 * draw(2, 3, 3), "shift": 0.1 * draw(2, 3)}
    tensors |= {"window": torch.tensor([[1.0, 1.0, 4.0, 4.0]] * 2)} if window else {}
    tensors = {name: tensor.to(DEVICE) for name, tensor in tensors.items()}
    tensors[where].flatten()[5 if where == "image" else 0] = value
    leaves = {name: tensor.requires_grad_() for name, tensor in tensors.items()}
    stages = [HueStage(leaves["turns"]), AffineStage(leaves["mix"], leaves["shift"]), ClipStage()]
    options = {name: leaves[name] for name in ("matrix", "offset", "fill", "window") if name in leaves}
    options |= {"size": (6, 7), "padding_mode": padding_mode, "epilogue": stages}
    out = by.warp(leaves["image"], leaves["maps"], **options)
    grads = torch.autograd.grad(out, list(leaves.values()), torch.ones_like(out))
    return {"out": out.detach(), **dict(zip(leaves, grads, strict=True))}


@pytest.mark.parametrize("where", [*WHERE, "window"])
@pytest.mark.parametrize("padding_mode", ["zeros", "reflection"])
def test_one_number_shows_where_the_reference_shows_it(where, padding_mode):
    found, truth = (results(by, where, torch.nan, padding_mode, window=where == "window") for by in (kernels, reference))
    torch.testing.assert_close(found["out"], truth["out"], equal_nan=True)
    if where != "window":
        assert torch.equal(found["maps"].isnan(), truth["maps"].isnan())
    assert all(torch.isfinite(tensor[1]).all() for tensor in found.values())  # the other sample is as it was
