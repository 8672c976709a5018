"""Correlated draws against torch's distribution, and the affine generators against scipy's exponential."""

import pytest
import torch

import pellucid as P
from pellucid import Key, Learnable, MultivariateNormal, Pipeline
from tests.refusals import refused

F64 = torch.float64
MEAN = (0.1, -0.2, 0.3)
LOWER = ((0.5,), (0.2, 0.4), (-0.3, 0.1, 0.6))


def dense(rows):
    return torch.tensor([[*row, *([0.0] * (len(rows) - len(row)))] for row in rows], dtype=F64)


def test_draws_have_the_mean_and_the_covariance():
    u = torch.rand((400_000, 3), generator=torch.Generator().manual_seed(0), dtype=F64)
    drawn = MultivariateNormal(MEAN, LOWER).sample(u, {})
    assert (drawn.mean(0) - torch.tensor(MEAN, dtype=F64)).abs().max() < 5e-3
    assert (drawn.T.cov() - dense(LOWER) @ dense(LOWER).T).abs().max() < 5e-3


def test_a_draw_is_differentiable_in_every_number():
    distribution = MultivariateNormal.learned_from((0.5, 0.2, 0.1))
    raw = {name: torch.tensor(v + 0.1, dtype=F64, requires_grad=True) for name, v in distribution.start().items()}
    assert len(raw) == 3 + 6
    u = torch.rand((4, 3), generator=torch.Generator().manual_seed(1), dtype=F64)
    names = list(raw)
    assert torch.autograd.gradcheck(lambda *v: distribution.sample(u, dict(zip(names, v, strict=True))), tuple(raw.values()))


def test_starts_where_it_says_and_keeps_a_positive_diagonal():
    distribution = MultivariateNormal.learned_from((0.5, 0.2))
    raw = {name: torch.tensor(v, dtype=F64) for name, v in distribution.start().items()}
    mean, lower = distribution.matrices(raw, torch.zeros((), dtype=F64))
    assert torch.equal(mean, torch.zeros(2, dtype=F64))
    assert torch.allclose(lower, torch.diag(torch.tensor([0.5, 0.2], dtype=F64)))
    _, lower = distribution.matrices({name: v - 30.0 for name, v in raw.items()}, torch.zeros((), dtype=F64))
    assert (lower.diagonal() > 0).all()


def test_bad_shapes_are_explained():
    refused(ValueError, "expected", MultivariateNormal, (), ())
    refused(ValueError, "expected", MultivariateNormal, (0.0,), ((1.0, 0.0),))
    refused(ValueError, "expected", MultivariateNormal, (0.0, 0.0), ((1.0,), (0.0,)))
    refused(ValueError, "expected", MultivariateNormal, (0.0,), ((-1.0,),))
    refused(ValueError, "expected", P.RandomLieAffine, MultivariateNormal((0.0,), ((1.0,),)))


def fixed(*coefficients):
    return MultivariateNormal(coefficients, tuple((0.0,) * i for i in range(1, 7)))


def matrix_of(transform, size=(20, 30)):
    return Pipeline([transform]).draw(torch.zeros(1, 1, *size)).matrix[0]


def test_the_generators_are_the_plain_transforms():
    for coefficients, plain in [
        ((0.1, -0.2, 0, 0, 0, 0), P.RandomTranslate(((0.1, 0.1), (-0.2, -0.2)))),
        ((0, 0, 0.5, 0, 0, 0), P.RandomRotation((0.5 * 180 / torch.pi,) * 2)),
        ((0, 0, 0, 0.4, 0, 0), P.RandomScale((2.718281828459045**0.4,) * 2)),
    ]:
        assert torch.allclose(matrix_of(P.RandomLieAffine(fixed(*coefficients))), matrix_of(plain), atol=1e-9)


def test_the_map_is_scipys_exponential():
    linalg = pytest.importorskip("scipy.linalg")
    x, y, turn, scale, stretch, shear = 0.1, -0.05, 0.4, 0.2, -0.3, 0.15
    algebra = torch.tensor([[scale + stretch, shear + turn, x * 30], [shear - turn, scale - stretch, y * 20], [0, 0, 0]], dtype=F64)
    to_center = torch.tensor([[1, 0, 14.5], [0, 1, 9.5], [0, 0, 1]], dtype=F64)
    expected = to_center @ torch.from_numpy(linalg.expm(algebra.numpy())) @ to_center.inverse()
    found = matrix_of(P.RandomLieAffine(fixed(x, y, turn, scale, stretch, shear)))
    assert torch.allclose(found, expected, rtol=0, atol=1e-10)


def test_a_correlation_is_learned():
    """Images that are only ever shifted along the diagonal: the factor that ties y to x grows."""
    rows = [[0.0] * (i + 1) for i in range(6)]
    rows[0][0] = 0.1
    rows[1] = [Learnable(0.0), Learnable(0.1, low=0.0)]
    generators = MultivariateNormal((0.0,) * 6, tuple(map(tuple, rows)))
    augment = Pipeline([P.RandomLieAffine(generators)])
    x = torch.zeros(512, 1, 8, 8)
    optimiser = torch.optim.Adam(augment.parameters(), lr=0.02)
    for step in range(150):
        optimiser.zero_grad()
        drawn = augment.draw(x, key=Key(0, step)).params[0]["generators"]
        (drawn[:, 0] - drawn[:, 1]).pow(2).mean().backward()
        optimiser.step()
    numbers = augment.numbers()
    assert numbers["0.generators.scale_tril_1_0"] == pytest.approx(0.1, abs=0.01)
    assert numbers["0.generators.scale_tril_1_1"] < 0.03


def test_serialises(tmp_path):
    augment = Pipeline([P.RandomLieAffine(MultivariateNormal.learned_from((0.05,) * 6))])
    for suffix in ("toml", "json"):
        augment.save(tmp_path / f"p.{suffix}")
        assert Pipeline.load(tmp_path / f"p.{suffix}").transforms == augment.transforms
