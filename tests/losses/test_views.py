"""Losses between views: torch's own functions and loops over cells; errors."""

import math

import pytest
import torch
import torch.nn.functional as F

from pellucid import Pipeline, RandomHorizontalFlip
from pellucid.errors import InvalidArgument, InvalidType
from pellucid.losses import consistency, dense_correspondence, equivariance
from tests.refusals import refused


def rand(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("shape", [(6, 4), (3, 4, 2, 5)])
def test_consistency_is_torchs_cross_entropy(shape):
    x, y = 3 * rand(*shape), 3 * rand(*shape, seed=1)
    assert torch.allclose(consistency(x, y), F.cross_entropy(x, y.argmax(1)))
    assert torch.allclose(consistency(x, y, kind="soft"), F.cross_entropy(x, y.softmax(1)))
    assert torch.allclose(consistency(x, y, kind="square"), (x.softmax(1) - y.softmax(1)).square().sum(1).mean())
    sure = y.softmax(1).amax(1) >= 0.8
    assert 0 < sure.double().mean() < 1
    assert torch.allclose(consistency(x, y, threshold=0.8), (F.cross_entropy(x, y.argmax(1), reduction="none") * sure).mean())


def test_only_valid_cells_count():
    x, y, valid = rand(2, 3, 4, 4), rand(2, 3, 4, 4, seed=1), rand(2, 4, 4, seed=2) > 0
    wild = torch.where(valid[:, None], x, torch.nan)
    each = F.cross_entropy(x, y.argmax(1), reduction="none")
    want = torch.stack([each[i][valid[i]].mean() for i in range(2)])
    assert torch.allclose(consistency(wild, y, valid=valid, reduction="none"), want)
    square = torch.stack([(x - y).square().mean(1)[i][valid[i]].mean() for i in range(2)])
    assert torch.allclose(equivariance(wild, y, valid=valid, reduction="none"), square)
    assert torch.allclose(equivariance(x, y, kind="cosine"), 1 - F.cosine_similarity(x, y, dim=1).mean())
    half = valid & torch.tensor([True, False])[:, None, None]
    assert consistency(x, y, valid=half, reduction="none")[1] == 0


def correspondence_oracle(a, b, places, valid, temperature, radius):
    total = []
    for i in range(len(a)):
        losses = []
        for r in range(a.shape[2]):
            for c in range(a.shape[3]):
                if not valid[i, r, c]:
                    continue
                x, y = places[i, r, c].tolist()
                query = F.normalize(a[i, :, r, c], dim=0)
                left, top = math.floor(x), math.floor(y)
                read = sum(
                    (1 - abs(x - u)) * (1 - abs(y - v)) * b[i, :, min(max(v, 0), b.shape[2] - 1), min(max(u, 0), b.shape[3] - 1)]
                    for u in (left, left + 1)
                    for v in (top, top + 1)
                )
                positive = float(query @ F.normalize(read, dim=0)) / temperature
                table = [positive] + [
                    float(query @ F.normalize(b[i, :, v, u], dim=0)) / temperature
                    for v in range(b.shape[2])
                    for u in range(b.shape[3])
                    if math.dist((u, v), (x, y)) > radius
                ]
                losses.append(math.log(sum(map(math.exp, table))) - positive)
        total.append(sum(losses) / len(losses))
    return total


def test_correspondence_equals_a_loop_over_cells():
    a, b = rand(2, 5, 3, 4), rand(2, 5, 4, 3, seed=1)
    places = torch.rand(2, 3, 4, 2, generator=torch.Generator().manual_seed(2), dtype=torch.float64) * 3 - 0.5
    valid = rand(2, 3, 4, seed=3) > -0.5
    got = dense_correspondence(a, b, places, valid=valid, temperature=0.3, radius=0.9, reduction="none")
    assert got.tolist() == pytest.approx(correspondence_oracle(a, b, places, valid, 0.3, 0.9), abs=1e-10)


def test_a_hard_target_has_no_gradient():
    a, target = rand(1, 3, 2, 2).requires_grad_(), rand(1, 3, 2, 2, seed=4).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: consistency(x, target), (a,))
    assert torch.autograd.grad(consistency(a, target), (target,), allow_unused=True) == (None,)


def test_what_is_not_finite_stays_outside():
    a, b = rand(1, 3, 2, 2).requires_grad_(), rand(1, 3, 2, 2, seed=1).requires_grad_()
    places = torch.zeros(1, 2, 2, 2, dtype=torch.float64)
    places[0, 0, 0] = torch.nan
    dense_correspondence(a, b, places).backward()
    assert bool(torch.isfinite(a.grad).all())
    assert bool(torch.isfinite(b.grad).all())
    assert bool((a.grad[..., 0, 0] == 0).all())


def test_mistakes_are_told():
    wrong, x, places = (InvalidArgument, InvalidType), torch.rand(2, 3, 4, 4), torch.zeros(2, 4, 4, 2)
    refused(wrong, r"target: expected shape \(2, 3, 4, 4\)", consistency, x, x[:1])
    refused(wrong, "kind: expected one of", consistency, x, x, kind="hard")
    refused(wrong, r"threshold: expected a probability in \[0, 1\)", consistency, x, x, threshold=1.0)
    refused(wrong, "reduction: expected one of", consistency, x, x, reduction="all")
    refused(wrong, "valid: expected a cell that both views show", consistency, x, x, valid=torch.zeros(2, 4, 4).bool())
    refused(wrong, r"valid: expected a boolean \(2, 4, 4\)", equivariance, x, x, valid=torch.ones(2, 4, 4))
    refused(wrong, "kind: expected one of", equivariance, x, x, kind="l1")
    refused(wrong, r"positions: expected shape \(2, 4, 4, 2\)", dense_correspondence, x, x, torch.zeros(2, 4, 4))
    refused(wrong, r"others: expected floating-point maps", dense_correspondence, x, x[:, :1], places)
    refused(wrong, "temperature: expected a number > 0", dense_correspondence, x, x, places, temperature=0)
    refused(wrong, "the first argument: expected floating-point", consistency, x.long(), x)


def test_a_map_in_the_place_of_its_grid_is_named():
    pipeline = Pipeline([RandomHorizontalFlip()], seed=0)
    _, record = pipeline(torch.rand(1, 3, 4, 4), return_record=True)
    features = torch.rand(1, 2, 4, 4)
    refused(InvalidType, r"positions: expected a tensor.*ViewMap", dense_correspondence, features, features, record.map_to(record))
