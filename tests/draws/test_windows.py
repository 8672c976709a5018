"""Windows chosen by the boxes they show, against torchvision's RandomIoUCrop, proposal by proposal."""

import pytest
import torch

from pellucid.random.windows import IoUWindow
from tests.peers import torchvision_functional

SIZE = (60, 90)
OPTIONS = (0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0)
WINDOW = IoUWindow(SIZE, (0.3, 1.0), (0.5, 2.0), OPTIONS)


def drawn(batch):
    make = torch.Generator().manual_seed(0)
    u = torch.rand(batch, WINDOW.words, generator=make, dtype=torch.float64)
    ends = torch.rand(batch, 5, 2, 2, generator=make, dtype=torch.float64).sort(dim=2).values
    boxes = (ends * torch.tensor((SIZE[1], SIZE[0]))).flatten(-2)  # b 5 4
    return u, boxes, torch.rand(batch, 5, generator=make) < 0.6


def theirs(monkeypatch, numbers, boxes, option):
    """What torchvision says of one proposal: the window, or None."""
    from torchvision import tv_tensors
    from torchvision.transforms import v2

    crop = v2.RandomIoUCrop(sampler_options=[option, 1.0], trials=1)
    picks, pairs = iter((0, 1)), iter((numbers[:2], numbers[2:]))
    with monkeypatch.context() as patch:
        patch.setattr(torch, "randint", lambda **_: torch.tensor([next(picks)]))
        patch.setattr(torch, "rand", lambda _: next(pairs))
        found = crop.make_params([tv_tensors.BoundingBoxes(boxes, format="XYXY", canvas_size=SIZE)])
    if not found:
        return None
    left, top = found["left"], found["top"]
    return (left, top, left + found["width"], top + found["height"])


def test_the_choice_is_torchvisions(monkeypatch):
    torchvision_functional()
    u, boxes, valid = drawn(40)
    chosen = WINDOW.sample(u, {"boxes": boxes, "valid": valid.double()})
    seen = set()
    for b in range(len(u)):
        wanted = (0, 0, SIZE[1], SIZE[0])
        for at in torch.argsort(u[b, 160:]).tolist():
            if OPTIONS[at] >= 1:
                break
            tries = (theirs(monkeypatch, u[b, 4 * k : 4 * k + 4], boxes[b][valid[b]], OPTIONS[at]) for k in range(40))
            found = next((one for one in tries if one is not None), None)
            if found is not None:
                wanted = found
                seen.add(at)
                break
        assert tuple(chosen[b].tolist()) == wanted
    assert len(seen) >= 4  # of the options


@pytest.mark.parametrize("count", [0, 3])
def test_pictures_without_boxes_stay_whole(count):
    u = drawn(4)[0]
    none = {"boxes": torch.zeros(4, count, 4), "valid": torch.zeros(4, count)}
    assert WINDOW.sample(u, none).tolist() == [[0, 0, SIZE[1], SIZE[0]]] * 4
