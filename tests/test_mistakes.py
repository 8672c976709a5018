"""What beginners get wrong: the first line of the error names the thing, says what came, and what to write next."""

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import pellucid as P
from pellucid.functional import rotate

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
    (lambda: pipe(drop_invalid=True)({"image": X, "boxes": BOXES}), "drop_invalid", "got a batch", "Pass lists"),
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
