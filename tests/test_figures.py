"""Figures and notebooks: what is drawn of a batch, and records that do not fill a screen."""

import numpy as np
import pytest
import torch
from PIL import Image

import pellucid as P
from tests.refusals import refused

pytest.importorskip("matplotlib")


def boxes_of(axes):
    return [(p.get_x(), p.get_y(), p.get_width(), p.get_height()) for p in axes.patches]


def test_targets_are_drawn_where_they_are():
    image = torch.zeros(1, 3, 10, 20)
    image[..., 2, 5] = 1.0
    batch = {
        "image": image,
        "boxes": torch.tensor([[[4.0, 1.0, 3.0, 4.0], [0.0, 0, 0, 0]]]),
        "keypoints": torch.tensor([[[5.0, 2.0]]]),
    }
    figure = P.Pipeline([P.RandomHorizontalFlip(p=1.0)], seed=0, box_format="xywh").show(batch, draws=1)
    before, after = figure.axes
    assert boxes_of(before) == [(3.5, 0.5, 3.0, 4.0)]  # edge coordinates are half a pixel before the centres that matplotlib counts
    assert boxes_of(after) == [(12.5, 0.5, 3.0, 4.0)]
    for axes, x in ((before, 5.0), (after, 14.0)):
        assert axes.collections[0].get_offsets().tolist() == [[x, 2.0]]
        shown = np.asarray(axes.images[0].get_array())
        assert shown.shape == (10, 20, 3)
        assert tuple(np.argwhere(shown[..., 0] == 1.0)[0]) == (2, int(x))


def test_it_shows_what_the_next_calls_give_and_takes_no_step():
    images = torch.rand(2, 3, 16, 16)
    augment = P.Pipeline([P.RandomHorizontalFlip(), P.ColorJitter(0.4), P.Normalize((0.5,) * 3, (0.25,) * 3)], seed=3)
    figure = augment.show(images, draws=2, samples=1)
    assert augment.step == 0
    for column in (1, 2):
        expected = (augment(images)[0] * 0.25 + 0.5).clamp(0, 1).permute(1, 2, 0)
        np.testing.assert_allclose(np.asarray(figure.axes[column].images[0].get_array()), expected, atol=1e-6)


@pytest.mark.parametrize(
    "batch",
    [
        torch.rand(3, 8, 8),
        (torch.rand(2, 1, 8, 8) * 255).to(torch.uint8),
        [torch.rand(3, 8, 8), torch.rand(3, 9, 12)],
        [Image.new("RGB", (9, 7)), Image.new("RGB", (5, 6))],
        np.zeros((6, 7, 3), np.uint8),
        {"image": torch.rand(2, 3, 8, 8), "mask": torch.ones(2, 8, 8, dtype=torch.int64), "label": torch.zeros(2)},
        {"image": [torch.rand(3, 8, 8), torch.rand(3, 9, 12)], "boxes": [torch.ones(1, 4), torch.ones(2, 4)]},
        torch.rand(1, 4, 3, 8, 8),
    ],
    ids=["one", "gray bytes", "list", "pictures", "array", "mask", "lists of targets", "video"],
)
def test_every_kind_of_batch_is_shown(batch, tmp_path):
    figure = P.Pipeline([P.RandomResizedCrop(8)], seed=0).show(batch)
    assert all(axes.images for axes in figure.axes)
    figure.savefig(tmp_path / "figure.png")


def test_what_cannot_be_shown_is_said():
    augment = P.Pipeline([P.RandomHorizontalFlip()])
    refused(P.InvalidArgument, "an image, to draw on", augment.show, {"boxes": torch.rand(2, 1, 4), "mask": torch.zeros(2, 8, 8)})
    refused(P.InvalidArgument, "draws: expected an integer >= 1", augment.show, torch.rand(1, 3, 8, 8), draws=0)


def test_records_are_a_line():
    augment = P.Pipeline(
        [
            P.RandomAffine(degrees=10, translate=(0.1, 0.1)),
            P.RandomHorizontalFlip(),
            P.ColorJitter(0.1, 0.1, saturation=0.1, hue=0.1),
        ],
        seed=0,
    )
    for batch in (torch.rand(64, 3, 16, 24), [torch.rand(3, 8, 9), torch.rand(3, 9, 8)]):
        _, record = augment(batch, return_record=True)
        text = repr(record)
        assert "\n" not in text
        assert len(text) < 300
        assert f"{len(record)} samples" in text
        assert "0.degrees" in text
        page = record._repr_html_()
        assert page.count("<tr>") == 1 + sum(len(values) for values in record.params)
        assert "tensor(" not in page


def test_pipelines_and_plans_are_tables():
    augment = P.Pipeline([P.RandomAffine(degrees=P.Learnable(10.0)), P.RandomHorizontalFlip()], seed=0)
    page = augment._repr_html_()
    assert page.count("<tr>") == 3
    assert "almost everywhere" in page
    assert "0.degrees" in page  # the learned range as it is now
    _, record = augment(torch.rand(1, 3, 8, 8), return_record=True)
    assert record.plan._repr_html_() == f"<code>{record.plan}</code>"
    assert "&lt;" not in P.Pipeline([])._repr_html_()
