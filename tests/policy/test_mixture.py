"""Mixtures of chains, AugMix made of them, and functions as steps."""

import numpy as np
import pytest
import scipy.stats
import torch

import pellucid as P
from pellucid import InvalidArgument, InvalidType, Key, Pipeline
from pellucid.policy import AugMix
from pellucid.policy.operations import ORDER
from pellucid.random.distributions import Dirichlet
from tests.policy.test_published import peer, pictures
from tests.refusals import refused


def floats(batch=4):
    return torch.rand(batch, 3, 9, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


def test_a_mixture_is_the_sum_of_its_chains():
    chains = [[P.RandomRotation(30), P.RandomInvert(p=0.5)], [P.RandomGaussianBlur(3, p=1.0)]]
    augment, x = Pipeline([P.Mixture(chains)], seed=1), floats()
    out, record = augment(x, return_record=True)
    drawn = record.params[0]
    total = drawn["share"][:, None, None, None] * x
    for k, chain in enumerate(chains):
        inner = Pipeline(chain)
        own = inner.draw(x)
        for i, values in enumerate(own.params):
            for name in values:
                values[name] = drawn[f"{k}_{i}_{name}"]
        total = total + ((1.0 - drawn["share"]) * drawn["weights"][:, k])[:, None, None, None] * inner.apply(x, own)
    torch.testing.assert_close(out, total, rtol=0, atol=1e-12)
    assert torch.equal(augment.apply(x, record), out)


def test_weights_get_their_gradient():
    augment, x = Pipeline([P.Mixture([P.RandomInvert(p=1.0), P.RandomHorizontalFlip(p=1.0)])], seed=1), floats(2)
    record = augment.draw(x)

    def mixed(x, share, weights):
        record.params[0].update(share=share, weights=weights)
        return augment.apply(x, record)

    given = [part.clone().requires_grad_() for part in (x, record.params[0]["share"], record.params[0]["weights"])]
    assert torch.autograd.gradcheck(mixed, given, fast_mode=False)
    assert torch.autograd.gradgradcheck(mixed, given, fast_mode=True)


@pytest.mark.parametrize("alpha", [1.0, 0.3, 2.5])
@pytest.mark.parametrize("n", [2, 3, 5])
def test_weights_are_dirichlet(n, alpha):
    distribution = Dirichlet(n, alpha)
    u = torch.rand(3000, distribution.words, dtype=torch.float64, generator=torch.Generator().manual_seed(n))
    weights = distribution.sample(u, {})
    torch.testing.assert_close(weights.sum(1), torch.ones(3000, dtype=torch.float64), rtol=0, atol=1e-12)
    for column in weights.T:
        assert scipy.stats.kstest(column.numpy(), scipy.stats.beta(alpha, (n - 1) * alpha).cdf).pvalue > 1e-3


def test_gamma_quantiles_are_scipys():
    from pellucid.random.internal import _gamma_quantile

    u = torch.tensor([1e-6, 0.01, 0.3, 0.9, 1 - 1e-6], dtype=torch.float64)
    for alpha in (0.3, 1.7, 9.0):
        np.testing.assert_allclose(_gamma_quantile(u, alpha).numpy(), scipy.stats.gamma(alpha).ppf(u.numpy()), rtol=1e-9)


@pytest.mark.parametrize("name", ORDER)
def test_torchvisions_operations_have_its_magnitudes(name):
    of, signed = peer().AugMix._AUGMENTATION_SPACE[name]
    theirs = of(10, 90, 90)
    augment = AugMix("torchvision", severity=10)
    assert set(peer().AugMix._AUGMENTATION_SPACE) == set(ORDER)
    if theirs is None:
        return
    ours = augment.transforms[0][0].transforms[ORDER.index(name)]
    drawn = next(one for one in ours.draws(P.types.ImageSpec(3, 90, 90)).items() if len(getattr(one[1], "values", ())) > 1)[1]
    values = torch.tensor(drawn.values, dtype=torch.float64)[:: 1 + signed]
    read = {"Shear": lambda v: torch.tan(torch.deg2rad(v)), "Translate": lambda v: 90 * v}
    read |= dict.fromkeys(("Brightness", "Color", "Contrast", "Sharpness"), lambda v: v - 1.0)
    values = read.get(name.removesuffix("X").removesuffix("Y"), lambda v: v)(values)
    torch.testing.assert_close(values, theirs.double(), rtol=1e-5, atol=1e-5)


def test_googles_levels_are_cut_off_as_published():
    one = AugMix(severity=3).transforms[0][0]
    rotate, posterize, solarize = one.transforms[3], one.transforms[2], one.transforms[4]
    levels = np.random.default_rng(0).uniform(0.1, 3.0, 200_000)
    for drawn, values in (
        (rotate.degrees, (levels * 30 / 10).astype(int)),
        (posterize.bits, 4 - (levels * 4 / 10).astype(int)),
        (solarize.threshold, (256 - (levels * 256 / 10).astype(int)) / 255),
    ):
        total = sum(drawn.weights)
        for value, weight in zip(drawn.values, drawn.weights, strict=True):
            share = float(np.isclose(values, abs(value)).mean()) / (2 if drawn is rotate.degrees else 1)
            assert weight / total == pytest.approx(share, abs=4e-3)


@pytest.mark.parametrize("operations", ["google", "torchvision"])
def test_augmix_stands_in_pipelines_and_files(operations, tmp_path):
    augment = Pipeline([P.RandomHorizontalFlip(), AugMix(operations)], seed=1)
    out, record = augment(pictures(), return_record=True)
    assert out.dtype == torch.uint8
    assert record.params[1]["weights"].shape == (2, 3)
    assert torch.equal(augment.apply(pictures(), record), out)
    augment.save(tmp_path / "policy.toml")
    assert Pipeline.load(tmp_path / "policy.toml").transforms == augment.transforms


def test_mixtures_refuse_what_they_cannot_mix():
    refused(InvalidArgument, "keep 9x8", Pipeline([P.Mixture([P.CenterCrop(5)])]), floats())
    refused(InvalidArgument, "Normalize", P.Mixture, [P.Normalize((0.5,), (0.5,))])
    refused(InvalidArgument, "alpha", P.Mixture, [P.RandomInvert()], alpha=0.0)


def test_a_module_is_a_step_and_trains():
    torch.manual_seed(0)
    module, x = torch.nn.Conv2d(3, 3, 3, padding=1), torch.rand(2, 3, 6, 6, requires_grad=True)
    augment = Pipeline([P.RandomInvert(p=1.0), P.Lambda(module), P.RandomHorizontalFlip(p=1.0)])
    torch.testing.assert_close(augment(x), module(1 - x).flip(-1))
    assert {"learned.called.0.weight", "learned.called.0.bias"} == {name for name, _ in augment.named_parameters()}
    ours = torch.autograd.grad(augment(x).square().sum(), (x, module.weight))
    theirs = torch.autograd.grad(module(1 - x).square().sum(), (x, module.weight))
    torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize(
    ("kind", "slope"), [("exact", 3.0), ("almost_everywhere", 3.0), ("none", 0.0), ("surrogate: straight_through", 1.0)]
)
def test_a_function_has_the_gradient_that_it_is_declared_to_have(kind, slope):
    x = torch.rand(2, 3, 4, 4, requires_grad=True)
    transform = P.Lambda(lambda image: 3.0 * image, gradients=kind, p=0.5)
    augment = Pipeline([transform])
    out, record = augment(x, return_record=True)
    gate = record.params[0]["gate"].float()[:, None, None, None]
    torch.testing.assert_close(out, gate * 3.0 * x + (1 - gate) * x)
    (gradient,) = torch.autograd.grad(out.sum() + 0.0 * x.sum(), x)
    torch.testing.assert_close(gradient, (gate * slope + (1 - gate)).expand_as(x))
    assert transform.gradients["image"] == kind
    assert hash(transform) == hash(P.Lambda(transform.function, gradients=kind, p=0.5))


def test_functions_see_the_whole_batch_and_compile():
    seen = []
    x = (255 * torch.rand(6, 3, 4, 4)).to(torch.uint8)
    Pipeline([P.Lambda(lambda image: seen.append(image.shape) or image, p=0.5)], seed=0)(x)
    assert seen == [x.shape]
    augment = Pipeline([P.RandomInvert(p=0.5), P.Lambda(lambda image: image * 0.5)], seed=0)
    compiled = torch.compile(augment, fullgraph=True, backend="eager")
    torch.testing.assert_close(compiled(x / 255.0, key=Key(1, 2)), augment(x / 255.0, key=Key(1, 2)))


def test_functions_are_refused_clearly(tmp_path):
    refused(InvalidArgument, "as the images", Pipeline([P.Lambda(lambda image: image[:, :1])]), floats())
    refused(InvalidType, "a function or module", P.Lambda, 3)
    refused(InvalidArgument, r"Lambda\.gradients", P.Lambda, abs, gradients="smooth")
    refused(InvalidArgument, "state_dict", Pipeline([P.Lambda(torch.nn.Identity())]).save, tmp_path / "pipeline.toml")
