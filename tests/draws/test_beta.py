"""The beta distribution, against scipy's quantile."""

import numpy as np
import pytest
import torch

from pellucid import Beta, InvalidArgument, InvalidType, Key, MixUp, Pipeline, Uniform
from tests.refusals import refused


@pytest.mark.parametrize("alpha", [0.05, 0.2, 0.4, 0.9, 1.0, 1.7, 5.0, 16.0])
def test_it_is_the_quantile(alpha):
    special = pytest.importorskip("scipy.special", reason="SciPy is not installed: the quantile has no other oracle")
    u = torch.cat(
        (torch.rand(2000, generator=torch.Generator().manual_seed(0), dtype=torch.float64), torch.tensor([2.0**-33, 0.5]))
    )
    expected = special.betaincinv(alpha, alpha, u.numpy())
    np.testing.assert_allclose(Beta(alpha).sample(u, {}).numpy(), expected, rtol=0, atol=1e-12)
    small = u[u < 0.5]
    np.testing.assert_allclose(Beta(alpha).sample(small, {}).numpy(), special.betaincinv(alpha, alpha, small.numpy()), rtol=1e-10)


def test_one_is_uniform_bit_for_bit():
    pictures = torch.zeros(6, 1, 2, 2)
    records = [Pipeline([MixUp(lam)], seed=3).draw(pictures) for lam in (Beta(1.0), Uniform(0.0, 1.0))]
    assert torch.equal(records[0].params[0]["lam"], records[1].params[0]["lam"])


def test_draws_do_not_depend_on_the_batch():
    mixing, pictures = Pipeline([MixUp(Beta(0.3))]), torch.zeros(8, 1, 2, 2)
    whole = mixing.draw(pictures, key=Key(1, 2)).params[0]["lam"]
    assert torch.equal(whole[:4], mixing.draw(pictures[:4], key=Key(1, 2)).params[0]["lam"])


@pytest.mark.parametrize("alpha", [0.0, -1.0, 0.01, 17.0, float("nan")])
def test_concentrations_out_of_reach_are_refused(alpha):
    refused(InvalidArgument, r"Beta\.alpha", Beta, alpha)


def test_what_is_no_number_is_refused():
    refused((InvalidArgument, InvalidType), r"Beta\.alpha", Beta, "much")
