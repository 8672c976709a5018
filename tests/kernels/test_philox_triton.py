"""The hash in Triton gives the words of the hash in tensor code, bit for bit."""

import pytest
import torch

from pellucid.random import key
from pellucid.random.key import draw_words

from .interpreted import DEVICE, runs  # noqa: F401


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("samples", [0, 1, 5, 90])
def test_same_words(masked, samples, monkeypatch):
    from pellucid.random import philox_triton

    monkeypatch.setattr(key, "numba_works", lambda: False)  # so that tensor code computes what is expected
    seed, step = torch.tensor((1 << 62) + 12345), torch.tensor((1 << 32) - 1)
    index = torch.randint(0, 1 << 62, (2 * samples,), generator=torch.Generator().manual_seed(0))[::2]  # not contiguous
    slots = torch.tensor([0, 1, (3 << 16) + 2, (1 << 32) - 1])
    keep = torch.tensor([1, 0, 1, 1]) if masked else None
    expected = draw_words(seed, step, index, slots, keep)
    given = [None if x is None else x.to(DEVICE) for x in (seed, step, index, slots, keep)]
    found = philox_triton.draw_words(*given)
    assert found.shape == (samples, 16)
    assert torch.equal(found.cpu(), expected)
    if samples and DEVICE == "cuda":
        assert torch.equal(draw_words(*given).cpu(), expected)
