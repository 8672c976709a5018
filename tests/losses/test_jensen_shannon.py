"""The Jensen-Shannon divergence, against scipy's entropies."""

import numpy as np
import pytest
import scipy.stats
import torch

from pellucid import InvalidArgument, InvalidType
from pellucid.losses import jensen_shannon_loss
from tests.refusals import refused


def logits(n, shape=(4, 5)):
    generator = torch.Generator().manual_seed(n)
    return [3.0 * torch.randn(shape, dtype=torch.float64, generator=generator) for _ in range(n)]


@pytest.mark.parametrize("n", [2, 3])
@pytest.mark.parametrize("shape", [(4, 5), (2, 5, 3, 2)])
def test_it_is_the_entropy_of_the_mean_less_the_mean_entropy(n, shape):
    given = logits(n, shape)
    p = np.stack([torch.softmax(one, 1).numpy() for one in given])
    expected = scipy.stats.entropy(p.mean(0), axis=1) - scipy.stats.entropy(p, axis=2).mean(0)
    np.testing.assert_allclose(jensen_shannon_loss(*given, reduction="none").numpy(), expected, rtol=1e-10, atol=1e-14)
    np.testing.assert_allclose(jensen_shannon_loss(*given).item(), expected.mean(), rtol=1e-10)


def test_certain_predictions_have_finite_gradients():
    far = [torch.tensor([[1e4, -1e4]], requires_grad=True), torch.tensor([[-1e4, 1e4]], requires_grad=True)]
    loss = jensen_shannon_loss(*far)
    assert loss.item() == pytest.approx(np.log(2))
    assert all(torch.isfinite(one).all() for one in torch.autograd.grad(loss, far))


def test_what_is_refused():
    refused(InvalidArgument, "two predictions", jensen_shannon_loss, torch.rand(2, 3))
    refused(InvalidArgument, "all alike", jensen_shannon_loss, torch.rand(2, 3), torch.rand(2, 4))
    refused(InvalidType, "floating", jensen_shannon_loss, torch.rand(2, 3), torch.ones(2, 3, dtype=torch.int64))
    refused(InvalidArgument, "reduction", jensen_shannon_loss, torch.rand(2, 3), torch.rand(2, 3), reduction="median")
