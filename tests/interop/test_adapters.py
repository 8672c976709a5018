"""Our pipelines inside of other libraries: their calls, their targets, our pixels."""

import pickle
import sys
from types import ModuleType

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Dataset

import pellucid as P
from pellucid.interop import as_albumentations, as_batchgenerators, as_detectron2, as_kornia, as_torchvision
from tests.peers import albumentations, torchvision_functional
from tests.refusals import refused

GENERATOR = torch.Generator().manual_seed(0)
PICTURE = torch.randint(0, 256, (3, 40, 48), dtype=torch.uint8, generator=GENERATOR)
MASK = torch.randint(0, 4, (40, 48), dtype=torch.uint8, generator=GENERATOR)
BOXES = torch.tensor([[4.0, 6.0, 20.0, 30.0], [10.0, 12.0, 40.0, 36.0]])
POINTS = torch.tensor([[5.0, 7.0], [30.0, 20.0]])


def pipeline(**options):
    return P.Pipeline([P.RandomCrop((32, 32)), P.RandomHorizontalFlip(p=1.0), P.ColorJitter(0.3)], seed=1, **options)


def expected():
    return pipeline()({"image": PICTURE, "mask": MASK, "boxes": BOXES, "keypoints": POINTS})


def hwc(image):
    return np.ascontiguousarray(image.permute(1, 2, 0).numpy())


def composed(ours):
    A = albumentations()
    return A.Compose(
        [as_albumentations(ours)],
        bbox_params=A.BboxParams(format="pascal_voc", label_fields=["names"]),
        keypoint_params=A.KeypointParams(format="xy", remove_invisible=False),
    )


def test_in_a_compose_of_albumentations_every_target_is_ours():
    given = {"image": hwc(PICTURE), "mask": MASK.numpy(), "bboxes": BOXES.numpy(), "keypoints": POINTS.numpy()}
    found, wanted = composed(pipeline())(**given, names=["cat", "dog"]), expected()
    assert type(found["image"]) is np.ndarray
    assert found["image"].dtype == np.uint8
    assert found["image"].flags.c_contiguous
    assert np.array_equal(found["image"], hwc(wanted["image"]))
    assert np.array_equal(found["mask"], wanted["mask"].numpy())
    assert np.allclose(found["bboxes"], wanted["boxes"].numpy(), atol=1e-4)
    assert np.allclose(found["keypoints"], wanted["keypoints"].numpy(), atol=1e-4)
    assert list(found["names"]) == ["cat", "dog"]


def test_albumentations_writes_it_down_and_reads_it_back():
    """As Ultralytics' trainer does with all that it is given."""
    A = albumentations()
    read = A.from_dict(A.to_dict(as_albumentations(pipeline(), p=1.0)))
    assert np.array_equal(read(image=hwc(PICTURE))["image"], hwc(expected()["image"]))


def test_a_box_that_is_cut_off_goes_with_its_label():
    A = albumentations()
    ours = P.Pipeline([P.CenterCrop((10, 10))])
    both = A.Compose([as_albumentations(ours)], bbox_params=A.BboxParams(format="pascal_voc", label_fields=["names"]))
    rows = np.array([[0.0, 0.0, 4.0, 4.0], [15.0, 15.0, 30.0, 30.0]])
    found = both(image=hwc(PICTURE), bboxes=rows, names=["gone", "there"])
    assert list(found["names"]) == ["there"]
    assert np.allclose(found["bboxes"], [[0, 0, 10, 10]])


def test_a_picture_without_boxes_and_points_comes_back_without():
    A = albumentations()
    step = as_albumentations([P.RandomHorizontalFlip(p=1.0)])
    compose = A.Compose([step], bbox_params=A.BboxParams("yolo"), keypoint_params=A.KeypointParams("xy"))
    found = compose(image=np.zeros((4, 5, 3), np.uint8), bboxes=[], keypoints=[])
    assert (len(found["bboxes"]), len(found["keypoints"])) == (0, 0)


def test_gray_pictures_and_floats_keep_their_layout():
    albumentations()
    gray = as_albumentations(P.Pipeline([P.RandomVerticalFlip(p=1.0)]))(image=MASK.numpy())["image"]
    assert np.array_equal(gray, MASK.numpy()[::-1])
    floats = as_albumentations(P.Pipeline([P.Normalize(0.5, 0.5)]))(image=hwc(PICTURE).astype(np.float32) / 255)["image"]
    assert floats.dtype == np.float32
    assert floats.shape == (40, 48, 3)


class Views(Dataset):
    def __init__(self, call):
        self.call = call

    def __len__(self):
        return 8

    def __getitem__(self, i):
        return self.call(torch.full((1, 8, 8), 0.5))


def _as_array(adapted, image):
    return torch.from_numpy(adapted(image=hwc(image))["image"]).movedim(-1, 0)


CALLS = {
    "albumentations": (as_albumentations, _as_array),
    "torchvision": (as_torchvision, lambda adapted, image: adapted(image)),
    "kornia": (lambda ours: as_kornia(ours, data_keys=["input"]), lambda adapted, image: adapted(image[None])[0]),
    "batchgenerators": (as_batchgenerators, lambda adapted, image: adapted(image=image)["image"]),
    "detectron2": (
        as_detectron2,
        lambda adapted, image: torch.from_numpy(adapted.get_transform(hwc(image)).apply_image(hwc(image))).movedim(-1, 0),
    ),
}


@pytest.mark.usefixtures("detectron2")
@pytest.mark.parametrize("library", CALLS)
def test_seeds_and_workers_draw_as_they_do_here(library):
    """In the process, and in two workers, where each draws for itself."""
    if library == "albumentations":
        albumentations()

    adapt, call = CALLS[library]
    draws = {}
    for who in ("theirs", "ours"):
        pipeline = P.Pipeline([P.RandomGaussianNoise(0.1)], seed=3)
        adapted = adapt(pipeline)
        one = (lambda image, adapted=adapted: call(adapted, image)) if who == "theirs" else pipeline
        here = [one(torch.full((1, 8, 8), 0.5)) for _ in range(3)]
        torch.manual_seed(5)
        fresh = DataLoader(Views(one), batch_size=None, num_workers=2, multiprocessing_context="fork")
        draws[who] = torch.stack([*here, *fresh])
    assert torch.allclose(draws["theirs"], draws["ours"], atol=1e-6)
    assert len(draws["ours"].flatten(1).unique(dim=0)) == 11


def test_an_adapter_is_pickled():
    albumentations()
    assert pickle.loads(pickle.dumps(as_albumentations(P.Pipeline([P.RandomGaussianNoise(0.1)], seed=3)))).p == 1.0


def test_among_torchvisions_transforms_classes_stay():
    torchvision_functional()
    from PIL import Image
    from torchvision import tv_tensors
    from torchvision.transforms import v2

    target = {
        "boxes": tv_tensors.BoundingBoxes(BOXES, format="XYXY", canvas_size=(40, 48)),
        "masks": tv_tensors.Mask(MASK[None]),
        "labels": torch.tensor([3, 4]),
        "image_id": 7,
    }
    steps = v2.Compose([as_torchvision(pipeline()), v2.ToDtype(torch.float32, scale=True)])
    image, found = steps(tv_tensors.Image(PICTURE), target)
    wanted = expected()
    assert type(image) is tv_tensors.Image
    assert torch.equal((image.as_subclass(torch.Tensor) * 255).round().byte(), wanted["image"])
    assert found["boxes"].canvas_size == (32, 32)
    assert torch.equal(found["boxes"].as_subclass(torch.Tensor), wanted["boxes"])
    assert torch.equal(found["masks"][0].as_subclass(torch.Tensor), wanted["mask"])
    assert found["image_id"] == 7
    assert found["labels"].tolist() == [3, 4]
    picture = as_torchvision(pipeline())(Image.fromarray(hwc(PICTURE)))
    assert isinstance(picture, Image.Image)
    assert np.array_equal(np.asarray(picture), hwc(wanted["image"]))


def test_torchvisions_boxes_that_leave_take_their_labels():
    torchvision_functional()
    from torchvision import tv_tensors

    rows = torch.tensor([[0.0, 0.0, 4.0, 4.0], [15.0, 15.0, 30.0, 30.0]])
    target = {"boxes": tv_tensors.BoundingBoxes(rows, format="XYXY", canvas_size=(40, 48)), "labels": torch.tensor([3, 4])}
    _, found = as_torchvision(P.Pipeline([P.CenterCrop((10, 10))], drop_invalid=True))(tv_tensors.Image(PICTURE), target)
    assert found["labels"].tolist() == [4]
    assert found["boxes"].tolist() == [[0.0, 0.0, 10.0, 10.0]]


def test_plain_tensors_are_read_as_torchvision_reads_them():
    """The first is the picture, whatever follows it is left alone."""
    label = torch.tensor(3)
    image, found = as_torchvision(P.Pipeline([P.RandomHorizontalFlip(p=1.0)]))(PICTURE, label)
    assert torch.equal(image, PICTURE.flip(-1))
    assert found is label


KEYS = ["input", "mask", "bbox", "bbox_xyxy", "bbox_xywh", "keypoints", "class"]


def test_a_flip_with_kornias_keys_is_kornias():
    K = pytest.importorskip("kornia.augmentation", reason="kornia is not installed")
    image, mask = torch.rand(2, 3, 10, 12), torch.rand(2, 1, 10, 12).round()
    corners = torch.tensor([[[[1.0, 2.0], [5.0, 2.0], [5.0, 6.0], [1.0, 6.0]]]]).expand(2, 1, 4, 2).clone()
    boxes = torch.tensor([[[1.0, 2.0, 6.0, 7.0]]]).expand(2, 1, 4).clone()
    wide = torch.tensor([[[1.0, 2.0, 5.0, 5.0]]]).expand(2, 1, 4).clone()
    points = torch.tensor([[[3.0, 4.0]]]).expand(2, 1, 2).clone()
    given = (image, mask, corners, boxes, wide, points, torch.tensor([1, 2]))
    theirs = K.AugmentationSequential(K.RandomHorizontalFlip(p=1.0), data_keys=KEYS)(*given)
    ours = as_kornia(P.Pipeline([P.RandomHorizontalFlip(p=1.0)]), data_keys=KEYS)(*given)
    for key, one, other in zip(KEYS, ours, theirs, strict=True):
        if key == "bbox":  # which kornia may write from another corner
            assert torch.allclose(one.sort(2).values, other.sort(2).values), key
        elif key == "bbox_xyxy":  # moved as centres of pixels there, and so one pixel off what it holds; kornia's bbox_xywh is not
            assert torch.allclose(one, other + torch.tensor([1.0, 0.0, 1.0, 0.0])), key
        else:
            assert torch.allclose(one, other), key


def test_kornias_dicts_keep_what_is_no_target():
    given = {"image": torch.rand(2, 3, 8, 8), "mask": torch.zeros(2, 8, 8), "crs": "EPSG:4326"}
    found = as_kornia(P.Pipeline([P.RandomHorizontalFlip(p=1.0)]), data_keys=None)(given)
    assert torch.equal(found["image"], given["image"].flip(-1))
    assert found["crs"] == "EPSG:4326"


def test_kornias_lists_come_back_as_lists():
    """As torchgeo's detection has them: a batch of pictures, and for each picture boxes and masks of its own number."""
    rows = [torch.tensor([[1.0, 2.0, 3.0, 4.0], [0.0, 0.0, 8.0, 8.0]]), torch.zeros(0, 4)]
    masks = [torch.arange(128).reshape(2, 8, 8), torch.zeros(0, 8, 8, dtype=torch.int64)]
    given = {"image": torch.rand(2, 3, 8, 8), "bbox_xyxy": rows, "mask": masks, "label": [torch.tensor([1, 2]), torch.zeros(0)]}
    found = as_kornia(P.Pipeline([P.RandomHorizontalFlip(p=1.0)]), data_keys=None)(given)
    assert torch.equal(found["image"], given["image"].flip(-1))
    assert [one.tolist() for one in found["bbox_xyxy"]] == [[[5.0, 2.0, 7.0, 4.0], [0.0, 0.0, 8.0, 8.0]], []]
    assert all(torch.equal(one, mask.flip(-1)) for one, mask in zip(found["mask"], masks, strict=True))
    assert found["label"] is given["label"]
    wide = as_kornia(P.Pipeline([P.RandomHorizontalFlip(p=1.0)]), data_keys=["input", "bbox_xywh"])
    _, found = wide(given["image"], [torch.tensor([[1.0, 2.0, 2.0, 2.0]]), rows[1]])
    assert [one.tolist() for one in found] == [[[5.0, 2.0, 2.0, 2.0]], []]


@pytest.fixture
def detectron2(monkeypatch):
    """The two base classes, as their documentation describes them."""

    class Transform:
        def apply_box(self, box):
            corners = np.asarray(box).reshape(-1, 4)[:, [0, 1, 2, 1, 0, 3, 2, 3]].reshape(-1, 2)
            moved = self.apply_coords(corners).reshape(-1, 4, 2)
            return np.concatenate((moved.min(1), moved.max(1)), 1)

    class Augmentation:
        pass

    for name in ("detectron2", "detectron2.data", "fvcore", "fvcore.transforms"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    for name, base in (("detectron2.data.transforms", Augmentation), ("fvcore.transforms.transform", Transform)):
        module = ModuleType(name)
        setattr(module, base.__name__, base)
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.delitem(sys.modules, "pellucid.interop.adapters.detectron2", raising=False)


@pytest.mark.usefixtures("detectron2")
def test_an_augmentation_of_detectron2():
    moves = as_detectron2(pipeline()).get_transform(hwc(PICTURE))
    wanted = expected()
    assert np.array_equal(moves.apply_image(hwc(PICTURE)), hwc(wanted["image"]))
    assert np.array_equal(moves.apply_segmentation(MASK.numpy()), wanted["mask"].numpy())
    assert np.allclose(moves.apply_coords(POINTS.numpy() + 0.5) - 0.5, wanted["keypoints"].numpy())
    unclipped = pipeline()({"image": PICTURE, "keypoints": BOXES.reshape(-1, 2) - 0.5})["keypoints"].reshape(-1, 2, 2) + 0.5
    assert np.allclose(moves.apply_box(BOXES.numpy()), torch.cat((unclipped.amin(1), unclipped.amax(1)), 1).numpy())


def test_a_transform_of_batchgenerators():
    given = {"image": PICTURE.float() / 255, "segmentation": MASK[None].short(), "keys": "a"}
    found = as_batchgenerators(pipeline())(**given)
    wanted = pipeline()({"image": PICTURE.float() / 255, "mask": MASK})
    assert torch.equal(found["image"], wanted["image"])
    assert torch.equal(found["segmentation"][0], wanted["mask"].short())
    assert found["keys"] == "a"
    assert as_batchgenerators(pipeline())(**given, regression_target=None)["regression_target"] is None  # as nnU-Net hands it over


@pytest.mark.parametrize("adapter", [as_kornia, as_torchvision, as_batchgenerators])
def test_what_is_no_pipeline_is_refused(adapter):
    refused(P.InvalidType, "pipeline: expected a Pipeline or a list of transforms", adapter, "flip")


def test_a_key_that_nobody_knows():
    refused(P.InvalidArgument, "data_keys", as_kornia, pipeline(), data_keys=["input", "polygon"])
