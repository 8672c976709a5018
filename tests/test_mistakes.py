"""What beginners get wrong: the first line of the error names the thing, says what came, and what to write next."""

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import pellucid as P
from pellucid import functional
from pellucid.data import collate, decode
from pellucid.functional import resize, rotate, warp_affine

X = torch.rand(2, 3, 8, 8)
BOXES = torch.tensor([[[1.0, 1.0, 5.0, 6.0]]] * 2)


def pipe(*steps, **options):
    return P.Pipeline([*steps] or [P.RandomHorizontalFlip()], seed=0, **options)


def norm():
    return pipe(P.Normalize((0.5, 0.5, 0.5), (0.2, 0.2, 0.2)))


def lab(labels, **options):
    return pipe(P.MixUp(P.Beta(0.2), **options))({"image": X, "labels": labels})


def pil(mode):
    return Image.new(mode, (8, 8))


MISTAKES = [
    # pictures
    (lambda: pipe()("cat.jpg"), "batch", "got str", "decode(path)"),
    (lambda: pipe()(Path("cat.jpg")), "batch", "Path", "decode(path)"),
    (lambda: pipe()(b"bytes"), "batch", "got bytes", "decode(path)"),
    (lambda: pipe()(None), "batch", "got NoneType", "a PIL image"),
    (lambda: pipe()([]), "batch", "an empty list", "at least one picture"),
    (lambda: pipe()(3), "batch", "got int", "a dict of targets"),
    (lambda: pipe()([pil("RGB"), pil("L")]), "sample 1: image", "got 1", "convert('RGB')"),
    (lambda: norm()(pil("RGBA")), "Normalize", "4 channels", "got 3 numbers"),
    (lambda: pipe()(X.to(torch.int64)), "batch['image']", "got torch.int64", ".float()"),
    (lambda: pipe()(X > 0.5), "batch['image']", "got torch.bool", ".float()"),
    (lambda: pipe()(X[0, 0]), "batch['image']", "shape (8, 8)", "(C, H, W)"),
    (lambda: pipe().apply(X.repeat(1, 1, 2, 2), pipe().draw(X)), "batch['image']", "got (16, 16)", "record.at((16, 16))"),
    (lambda: lab(torch.tensor([1, 7]), num_classes=3), "batch['labels']", "class numbers below 3", "got 7"),
    (lambda: pipe(P.GridShuffle(2))(list(X)), "batch", "pictures or parts of them", "one size in a first pipeline"),
    (lambda: pipe()(X.movedim(1, -1)), "batch['image']", "shape (2, 8, 8, 3)", "channels_last=True"),
    (lambda: pipe()(X, X), "batch", "Tensor, Tensor", "augment(image=image, mask=mask)"),
    (lambda: pipe(P.RandomCrop(20))(X), "RandomCrop.size", "20x20", "pad_if_needed=True"),
    (lambda: pipe()(np.array(["a", "b"])), "image", "U1", "an array of numbers"),
    # keys and targets
    (lambda: pipe()({"img": X}), "batch['img']", "image", "targets={'img'"),
    (lambda: pipe()({"images": X}), "batch['images']", "image", "targets={'images'"),
    (lambda: pipe()({"image": X, "tarket": 1}), "batch['tarket']", "image", "passthrough"),
    (lambda: pipe()({"boxes": BOXES}), "batch", "boxes", "image"),
    (lambda: pipe()({"image": X, "boxes": BOXES[0]}), "batch['boxes']", "shape (1, 4)", "(B, N, 4)"),
    (lambda: pipe()({"image": X, "boxes": torch.ones(2, 1, 6)}), "batch['boxes']", "shape (2, 1, 6)", "class_labels"),
    (lambda: pipe()({"image": X, "boxes": BOXES[:1].expand(3, 1, 4)}), "batch['boxes']", "shape (3, 1, 4)", "leading axes"),
    (lambda: pipe()({"image": X, "mask": torch.zeros(2, 4, 4)}), "batch['mask']", "got (4, 4)", "Resize it"),
    (lambda: pipe(drop_invalid=True)({"image": X, "boxes": BOXES}), "drop_invalid", "got a batch", "Pass a list"),
    (lambda: lab(torch.tensor([0, 1])), "batch['labels']", "no num_classes", "num_classes=..."),
    (lambda: lab(["a", "b"], num_classes=3), "batch['labels']", "got list", "passthrough=('labels',)"),
    # pipelines
    (lambda: P.Pipeline(P.RandomHorizontalFlip()), "transforms", "got RandomHorizontalFlip", "[RandomInvert()]"),
    (lambda: pipe(P.RandomHorizontalFlip), "transforms[0]", "class", "RandomHorizontalFlip(...)"),
    (lambda: pipe("flip"), "transforms[0]", "got 'flip'", "RandomAffine(degrees=15)"),
    (lambda: P.Pipeline([], seed="1"), "seed", "got '1'", "an integer"),
    (lambda: P.Pipeline([], sed=1), "Pipeline()", "'sed'", "seed=?"),
    (lambda: P.Pipeline([], p=0.5), "Pipeline()", "'p'", "it has"),
    (lambda: P.Pipeline([], impl="gpu"), "impl", "got 'gpu'", "'triton'"),
    (lambda: P.Pipeline([], out="pil"), "out", "got 'pil'", "'same'"),
    (lambda: pipe()(X, key=3), "key", "got 3", "Key(seed=0, step=7)"),
    (lambda: pipe()(X, key=P.Key(0, index=torch.arange(5))), "Key.index", "got (5,)", "one index per sample"),
    (lambda: pipe().apply(X, 3), "record", "got 3", "return_record=True"),
    (lambda: pipe(P.RandomInvert()).inverse(X, pipe().draw(X)), "record", "RandomHorizontalFlip", "Pipeline([])"),
    (lambda: P.Pipeline.load("nowhere.toml"), "nowhere.toml", "nowhere.toml", "No such file"),
    # options of transforms
    (lambda: P.RandomHorizontalFlip(2), "RandomHorizontalFlip.p", "got 2.0", "[0, 1]"),
    (lambda: P.RandomHorizontalFlip("a"), "RandomHorizontalFlip.p", "got 'a'", "[0, 1]"),
    (lambda: P.RandomRotation((20, -20)), "RandomRotation.degrees", "(20, -20)", "Swap the two"),
    (lambda: P.RandomRotation([10, 20, 30]), "RandomRotation.degrees", "(10, 20, 30)", "(low, high) pair"),
    (lambda: P.RandomRotation(float("nan")), "RandomRotation.degrees", "got nan", "finite"),
    (lambda: P.RandomRotation(degres=10), "RandomRotation()", "'degres'", "degrees=?"),
    (lambda: P.RandomRotation(3, interpolation="cubic"), "RandomRotation.interpolation", "got 'cubic'", "'bicubic'"),
    (lambda: P.RandomRotation(3, fill="white"), "RandomRotation.fill", "got 'white'", "a number"),
    (lambda: P.Resize("8"), "Resize.size", "got '8'", "(height, width)"),
    (lambda: P.Resize(8.5), "Resize.size", "got 8.5", "an int"),
    (lambda: P.Resize(0), "Resize.size", "got 0", "from 1"),
    (lambda: P.Normalize(0.5, 0.0), "Normalize.std", "(0.0,)", "> 0"),
    (lambda: P.ColorJitter(hue=0.8), "ColorJitter.hue", "got 0.8", "from 0 to 0.5"),
    (lambda: P.ColorJitter(brigthness=0.2), "ColorJitter()", "'brigthness'", "brightness=?"),
    (lambda: P.MixUp(0.4), "MixUp.lam", "got 0.4", "Beta(0.4)"),
    (lambda: P.Uniform(3, 1), "Uniform", "low=3", "Swap the two"),
    (lambda: rotate(X, 3.0, interpolate="nearest"), "rotate()", "'interpolate'", "interpolation=?"),
    # keys and targets
    (lambda: pipe(targets={"left": "picture"}), "targets", "'picture'", "image"),
    (lambda: pipe(targets=["left"]), "targets", "got ['left']", "{'left': ...}"),
    (lambda: pipe(passthrough="path")({"image": X, "path": ["a", "b"]}), "passthrough", "got 'path'", "Write ['path']"),
    (lambda: pipe(box_format="xyhw"), "box_format", "'xyhw'", "xywh"),
    (lambda: pipe()({"image": X, "keypoints": torch.rand(2, 3)}), "keypoints", "(2, 3)", "(B, N, 2)"),
    (lambda: pipe()({"image": X, "keypoints": torch.rand(2, 5, 4)}), "keypoints", "(2, 5, 4)", "(B, N, 2)"),
    (
        lambda: pipe()({"image": X, "boxes": BOXES, "boxes_valid": torch.ones(2, 3, dtype=torch.bool)}),
        "boxes_valid",
        "(2, 3)",
        "(2, 1)",
    ),
    (lambda: pipe()({"image": X, "mask": np.zeros((2, 8, 8), dtype=object)}), "mask", "object", "number"),
    (lambda: pipe(min_visibility=30), "min_visibility", "got 30", "from 0 to 1"),
    (lambda: pipe(pairs={"keypoints": [(0, 0)]}), "pairs['keypoints']", "(0, 0)", "places that differ"),
    (lambda: pipe(pairs={"keypoints": [(0, 9)]})({"image": X, "keypoints": torch.rand(2, 3, 2)}), "pairs", "9", "3"),
    (lambda: pipe(interpolation={"mask": "linear"}), "interpolation", "'linear'", "'bilinear'"),
    (lambda: pipe(dtype="float32"), "dtype", "'float32'", "torch.float32"),
    # options
    (lambda: P.RandomCrop(), "RandomCrop", "missing", "'size'"),
    (lambda: P.RandomResizedCrop(224, scale=0.5), "scale", "0.5", "pair"),
    (lambda: P.RandomResizedCrop(224, scale=(0.5, -1)), "scale", "-1", "Swap"),
    (lambda: P.RandomResizedCrop(224, ratio=(0, 1)), "RandomResizedCrop.ratio", "(0, 1)", ">= 1e-06"),
    (lambda: P.GaussianBlur(3), "GaussianBlur", "pellucid", "RandomGaussianBlur"),
    (lambda: P.RandomGaussianBlur(4), "kernel_size", "4", "odd"),
    (lambda: P.RandomGaussianBlur(sigma=(-1, 2)), "sigma", "-1", ">"),
    (lambda: P.RandomErasing(scale=(0.5, 2)), "scale", "2", "1"),
    (lambda: P.RandomPosterize(9), "bits", "9", "8"),
    (lambda: P.RandomSolarize(128), "RandomSolarize.threshold", "got 128", "<= 1"),
    (lambda: P.Normalize((0.5, 0.5), (0.5, 0.5))(X), "Normalize", "got 2 numbers", "3 channels"),
    (lambda: P.RandomAffine(), "RandomAffine", "missing", "'degrees'"),
    (lambda: P.RandomAffine(10, translate=0.1), "translate", "0.1", "pair"),
    (lambda: P.RandomAffine(10, translate=(10, 10)), "translate", "10", "fraction"),
    (lambda: P.RandomPerspective(2.0), "distortion_scale", "2", "1"),
    (lambda: P.OneOf(P.RandomInvert(), P.RandomGrayscale()), "OneOf", "RandomInvert", "["),
    (lambda: P.OneOf([P.RandomInvert(), P.RandomGrayscale()], weights=(1, 2, 3)), "weights", "3", "2"),
    (lambda: P.SomeOf([P.RandomInvert()], n=5), "n", "5", "1"),
    (lambda: P.RandomJPEG(quality=(0, 200)), "RandomJPEG.quality", "(0, 200)", ">= 1"),
    (lambda: P.Pad(-1), "padding", "-1", "0"),
    (lambda: P.CenterCrop((8, 8, 8)), "size", "(8, 8, 8)", "(height, width)"),
    (lambda: P.Learnable("10"), "Learnable", "'10'", "number"),
    (lambda: P.Uniform("a", 3), "Uniform", "'a'", "number"),
    (lambda: P.Categorical(()), "Categorical", "()", "at least one"),
    (lambda: P.Key("a"), "Key", "'a'", "int"),
    # functions
    (lambda: rotate(X), "rotate()", "degrees", "degrees"),
    (lambda: rotate(np.zeros((8, 8, 3), dtype=np.uint8), 3.0), "image", "ndarray", "torch.from_numpy"),
    (lambda: warp_affine(X, torch.eye(4), (8, 8)), "M", "got shape (4, 4)", "(2, 3)"),
    (lambda: resize(X, -3), "size", "-3", "1"),
    (lambda: functional.normalize(X, (0.5, 0.5), (0.5, 0.5)), "mean", "(0.5, 0.5)", "3 channel"),
    # data
    (lambda: decode("nowhere.jpg"), "nowhere.jpg", "No such file", "nowhere.jpg"),
    (lambda: collate([P.RandomHorizontalFlip()]), "pipeline", "list", "Pipeline"),
    (lambda: collate(pipe(), backend="pil"), "backend", "'pil'", "'pillow'"),
    # names
    (lambda: P.Compose, "'Compose'", "pellucid", "here that is Pipeline"),
    (lambda: P.ToTensor, "'ToTensor'", "pellucid", "takes PIL images"),
    (lambda: P.RandAugment, "'RandAugment'", "pellucid", "policy.RandAugment"),
    (lambda: P.TrivialAugment, "'TrivialAugment'", "pellucid", "policy.TrivialAugmentWide"),
    (lambda: P.HorizontalFlip, "'HorizontalFlip'", "pellucid", "RandomHorizontalFlip"),
    (lambda: P.randomrotation, "'randomrotation'", "pellucid", "did you mean RandomRotation?"),
]


@pytest.mark.parametrize("number", range(len(MISTAKES)))
def test_a_mistake_is_answered_by_name_with_what_came_and_what_to_write(number):
    call, name, got, fix = MISTAKES[number]
    with pytest.raises((TypeError, ValueError, AttributeError, OSError)) as caught:
        call()
    said = str(caught.value)
    for part in (name, got, fix):
        assert part in said, said
