"""Our transforms and presets beside the frameworks' own, where these are installed."""

import numpy as np
import pytest
import torch

from pellucid import ColorJitter, Pipeline, RandomAffine, RandomHorizontalFlip, presets
from pellucid.interop import as_albumentations
from tests.peers import albumentations, torchvision_functional
from tests.presets.test_presets import DRAWS, _alike, _distance, _looks

SLOPES = np.add.outer(np.linspace(0, 200, 60), np.linspace(0, 50, 60))[..., None] * np.array([1.0, 0.7, 0.4])
PICTURE = SLOPES.astype(np.uint8)

pytestmark = [pytest.mark.long, pytest.mark.filterwarnings("ignore")]


def installed(name):
    torchvision_functional()
    return pytest.importorskip(name, reason=f"{name} is not installed")


def test_ultralytics_calls_our_draw():
    """After the trainer has written it down; the picture is BGR there, and boxes are shares of its sides."""
    installed("ultralytics")
    A = albumentations()
    from ultralytics.data.augment import Albumentations
    from ultralytics.utils.instance import Instances

    ours = Pipeline([RandomHorizontalFlip(p=1.0), RandomAffine((10, 10)), ColorJitter(0.3)], seed=2)
    inside = Albumentations(p=1.0, transforms=[A.to_dict(as_albumentations(ours))])
    boxes = np.array([[0.2, 0.3, 0.2, 0.2], [0.7, 0.6, 0.1, 0.3]], np.float32)
    instances = Instances(boxes, np.zeros((0, 1000, 2), np.float32), bbox_format="xywh", normalized=True)
    found = inside({"img": PICTURE, "cls": np.array([[0], [1]]), "instances": instances})
    corners = torch.from_numpy(np.concatenate((boxes[:, :2] - boxes[:, 2:] / 2, boxes[:, :2] + boxes[:, 2:] / 2), 1)) * 60
    wanted = Pipeline(ours.transforms, seed=2)({"image": torch.from_numpy(PICTURE).movedim(-1, 0), "boxes": corners})
    assert np.array_equal(found["img"], wanted["image"].movedim(0, -1).numpy())
    rows = wanted["boxes"].numpy()
    middle_and_sides = np.concatenate(((rows[:, :2] + rows[:, 2:]) / 2, rows[:, 2:] - rows[:, :2]), 1) / 60
    assert np.allclose(found["instances"].bboxes, middle_and_sides, atol=1e-5)


def test_timms_evaluation():
    installed("timm")
    from PIL import Image
    from timm.data.transforms_factory import transforms_imagenet_eval

    theirs = transforms_imagenet_eval(img_size=28, crop_pct=0.875)(Image.fromarray(PICTURE))
    ours = presets.load("timm/classification-eval", size=28, resize=32)(PICTURE)
    assert (theirs - ours).abs().max() < 1.01 / 255 / 0.224


def test_timms_training_is_distributed_as_there():
    installed("timm")
    from PIL import Image
    from timm.data.transforms_factory import transforms_imagenet_train

    theirs = transforms_imagenet_train(img_size=24, interpolation="bilinear", re_prob=0.3)
    ours = presets.load("timm/classification-train", size=24, erase=0.3, seed=1)
    batch = torch.from_numpy(PICTURE).movedim(-1, 0).expand(DRAWS, -1, -1, -1)
    _alike(_looks([theirs(Image.fromarray(PICTURE)) for _ in range(DRAWS)]), _looks(ours(batch)), 0.01)


def test_ultralytics_classification_is_distributed_as_there():
    installed("ultralytics")
    from PIL import Image
    from ultralytics.data.augment import classify_augmentations, classify_transforms

    batch = torch.from_numpy(PICTURE).movedim(-1, 0).expand(DRAWS, -1, -1, -1)
    theirs = classify_augmentations(size=24, scale=(0.5, 1.0), auto_augment="randaugment", erasing=0.4)
    found = presets.load("ultralytics/classification-train", size=24, seed=1)(batch)
    _alike(_looks([theirs(Image.fromarray(PICTURE)) for _ in range(DRAWS)]), _looks(found), 0.01)
    evaluated = presets.load("ultralytics/classification-eval", size=24)(PICTURE)
    assert (classify_transforms(24)(Image.fromarray(PICTURE)) - evaluated).abs().max() < 1.01 / 255


def test_ultralytics_detection_scales_and_colours_are_near_to_its():
    """Mosaic and affine map are one step here: the scale of tiles is distributed alike, brightness within 0.2."""
    installed("ultralytics")
    from ultralytics.data.augment import RandomHSV, RandomPerspective

    affine = RandomPerspective(0.0, 0.1, 0.5, 0.0, 0.0, size=(60, 60))
    scales = [affine._compute_affine_matrix(PICTURE, (60, 60))[1] for _ in range(DRAWS)]
    batch = torch.from_numpy(PICTURE).movedim(-1, 0).expand(DRAWS, -1, -1, -1)
    record = presets.load("ultralytics/detection-train", size=60, seed=1).draw(batch)
    step = next(i for i, one in enumerate(record.plan.transforms) if type(one).__name__ == "Mosaic")
    found, bound = _distance(scales, record.params[step]["scale"].reshape(DRAWS, -1)[:, 0])
    assert found < bound
    hsv, jitter = RandomHSV(0.015, 0.7, 0.4), presets.load("ultralytics/detection-train", size=60, seed=1).transforms[3]
    theirs = [
        torch.from_numpy(hsv({"img": PICTURE[..., ::-1].copy()})["img"][..., ::-1].copy()).movedim(-1, 0) / 255
        for _ in range(DRAWS)
    ]
    ours = Pipeline([jitter], seed=3)(batch) / 255
    assert _distance(_looks(theirs)["mean"], _looks(ours)["mean"], 0.01)[0] < 0.2


def test_an_image_processors_pixels():
    transformers = installed("transformers")
    processor = transformers.ViTImageProcessor(size={"height": 32, "width": 32})
    theirs = processor(PICTURE, return_tensors="pt")["pixel_values"][0]
    options = {"size": (32, 32), "resize": (32, 32), "mean": processor.image_mean, "std": processor.image_std}
    ours = presets.load("torchvision/classification-eval", **options)(PICTURE)
    assert (theirs - ours).abs().max() < 1.01 / 255 / min(processor.image_std)
