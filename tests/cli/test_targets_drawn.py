"""The demo's hand-placed targets are consistent, and what is drawn lands where the numbers say."""

import pytest
import torch

from pellucid.cli.annotations import ANNOTATIONS
from pellucid.cli.draw import draw_targets, heat
from pellucid.cli.photographs import load_batch
from pellucid.cli.sheet import contact_sheet

pytest.importorskip("skimage")
SIZE = 128


@pytest.fixture(scope="module")
def batch():
    return load_batch(ANNOTATIONS, SIZE)


def test_masks_fill_their_boxes(batch):
    """Every box but the cup's and the spoon's, which hold more than the masks show, is tight around its class."""
    for sample, annotation in enumerate(ANNOTATIONS):
        for number, box in enumerate(batch["boxes"][sample][batch["boxes_valid"][sample]], 1):
            rows, columns = torch.nonzero(batch["mask"][sample] == number, as_tuple=True)
            hull = torch.stack((columns.min(), rows.min(), columns.max() + 1, rows.max() + 1)).to(box.dtype)
            outside = torch.cat((box[:2] - hull[:2], hull[2:] - box[2:]))
            assert outside.max() < 1.0, (annotation.name, number)  # the mask is within its box, to a pixel
            if annotation.name != "coffee":
                assert (hull - box).abs().max() < 1.5, (annotation.name, number)


def test_keypoints_are_in_the_picture(batch):
    points = batch["keypoints"][batch["keypoints_valid"]]
    assert len(points) == sum(len(annotation.keypoints) for annotation in ANNOTATIONS)
    assert points.min() >= 0
    assert points.max() <= SIZE - 1


def test_a_keypoint_is_drawn_at_its_pixel():
    sample = {
        "image": torch.zeros(3, 64, 64),
        "keypoints": torch.tensor([[40.0, 20.0], [5.0, 5.0]]),
        "keypoints_valid": torch.tensor([True, False]),
    }
    drawn = draw_targets(sample)
    assert drawn.getpixel((40, 20)) == (255, 255, 255)
    assert drawn.getpixel((5, 5)) == (0, 0, 0)


def test_a_box_hides_nothing_inside():
    sample = {
        "image": torch.full((3, 64, 64), 0.5),
        "boxes": torch.tensor([[20.0, 24.0, 40.0, 44.0], [0.0, 0.0, 0.0, 0.0]]),
        "boxes_valid": torch.tensor([True, False]),
    }
    drawn = draw_targets(sample)
    assert drawn.getpixel((21, 34)) == drawn.getpixel((38, 34)) == (128, 128, 128)
    assert drawn.getpixel((18, 34)) != (128, 128, 128)
    assert drawn.getpixel((0, 0)) == (128, 128, 128)


def test_outlines_are_drawn_ring_by_ring():
    gap = [[torch.nan, torch.nan]]
    square, hole = [[10, 10], [50, 10], [50, 50], [10, 50]], [[20, 20], [20, 40], [40, 40], [40, 20]]
    drawn = draw_targets({"image": torch.zeros(3, 64, 64), "polygons": torch.tensor([square + gap + hole + gap, 10 * gap])})
    for x, y in ((10, 30), (30, 50), (20, 30), (30, 40)):
        assert drawn.getpixel((x, y))[2] > 100
    for x, y in ((15, 15), (30, 30), (45, 45)):
        assert drawn.getpixel((x, y)) == (0, 0, 0)


def test_heat_runs_from_dark_to_bright():
    picture = heat(torch.linspace(0, 1, 256).reshape(1, 256))
    light = [sum(picture.getpixel((x, 0))) for x in range(0, 256, 16)]
    assert light == sorted(light)
    heat(torch.zeros(4, 4))


def test_long_titles_are_shortened():
    picture = heat(torch.zeros(8, 32))
    sheet = contact_sheet([[picture]], columns=["a" * 300], labels=["b" * 300], title="c" * 300, note="d" * 300)
    assert sheet.width < 120
