"""What every function and layer here promises: compile, checkpoint, vmap, both derivatives, inputs left alone, no hidden state."""

import pytest
import torch
from torch.utils.checkpoint import checkpoint

from pellucid.nn import (
    BagNorm,
    BatchNorm1d,
    BatchNorm2d,
    BatchNorm3d,
    BatchRenorm,
    CholeskyWhitening,
    DropoutBatchNorm,
    GhostBatchNorm,
    GroupWhitening,
    PatchNorm,
    PCAWhitening,
    SyncBatchNorm,
    ZCAWhitening,
    moments,
    standardize,
    standardize_bags,
    zca_whiten,
)

POLICIES = ["full", "detached", "mean_only", "var_only"]
BAGS = torch.tensor([0, 2, 0, 2, 2, 0])
KEEP = torch.tensor([1, 1, 0, 1, 1, 0], dtype=torch.bool)
MASK = KEEP.reshape(6, 1, 1, 1)
WEIGHT = torch.tensor([1.0, 2, 0, 1, 3, 1]).reshape(6, 1, 1, 1)


def images(dtype=torch.float64):
    return torch.randn(6, 4, 2, 3, dtype=dtype, generator=torch.Generator().manual_seed(0))


class Call(torch.nn.Module):
    """A function, or a layer with fixed further arguments, as a module of one tensor."""

    def __init__(self, f, *args, **kwargs):
        super().__init__()
        self.f, self.args, self.kwargs = f, args, kwargs

    def forward(self, x):
        return self.f(x, *self.args, **self.kwargs)


def fitted(layer):
    return Call(layer, include_fit=True)


def flat(layer):
    return torch.nn.Sequential(torch.nn.Flatten(2), layer)


CASES = {
    **{f"standardize {p}": lambda p=p: Call(standardize, (0, 2, 3), statistics=p) for p in POLICIES},
    **{f"standardize {p} rows": lambda p=p: Call(standardize, (1, 3), statistics=p, unbiased=True) for p in POLICIES},
    **{
        f"standardize {p} weighted": lambda p=p: Call(standardize, (0, 2), statistics=p, weight=WEIGHT, mask=MASK) for p in POLICIES
    },
    **{f"BatchNorm2d {p}": lambda p=p: BatchNorm2d(4, statistics_grad=p) for p in POLICIES},
    "BatchNorm2d momentum None": lambda: BatchNorm2d(4, momentum=None),
    "BatchNorm2d momentum None detached": lambda: BatchNorm2d(4, momentum=None, statistics_grad="detached"),
    "BatchNorm2d plain": lambda: BatchNorm2d(4, affine=False, track_running_stats=False, statistics_grad="var_only"),
    "BatchNorm2d masked": lambda: Call(BatchNorm2d(4), mask=MASK),
    "BatchNorm2d weighted": lambda: Call(BatchNorm2d(4), weight=WEIGHT),
    "BatchNorm2d from another": lambda: Call(BatchNorm2d(4), statistics_from=2 * images().float() + 1),
    "BatchNorm2d eval": lambda: BatchNorm2d(4).eval(),
    "BatchNorm1d": lambda: flat(BatchNorm1d(4)),
    "BatchNorm3d": lambda: torch.nn.Sequential(torch.nn.Unflatten(3, (1, 3)), BatchNorm3d(4, statistics_grad="detached")),
    "DropoutBatchNorm": lambda: Call(DropoutBatchNorm(4), keep=torch.arange(24).reshape(6, 4, 1, 1) % 3 > 0),
    "GhostBatchNorm": lambda: GhostBatchNorm(4, ghost_size=3),
    "BatchRenorm": lambda: BatchRenorm(4, 1.5, 0.2),
    "SyncBatchNorm": lambda: SyncBatchNorm(4),
    **{f"BagNorm {p}": lambda p=p: Call(BagNorm(4, statistics_grad=p), BAGS, num_bags=3, mask=KEEP) for p in POLICIES},
    **{f"PatchNorm {p}": lambda p=p: PatchNorm(statistics=p) for p in POLICIES},
    "PatchNorm two steps": lambda: PatchNorm(fused=False),
    "zca_whiten": lambda: Call(zca_whiten, eps=1e-1, detach_transforms=False),
    "ZCAWhitening": lambda: fitted(ZCAWhitening(eps=1e-1)),
    "PCAWhitening": lambda: fitted(PCAWhitening(dim=1, eps=1e-1, detach_transforms=False)),
    "CholeskyWhitening": lambda: fitted(CholeskyWhitening(eps=1e-1, detach_transforms=False)),
    "GroupWhitening": lambda: GroupWhitening(4, group_size=2),
    "GroupWhitening exact": lambda: GroupWhitening(4, group_size=2, iterations=None),
    "GroupWhitening detached": lambda: GroupWhitening(4, group_size=2, statistics_grad="detached"),
}
# Under these a second derivative is that of the surrogate, which finite differences of the function cannot show.
SURROGATE = [name for name in CASES if any(p in name for p in ("detached", "only"))] + [
    "PatchNorm two steps",
    "ZCAWhitening",
    "BatchRenorm",
    "BatchNorm2d plain",
    "BatchNorm3d",
]
# functorch cannot write a mapped result into a buffer that is not mapped: layers that track statistics refuse, as torch's do.
MAPPED = [
    name
    for name in CASES
    if name.startswith(("standardize", "PatchNorm", "BagNorm", "zca", "BatchNorm2d eval", "BatchNorm2d plain"))
]


def build(name, dtype=torch.float64):
    torch.manual_seed(0)
    call = CASES[name]().to(dtype)
    for key, value in getattr(call, "kwargs", {}).items():
        if isinstance(value, torch.Tensor) and value.is_floating_point():
            call.kwargs[key] = value.to(dtype)
    return call


def gradient(f, x):
    leaf = x.clone().requires_grad_()
    out = f(leaf)
    return out.detach(), torch.autograd.grad(out.pow(3).sum(), leaf)[0]


def buffers(f):
    return [b for m in (f, getattr(f, "f", None)) if isinstance(m, torch.nn.Module) for b in m.buffers()]


# One graph for each kind of code; the others differ from these by a detach, a mask or a size, and are built in the slow run.
GRAPHS = ("standardize full weighted", "BatchNorm2d full", "BatchRenorm", "BagNorm full", "PatchNorm full", "GroupWhitening")


@pytest.mark.parametrize("name", [n if n in GRAPHS else pytest.param(n, marks=pytest.mark.slow) for n in CASES])
def test_compiles_into_one_graph(name):
    torch.compiler.reset()
    eager, x = build(name, torch.float32), images(torch.float32)
    twin = build(name, torch.float32)
    compiled = torch.compile(twin, fullgraph=True, backend="aot_eager")
    for _ in range(2):  # the second step starts from the first one's running statistics
        torch.testing.assert_close(gradient(compiled, x), gradient(eager, x), rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(buffers(twin), buffers(eager))


@pytest.mark.parametrize("name", ["standardize full rows", "BatchNorm2d detached"])
def test_five_batch_sizes_take_two_graphs(name):
    torch.compiler.reset()
    graphs = []
    f = build(name, torch.float32)
    compiled = torch.compile(f, fullgraph=True, backend=lambda graph, _: graphs.append(graph) or graph.forward)
    for size in (4, 5, 6, 7, 9):
        x = torch.randn(size, 4, 2, 3)
        torch.testing.assert_close(compiled(x), f(x))
    assert 1 <= len(graphs) <= 2


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_compiles_with_inductor(name):
    torch.compiler.reset()
    x = images(torch.float32)
    compiled = torch.compile(build(name, torch.float32), fullgraph=True)
    torch.testing.assert_close(gradient(compiled, x), gradient(build(name, torch.float32), x), rtol=1e-4, atol=1e-5)


# Batch renormalisation reads running statistics that it also moves; its documentation excludes checkpointing.
@pytest.mark.parametrize("name", [n for n in CASES if n != "BatchRenorm"])
def test_checkpoint_gives_the_same_gradient(name):
    x = images()
    f = build(name)
    plain = gradient(build(name), x)
    recomputed = gradient(lambda t: checkpoint(f, t, use_reentrant=False), x)
    for a, b in zip(plain, recomputed, strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize("name", MAPPED)
def test_vmap_is_a_loop(name):
    x = torch.stack([images(), images().flip(0) * 2])
    f = build(name)
    torch.testing.assert_close(torch.vmap(f)(x), torch.stack([f(part) for part in x]), rtol=0, atol=1e-11)
    grads = torch.vmap(torch.func.grad(lambda t: f(t).pow(3).sum()))(x)
    torch.testing.assert_close(grads, torch.stack([gradient(f, part)[1] for part in x]), rtol=0, atol=1e-9)


@pytest.mark.parametrize("name", CASES)
def test_input_and_global_generator_are_left_alone(name):
    x = images()
    f = build(name)
    state = torch.get_rng_state()
    gradient(f, x)
    assert x._version == 0
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(x, images())


@pytest.mark.parametrize("name", [n for n in CASES if n not in SURROGATE])
def test_both_derivatives_by_finite_differences(name):
    f, x = build(name), images()[:, :, :1].contiguous().requires_grad_()
    assert torch.autograd.gradcheck(f, x, fast_mode=True)
    assert torch.autograd.gradgradcheck(f, x, fast_mode=True, atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("name", [n for n in CASES if n not in SURROGATE])
def test_both_derivatives_entry_by_entry(name):
    f, x = build(name), images()[:, :, :1].contiguous().requires_grad_()
    assert torch.autograd.gradcheck(f, x)
    assert torch.autograd.gradgradcheck(f, x)


@pytest.mark.parametrize("name", SURROGATE)
def test_surrogates_are_surrogates(name):
    """A declaration that nobody could violate would be none: finite differences must disagree."""
    f, x = build(name), images()[:, :, :1].contiguous().requires_grad_()
    with pytest.raises(RuntimeError, match="Jacobian mismatch"):
        torch.autograd.gradcheck(f, x)


def test_moments_match_the_public_layers():
    x = images()
    mean, var, samples = moments(x, (0, 2, 3))
    torch.testing.assert_close((x - mean) / (var + 1e-5).sqrt(), BatchNorm2d(4, affine=False).double()(x), rtol=0, atol=1e-12)
    assert samples.item() == 36
    assert standardize_bags(x, BAGS, num_bags=3).shape == x.shape
