"""The descriptor losses: equal to plain loops over pairs, and finite where descriptors coincide."""

import math

import pytest
import torch
import torch.nn.functional as F

from pellucid.errors import InvalidArgument, InvalidType
from pellucid.losses import hardest_triplet_loss, second_order_similarity_loss
from tests.refusals import refused

LOSSES = {"triplet": hardest_triplet_loss, "second order": second_order_similarity_loss}
every_loss = pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES.keys())


def pairs(n=9, d=6, noise=0.4, dtype=torch.float64):
    anchors = F.normalize(torch.randn(n, d, dtype=dtype), dim=1)
    return anchors, F.normalize(anchors + noise * torch.randn(n, d, dtype=dtype), dim=1)


def triplet_oracle(a, p, ids=None, margin=1.0, power=1, swap=True, duplicate=0.008):
    a, p, ids = a.tolist(), p.tolist(), list(range(len(a))) if ids is None else ids.tolist()
    out = []
    for i in range(len(a)):
        found = []
        for j in range(len(a)):
            if ids[i] == ids[j]:
                continue
            found += [d for d in [math.dist(a[i], p[j])] if d >= duplicate]
            found += [d for d in [math.dist(a[j], p[i])] if swap and d >= duplicate]
        out.append(max(margin + math.dist(a[i], p[i]) - min(found), 0) ** power if found else 0.0)
    return out


def second_order_oracle(a, p, ids=None, k=8):
    a, p, ids = a.tolist(), p.tolist(), list(range(len(a))) if ids is None else ids.tolist()
    out = []
    for i in range(len(a)):
        others = [j for j in range(len(a)) if ids[j] != ids[i]]
        near = set(sorted(others, key=lambda j: math.dist(a[i], a[j]))[:k]) | set(
            sorted(others, key=lambda j: math.dist(p[i], p[j]))[:k]
        )
        out.append(math.sqrt(sum((math.dist(a[i], a[j]) - math.dist(p[i], p[j])) ** 2 for j in near)))
    return out


@pytest.mark.parametrize("swap", [True, False])
@pytest.mark.parametrize("power", [1, 2])
def test_triplet_equals_a_plain_loop(swap, power):
    a, p = pairs()
    got = hardest_triplet_loss(a, p, anchor_swap=swap, power=power, reduction="none")
    want = triplet_oracle(a, p, swap=swap, power=power)
    assert sum(v > 0 for v in want) >= 5
    assert got.tolist() == pytest.approx(want, abs=1e-12)
    assert float(hardest_triplet_loss(a, p, anchor_swap=swap, power=power)) == pytest.approx(sum(want) / len(want), abs=1e-12)


def test_swap_changes_which_negative_is_found():
    a, p = pairs()
    assert not torch.equal(
        hardest_triplet_loss(a, p, reduction="none"), hardest_triplet_loss(a, p, anchor_swap=False, reduction="none")
    )


def test_rows_of_one_point_are_no_negatives():
    a, p = pairs()
    ids = torch.tensor([0, 1, 2, 0, 4, 5, 1, 7, 8])
    a[3], p[3] = a[0] + 0.05, p[0] + 0.05  # near, but another sighting of point 0
    got = hardest_triplet_loss(a, p, ids=ids, reduction="none")
    assert got.tolist() == pytest.approx(triplet_oracle(a, p, ids), abs=1e-12)
    assert got[0] < hardest_triplet_loss(a, p, reduction="none")[0]


def test_duplicates_are_masked():
    a, p = pairs()
    p[4] = a[2]  # the same descriptor under two ids
    masked = hardest_triplet_loss(a, p, reduction="none")
    assert masked.tolist() == pytest.approx(triplet_oracle(a, p), abs=1e-7)
    kept = hardest_triplet_loss(a, p, duplicate_distance=0.0, reduction="none")
    assert float(kept[2]) == pytest.approx(1 + math.dist(a[2].tolist(), p[2].tolist()), abs=1e-7)
    assert masked[2] < kept[2]


@pytest.mark.parametrize("k", [1, 3, 8, 50])
def test_second_order_equals_a_plain_loop(k):
    a, p = pairs(n=12)
    got = second_order_similarity_loss(a, p, neighbours=k, reduction="none")
    assert got.tolist() == pytest.approx(second_order_oracle(a, p, k=k), abs=1e-12)
    ids = torch.tensor([0, 1, 2, 0, 4, 5, 1, 7, 8, 9, 9, 9])
    got = second_order_similarity_loss(a, p, ids=ids, neighbours=k, reduction="none")
    assert got.tolist() == pytest.approx(second_order_oracle(a, p, ids, k=k), abs=1e-12)


def test_second_order_ignores_rigid_motions_of_descriptor_space():
    a, p = pairs(n=20, d=8)
    turn = torch.linalg.qr(torch.randn(8, 8, dtype=torch.float64)).Q
    assert second_order_similarity_loss(a, a @ turn) < 1e-6
    assert second_order_similarity_loss(a, p) > 0.1


DEGENERATE = {
    "all equal": lambda dtype: torch.ones(5, 4, dtype=dtype) / 2,
    "zero": lambda dtype: torch.zeros(5, 4, dtype=dtype),
    "single": lambda dtype: torch.ones(1, 4, dtype=dtype),
    "equal pairs": lambda dtype: torch.eye(5, 4).to(dtype),
}


@every_loss
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize("name", DEGENERATE)
def test_degenerate_batches_are_finite(loss, dtype, name):
    a, p = (DEGENERATE[name](dtype).requires_grad_() for _ in range(2))
    value = loss(a, p)
    value.backward()
    assert value.dtype == torch.float32
    assert value.isfinite()
    assert a.grad.isfinite().all()
    assert p.grad.isfinite().all()


@every_loss
def test_errors_say_what_to_do(loss):
    a, p = pairs()
    refused(InvalidArgument, "row i of both shows the same point", loss, a, p[:-1])
    refused(InvalidArgument, "ids: expected shape", loss, a, p, ids=torch.arange(3))
    refused(InvalidArgument, "reduction", loss, a, p, reduction="avg")
    refused(InvalidType, "floating-point descriptors", loss, a.long(), p)
    refused(InvalidArgument, "power", hardest_triplet_loss, a, p, power=3)
    refused(InvalidArgument, "neighbours", second_order_similarity_loss, a, p, neighbours=0)
