"""The erosion loss is at least as fast as the peer's, forward and backward, in one process."""

import time

import pytest
import torch

from pellucid.losses import hausdorff_erosion_loss


def fastest(call, repeats=7):
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)


@pytest.mark.slow
def test_not_slower_than_kornia():
    peer = pytest.importorskip("kornia.losses").HausdorffERLoss()
    prediction = torch.rand(8, 1, 128, 128, requires_grad=True)
    labels = torch.zeros(8, 1, 128, 128, dtype=torch.int64)
    mask = (labels == 0).float()
    assert float(hausdorff_erosion_loss(prediction, mask).detach()) == pytest.approx(
        float(peer(prediction, labels).detach()), rel=1e-4
    )
    assert fastest(lambda: hausdorff_erosion_loss(prediction, mask).backward()) < fastest(
        lambda: peer(prediction, labels).backward()
    )
    with torch.no_grad():
        assert fastest(lambda: hausdorff_erosion_loss(prediction, mask)) < fastest(lambda: peer(prediction, labels))
