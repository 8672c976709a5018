"""Every option of every transform that is read is used, refused, noted, or idle; what is idle changes nothing in the original."""

import inspect

import numpy as np
import pytest
import torch

from pellucid.interop import read_albumentations, read_kornia, read_torchvision
from pellucid.interop.albumentations import _TABLE as ALBUMENTATIONS
from pellucid.interop.albumentations import NEAREST, described
from pellucid.interop.kornia import _TABLE as KORNIA
from pellucid.interop.reading import Reader
from pellucid.interop.torchvision import _TABLE as TORCHVISION
from tests.peers import albumentations, torchvision_functional

RANDOM = np.random.default_rng(0)
IMAGE = RANDOM.integers(0, 256, (32, 32, 3), dtype=np.uint8)
MASK = RANDOM.integers(0, 4, (32, 32), dtype=np.uint8)
BOXES, POINTS = [[4, 6, 20, 18], [14, 10, 30, 29]], [[5, 7], [30, 20]]


def by_name(*rows):
    """The value of each name in rows of (names, value)."""
    return {name: value for names, value in rows for name in names.split()}


# What an option is set to beside its default; of one transform, where that says more.
VALUES = by_name(
    ("p", 0.3),
    ("interpolation", 0),
    ("mask_interpolation border_mode num_output_channels", 1),
    ("fill fill_mask sigma max_value ElasticTransform.alpha", 9.0),
    ("limit", (-5, 40)),
    ("rotate_method Affine.rotate_method", "ellipse"),
    (
        "crop_border fit_output keep_ratio balanced_scale pad_if_needed ensure_safe_range approximate same_dxdy "
        "transpose_mask strict save_applied_params replace Affine.keep_ratio",
        True,
    ),
    (
        "shift_limit shift_limit_x shift_limit_y translate_percent brightness_limit contrast_limit hue std_range "
        "mean_range amount salt_vs_pepper",
        (0.1, 0.2),
    ),
    ("scale_limit", (0.1, 0.3)),
    ("scale", (0.3, 0.6)),
    ("rotate_limit rotate hue_shift_limit sat_shift_limit val_shift_limit r_shift_limit g_shift_limit b_shift_limit", (3, 9)),
    ("translate_px", (2, 3)),
    ("shear", {"x": (3, 9), "y": (0, 0)}),
    ("ratio", (0.5, 0.9)),
    ("size max_size_hw", (9, 8)),
    ("height width max_size", 9),
    ("area_for_downscale", "image"),
    ("x_min y_min num_bits", 3),
    ("x_max y_max", 19),
    ("pad_position position", "top_left"),
    ("min_height min_width", 40),
    ("pad_height_divisor pad_width_divisor seed", 7),
    ("brightness_by_max per_channel is_check_shapes", False),
    ("brightness contrast saturation", (0.5, 0.6)),
    ("gamma_limit", (50, 70)),
    ("method", "average"),
    ("alpha strength hole_height_range hole_width_range", (0.3, 0.4)),
    ("channel_drop_range", (1, 2)),
    ("threshold_range", (0.2, 0.3)),
    ("blur_limit", (5, 9)),
    ("sigma_limit", (1.0, 2.0)),
    ("noise_distribution", "gaussian"),
    ("keypoint_remapping_method", "direct"),
    ("noise_scale_factor ChannelDropout.fill", 0.5),
    ("num_holes_range", (3, 4)),
    ("mean std", (0.1, 0.2, 0.3)),
    ("max_pixel_value", 1.0),
    ("normalization", "min_max"),
    ("n", 2),
    ("additional_targets", {"other": "mask"}),
    ("save_key", "drawn"),
    ("bbox_params", {"format": "coco"}),
    ("keypoint_params", {"format": "xy"}),
    ("transforms", [{"__class_fullname__": "InvertImg", "p": 1.0}]),
    ("Blur.blur_limit", (9, 11)),
    ("MedianBlur.blur_limit", (5, 5)),
    ("Affine.scale", (1.1, 1.3)),
    ("OneOf.transforms", [{"__class_fullname__": "InvertImg", "p": 1.0}, {"__class_fullname__": "ToGray", "p": 1.0}]),
)
FLIP = {"__class_fullname__": "HorizontalFlip", "p": 1.0}
# What a transform is given beside the option in question.
BASE = {
    **{key: {"transforms": [FLIP]} for key in ("Compose", "ReplayCompose", "Sequential", "OneOf")},
    "SomeOf": {"transforms": [FLIP, {"__class_fullname__": "InvertImg", "p": 1.0}, {"__class_fullname__": "ToGray", "p": 1.0}]},
    **{key: {"height": 20, "width": 24} for key in ("Resize", "RandomCrop", "CenterCrop")},
    "Crop": {"x_max": 24, "y_max": 20},
    "RandomResizedCrop": {"size": (20, 24)},
    **{key: {"max_size": 20} for key in ("LongestMaxSize", "SmallestMaxSize")},
    "ElasticTransform": {"noise_distribution": "uniform"},
    "Affine": {"scale": {"x": (1.1, 1.2), "y": (1.1, 1.2)}, "rotate": (20, 30)},
    "Affine.scale": {},
    "SomeOf.replace": {"n": 2, "transforms": [FLIP, FLIP, FLIP]},
}


def options_of(kind):
    names = inspect.signature(kind.__init__).parameters
    return [name for name in names if name not in ("self", "args", "kwargs")]


def read(name, options):
    reader = Reader(ALBUMENTATIONS, NEAREST, 2)
    return reader.imported(described({"__class_fullname__": name, **options})[1]), reader


def results(A, name, options):
    """What the original makes of all targets, from one seed."""
    options = dict(options)
    if "transforms" in options:
        options["transforms"] = [getattr(A, one["__class_fullname__"])(p=1.0) for one in options["transforms"]]
    kinds = {"bbox_params": A.BboxParams("pascal_voc"), "keypoint_params": A.KeypointParams("xy")}
    if name in ("Compose", "ReplayCompose"):
        whole = getattr(A, name)(**options, **kinds)
    else:
        whole = A.Compose([getattr(A, name)(**options)], **kinds)
    whole.set_random_seed(5)
    out = whole(image=IMAGE, mask=MASK, bboxes=BOXES, keypoints=POINTS)
    return [np.asarray(out[key]) for key in ("image", "mask", "bboxes", "keypoints")]


@pytest.mark.filterwarnings("ignore")  # of theirs, on options that they correct
@pytest.mark.parametrize("name", sorted(ALBUMENTATIONS))
def test_options_of_albumentations(name):
    A = albumentations()
    kind = getattr(A, name, None)
    if kind is None:
        pytest.skip("of version 1")
    for option in options_of(kind):
        base = {"p": 1.0, **BASE.get(f"{name}.{option}", BASE.get(name, {}))}
        value = VALUES.get(f"{name}.{option}", VALUES.get(option))
        assert value is not None, f"{name}.{option} is new: say here what it may be"
        (before, _), (after, reader) = read(name, base), read(name, {**base, option: value})
        used = after.pipeline.transforms != before.pipeline.transforms or after.pipeline.options != before.pipeline.options
        refused = after.missing != before.missing or any(not one.option for one in after.missing)
        noted = after.notes != before.notes or (name, option) in reader.noted
        idle = reader.idle.get((name, option))
        assert used or refused or noted or idle, f"{name}({option}={value!r}) is dropped without a word"
        if not (used or refused or noted) and option != "p":
            for one, two in zip(results(A, name, base), results(A, name, {**base, option: value}), strict=True):
                assert np.array_equal(one, two), f"{name}.{option} is idle here, and changes results there"


PARAMS = {
    "bbox_params": {"format": "coco", "label_fields": ["kinds"], "min_area": 3.0, "min_visibility": 0.2, "min_width": 2.0}
    | {"min_height": 2.0, "check_each_transform": False, "clip": True, "filter_invalid_bboxes": True, "max_accept_ratio": 3.0},
    "keypoint_params": {"format": "xya", "label_fields": ["kinds"], "remove_invisible": False, "angle_in_degrees": False}
    | {"check_each_transform": False},
}


@pytest.mark.parametrize("name", PARAMS)
def test_options_of_targets(name):
    """The same of what a Compose says of boxes and points."""
    base = {"format": "xy"} if name == "keypoint_params" else {"format": "pascal_voc", "min_visibility": 0.1}
    for option, value in PARAMS[name].items():
        before, after = (
            read("Compose", {"transforms": [FLIP], name: base}),
            read("Compose", {"transforms": [FLIP], name: {**base, option: value}}),
        )
        changed = after[0].pipeline.options != before[0].pipeline.options or after[0][1:] != before[0][1:]
        assert changed or (name, option) in after[1].idle, f"{name}.{option} is dropped without a word"
    refused, _ = read("Compose", {"transforms": [FLIP], name: {**base, "new_option": 3}})
    assert refused.missing[0].option == f"{name}.new_option=3"


def test_options_of_targets_are_all_known():
    A = albumentations()
    for name, kind in (("bbox_params", A.BboxParams), ("keypoint_params", A.KeypointParams)):
        assert set(options_of(kind)) == set(PARAMS[name])


TV_VALUES = by_name(
    ("p threshold GaussianNoise.sigma", 0.3),
    ("interpolation", "bilinear"),
    ("fill", 9),
    ("center", [3.0, 4.0]),
    ("degrees shear", (3, 9)),
    ("translate hue", (0.1, 0.2)),
    ("scale", (0.3, 0.6)),
    ("expand pad_if_needed inplace", True),
    ("distortion_scale", 0.2),
    ("ratio", (0.5, 0.9)),
    ("size", (9, 8)),
    ("antialias clip all_ops ToDtype.scale", False),
    ("max_size quality", 30),
    ("padding bits num_output_channels num_ops", 3),
    ("padding_mode", "edge"),
    ("brightness contrast saturation", (0.5, 0.6)),
    ("sharpness_factor", 3.0),
    ("kernel_size magnitude severity", 5),
    ("sigma", (1.0, 2.0)),
    ("mean value", 0.5),
    ("dtype", torch.float64),
    ("min_size min_area alpha ElasticTransform.sigma", 9.0),
    ("labels_getter clamping_mode", None),
    ("num_magnitude_bins", 21),
    ("policy", "cifar10"),
    ("mixture_width", 4),
    ("chain_depth", 2),
    ("transforms", [{"name": "RandomInvert", "p": 1.0}]),
    ("mode", "L"),
    ("transformation_matrix", torch.zeros(3, 3)),
    ("mean_vector", torch.zeros(3)),
    ("Normalize.mean Normalize.std", [0.1, 0.2, 0.3]),
    ("AugMix.interpolation ElasticTransform.interpolation RandomPerspective.interpolation", "nearest"),
    ("RandomResizedCrop.interpolation Resize.interpolation", "nearest-exact"),
    ("RandomChoice.p", [1.0]),
    ("Grayscale.num_output_channels", 1),
)
TV_BASE = {
    **{
        key: {"transforms": [{"name": "RandomHorizontalFlip"}]} for key in ("Compose", "RandomApply", "RandomChoice", "RandomOrder")
    },
    **{key: {"degrees": (1, 2)} for key in ("RandomAffine", "RandomRotation")},
    "RandomResizedCrop": {"size": (20, 24)},
    "Resize": {"size": 20},
    "RandomCrop": {"size": (20, 24)},
    "CenterCrop": {"size": (20, 24)},
    "Pad": {"padding": 2},
    "RandomPosterize": {"bits": 4},
    "RandomSolarize": {"threshold": 0.5},
    "RandomAdjustSharpness": {"sharpness_factor": 2.0},
    "GaussianBlur": {"kernel_size": 3},
    "JPEG": {"quality": 50},
    "Normalize": {"mean": [0.5] * 3, "std": [0.5] * 3},
    "ToDtype": {"dtype": torch.float32, "scale": True},
    "Grayscale": {"num_output_channels": 3},
    "LinearTransformation": {"transformation_matrix": torch.eye(3), "mean_vector": torch.ones(3)},
}


@pytest.mark.parametrize("name", sorted(TORCHVISION))
def test_options_of_torchvision(name):
    torchvision_functional()
    from torchvision.transforms import v2

    kind = getattr(v2, name, None)
    if kind is None or not [*inspect.signature(kind).parameters]:
        pytest.skip("without options")
    for option in options_of(kind):
        base = TV_BASE.get(name, {})
        value = TV_VALUES.get(f"{name}.{option}", TV_VALUES.get(option, LEFT))
        assert value is not LEFT, f"{name}.{option} is new: say here what it may be"
        reader = Reader(TORCHVISION, {})
        before, after = (
            read_torchvision({"name": name, **base}, match="exact"),
            reader.imported({"name": name, **base, option: value}),
        )
        used = after.pipeline.transforms != before.pipeline.transforms or after.pipeline.options != before.pipeline.options
        told = used or after.missing != before.missing or after.notes != before.notes
        idle = reader.idle.get((name, option))
        assert told or idle, f"{name}({option}={value!r}) is dropped without a word"
        if not told:
            assert option in ("inplace", "mode")  # which a test of results cannot see


KORNIA_VALUES = by_name(
    ("p p_batch", 0.3),
    ("same_on_batch keepdim align_corners pad_if_needed", True),
    ("degrees shear", (3.0, 9.0)),
    ("translate hue", (0.1, 0.2)),
    ("scale", (1.1, 1.2)),
    ("resample", "nearest"),
    ("padding_mode", "border"),
    ("fill_value", [1.0, 2.0, 3.0]),
    ("size", (9, 8)),
    ("padding", 3),
    ("fill", 0.5),
    ("cropping_mode", "resample"),
    ("brightness contrast saturation", (0.5, 0.6)),
    ("order", [3, 2, 1, 0]),
    ("clip_output separable RandomRotation.align_corners RandomCrop.align_corners CenterCrop.align_corners", False),
    ("gamma gain", (1.2, 1.4)),
    ("max_val", 2.0),
    ("rgb_weights", [0.2, 0.3, 0.5]),
    ("r_shift_limit g_shift_limit b_shift_limit mean", 0.1),
    ("kernel_size bits", 5),
    ("sigma", (1.0, 2.0)),
    ("border_type", "constant"),
    ("std thresholds additions", 0.2),
    ("jpeg_quality", (20.0, 30.0)),
    ("sign", (0.2, 0.5)),
    ("translate_x translate_y", (0.1, 0.2)),
    ("RandomLinearCornerIllumination.gain", (0.05, 0.1)),
    ("RandomCrop.padding_mode", "reflect"),
)
KORNIA_BASE = {
    **{key: {"degrees": (1.0, 2.0)} for key in ("RandomAffine", "RandomRotation")},
    **{key: {"size": (20, 24)} for key in ("RandomCrop", "CenterCrop")},
    **{key: {"mean": 0.5, "std": 0.5} for key in ("Normalize", "Denormalize")},
    "RandomGaussianBlur": {"kernel_size": 3, "sigma": (0.5, 1.0)},
    "RandomSolarize": {"additions": 0.0},
    "RandomTranslate": {"translate_x": (0.2, 0.2)},
}


def of_kornia(K, name, options):
    """What the original makes of pictures and masks, from one seed."""
    torch.manual_seed(5)
    whole = K.AugmentationSequential(getattr(K, name)(**options), data_keys=["input", "mask"])
    return whole(torch.rand(2, 3, 32, 32), torch.rand(2, 1, 32, 32).round())


@pytest.mark.parametrize("name", sorted(KORNIA))
def test_options_of_kornia(name):
    """Sequences stand in their own test."""
    K = pytest.importorskip("kornia.augmentation", reason="kornia is not installed: its differential tests need it")
    if name.endswith("Sequential"):
        pytest.skip("a sequence")
    for option in options_of(getattr(K, name)):
        base = {"p": 1.0, **KORNIA_BASE.get(name, {})}
        value = KORNIA_VALUES.get(f"{name}.{option}", KORNIA_VALUES.get(option, LEFT))
        assert value is not LEFT, f"{name}.{option} is new: say here what it may be"
        reader = Reader(KORNIA, {})
        before, after = read_kornia({"name": name, **base}, match="exact"), reader.imported({"name": name, **base, option: value})
        told = after.missing or after.notes != before.notes or after.pipeline.transforms != before.pipeline.transforms
        assert told or (name, option) in reader.idle, f"{name}({option}={value!r}) is dropped without a word"
        if not told:
            for one, two in zip(of_kornia(K, name, base), of_kornia(K, name, {**base, option: value}), strict=True):
                assert torch.allclose(one, two, atol=1e-5), f"{name}.{option} is idle here, and changes results there"


@pytest.mark.parametrize("changes", [{"resample": "BILINEAR"}, None])
def test_sequences_of_kornia(changes):
    """Masks that are not read at the nearest pixel are refused; one draw for a batch is."""
    K = pytest.importorskip("kornia.augmentation", reason="kornia is not installed: its differential tests need it")
    from kornia.constants import DataKey, Resample

    flip = K.RandomHorizontalFlip(p=0.5)
    assert read_kornia(K.AugmentationSequential(flip, data_keys=["input", "mask"])).missing == ()
    assert read_kornia(K.AugmentationSequential(flip, same_on_batch=True)).pipeline.options.same_on_batch
    extra = {DataKey.MASK: {"resample": Resample.BILINEAR}} if changes else {DataKey.BBOX: {}}
    assert "masks" in read_kornia(K.AugmentationSequential(flip, extra_args=extra), match="exact").missing[0].option


LEFT = object()


def test_an_option_can_only_be_left_out_with_a_reason():
    """No other way: what nobody speaks of is refused."""
    from pellucid.interop.reading import Given

    given = Given("Rotate", {"fill_mask": 3}, Reader({}, {}))
    assert not hasattr(given, "ignore")
    with pytest.raises(TypeError):
        given.idle()
    found = read_albumentations({"name": "HorizontalFlip", "axis": 3, "p": 1.0})
    assert found.missing[0].option == "axis=3"
