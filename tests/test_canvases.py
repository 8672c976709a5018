"""A composed run means what its steps mean: what a canvas cuts off stays cut off, what a pad adds stays as it was filled."""

import random

import numpy as np
import pytest
import torch

import pellucid as P
from pellucid.types import ImageSpec

SIZE = 12
PAD_MODES = {"constant": "constant", "border": "edge", "reflection": "symmetric", "reflect_101": "reflect"}


def pad_of(rng):
    mode = rng.choice(list(PAD_MODES))
    return P.Pad(tuple(rng.randrange(4) for _ in range(4)), fill=rng.choice([0.0, 0.25, 0.75]), padding_mode=mode)


def whole_pixel_chain(seed):
    """Crops, pads of every mode, flips and quarter turns on a square image whose side stays even."""
    rng = random.Random(seed)
    side, steps = SIZE, []
    for _ in range(rng.randrange(2, 6)):
        kind = rng.randrange(5)
        if kind == 0 and side > 4:
            side -= 2 * rng.randrange(1, 3)
            steps.append(P.CenterCrop(side))
        elif kind == 1:
            amount = rng.randrange(1, 4)
            side += 2 * amount
            steps.append(P.Pad(amount, fill=rng.choice([0.0, 0.25, 0.75]), padding_mode=rng.choice(list(PAD_MODES))))
        elif kind == 2:
            steps.append(P.RandomHorizontalFlip(p=1.0))
        elif kind == 3:
            steps.append(P.RandomVerticalFlip(p=1.0))
        else:
            steps.append(P.RandomRotation90(times=(rng.randrange(1, 4),)))
    return steps


def by_numpy(steps, image):
    """The chain, step by step, by slicing and ``numpy.pad``."""
    for step in steps:
        if isinstance(step, P.CenterCrop):
            cut = (image.shape[-1] - step.size) // 2
            image = image[..., cut : cut + step.size, cut : cut + step.size]
        elif isinstance(step, P.Pad):
            options = {"constant_values": step.fill} if step.padding_mode == "constant" else {}
            widths = [(0, 0)] * (image.ndim - 2) + [(step.padding, step.padding)] * 2
            image = np.pad(image, widths, mode=PAD_MODES[step.padding_mode], **options)
        elif isinstance(step, P.RandomRotation90):
            image = np.rot90(image, step.times[0], (-2, -1))
        else:
            image = np.flip(image, -1 if isinstance(step, P.RandomHorizontalFlip) else -2)
    return np.ascontiguousarray(image)


def cut_or_turned(rng):
    return rng.choice(
        [
            P.CenterCrop(rng.choice([7, 8, 9])),
            P.RandomCrop(8, pad_if_needed=True),
            P.RandomCrop(9, padding=2, fill=0.4, padding_mode=rng.choice(list(PAD_MODES))),
            pad_of(rng),
            P.RandomHorizontalFlip(),
            P.RandomVerticalFlip(),
            P.RandomRotation90(times=(0, 2)),
        ]
    )


def interpolating(rng):
    how = {"fill": rng.choice([0.0, 0.3]), "padding_mode": rng.choice(["zeros", "constant", "border", "reflection", "reflect_101"])}
    return rng.choice(
        [
            P.RandomRotation(40, **how),
            P.RandomAffine(25, translate=(0.3, 0.3), scale=(0.7, 1.3), **how),
            P.RandomPerspective(0.4, p=1.0, **how),
            P.RandomTranslate((0.4, 0.4), **how),
            P.RandomResizedCrop((10, 13)),
            P.Resize((15, 14)),
            P.Resize((7, 8)),
            P.Letterbox((11, 14), fill=0.6),
        ]
    )


def one_interpolation(seed):
    """Any cuts, pads and turns around a single warp that interpolates, and sometimes a colour map at the end."""
    rng = random.Random(1000 + seed)
    steps = [cut_or_turned(rng) for _ in range(rng.randrange(1, 3))] + [interpolating(rng)]
    steps += [cut_or_turned(rng) for _ in range(rng.randrange(0, 3))]
    return steps + rng.choice([[], [P.RandomInvert(p=1.0)], [P.RandomBrightness((0.5, 0.6), clip="none")]])


CHAINS = 28


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.uint8])
@pytest.mark.parametrize("seed", range(CHAINS))
def test_whole_pixel_chains_are_slices_and_pads(seed, dtype):
    steps = whole_pixel_chain(seed)
    image = torch.randint(0, 256, (2, 3, SIZE, SIZE), dtype=torch.uint8)
    if dtype != torch.uint8:
        image = image.to(dtype) / 255
    else:  # fills are in the image's own units
        steps = [
            P.Pad(s.padding, fill=round(s.fill * 100), padding_mode=s.padding_mode) if isinstance(s, P.Pad) else s for s in steps
        ]
    wanted = torch.from_numpy(by_numpy(steps, image.numpy()))
    for fuse in (True, False):
        assert torch.equal(P.Pipeline(steps, fuse=fuse)(image), wanted)
        assert torch.equal(P.Pipeline(steps, fuse=fuse, impl="reference")(image), wanted)


@pytest.mark.parametrize("seed", range(CHAINS))
def test_around_one_interpolation_nothing_but_rounding_differs(seed):
    """And neither do masks, points, boxes and what is valid."""
    steps = one_interpolation(seed)
    size = torch.tensor([SIZE - 1.0, SIZE - 1.0], dtype=torch.float64)
    corners = torch.rand(3, 9, 2, dtype=torch.float64) * size
    batch = {
        "image": 0.2 + 0.6 * torch.rand(3, 3, SIZE, SIZE, dtype=torch.float64),
        "mask": torch.randint(0, 9, (3, 1, SIZE, SIZE)),
        "keypoints": torch.rand(3, 20, 2, dtype=torch.float64) * size,
        "boxes": torch.cat((corners, corners + 1.0 + 5.0 * torch.rand(3, 9, 2, dtype=torch.float64)), -1),
    }
    options = {"seed": seed, "impl": "reference", "return_valid": True}
    out, wanted = (P.Pipeline(steps, **options, fuse=fuse)(batch) for fuse in (True, False))
    for name, value in wanted.items():  # what is valid is told in single precision
        assert (out[name].double() - value.double()).abs().max() < (1e-5 if name == "valid" else 1e-9), name


@pytest.mark.parametrize(
    "resize", [P.Resize((10, 13)), P.Resize((20, 30)), P.RandomResizedCrop((10, 13)), P.RandomResizedCrop((30, 20))]
)
@pytest.mark.parametrize("last", [P.Pad(2, fill=0.75), P.Letterbox((8, 12), fill=0.75), P.Pad(1, padding_mode="reflection")])
def test_a_crop_of_a_resized_picture_ends_with_its_own_pixels(resize, last):
    """Half a pixel of the source is another length than half a pixel of the picture that was cropped."""
    batch = {"image": torch.rand(2, 3, SIZE, SIZE, dtype=torch.float64), "mask": torch.randint(1, 99, (2, SIZE, SIZE))}
    out, wanted = (P.Pipeline([resize, P.CenterCrop(8), last], seed=3, mask_fill=100, fuse=fuse)(batch) for fuse in (True, False))
    assert (out["image"] - wanted["image"]).abs().max() < 1e-9
    assert torch.equal(out["mask"], wanted["mask"])


WAVES = 48


def two_interpolations(seed):
    rng = random.Random(2000 + seed)

    def between():
        steps = [[], [P.Pad(4, fill=0.5)], [P.CenterCrop(28)], [P.RandomHorizontalFlip()], [P.Pad(5, padding_mode="reflection")]]
        return rng.choice([*steps, [P.RandomInvert(p=1.0)]])

    def warp():
        bent = {"padding_mode": rng.choice(["zeros", "border", "reflection", "reflect_101"])}
        return [
            rng.choice(
                [
                    P.RandomRotation(30, fill=0.3),
                    P.RandomAffine(20, translate=(0.2, 0.2), scale=(0.8, 1.2), **bent),
                    P.RandomPerspective(0.3, p=1.0, fill=0.6),
                    P.RandomTranslate((0.3, 0.3)),
                    P.RandomResizedCrop((40, 50), scale=(0.5, 1.0)),
                    P.Resize((60, 64)),
                    P.Letterbox((50, 60), fill=0.2),
                ]
            )
        ]

    return between() + warp() + between() + warp() + between()


def inner(valid):
    """Pixels whose neighbourhood lies in the picture and shows the image."""
    return -torch.nn.functional.max_pool2d(-torch.nn.functional.pad(valid, (6, 6, 6, 6)), 13, 1) == 1.0


@pytest.mark.parametrize("seed", range(16))
def test_two_interpolations_differ_by_one_interpolation(seed):
    """A slow wave has no more than 0.02 / 14^2 per pixel that bilinear interpolation could lose; whatever is wrong loses more."""
    steps = two_interpolations(seed)
    y, x = torch.meshgrid(*[torch.arange(WAVES, dtype=torch.float64)] * 2, indexing="ij")
    image = (0.5 + 0.15 * torch.sin(x / 14) + 0.15 * torch.cos(y / 17)).expand(2, 3, WAVES, WAVES).contiguous()
    points = torch.rand(2, 40, 2, dtype=torch.float64) * (WAVES - 1)
    batch = {"image": image, "keypoints": points, "boxes": torch.cat((points, points + 5.0), -1)}
    options = {"seed": seed, "impl": "reference", "return_valid": True}
    out, wanted = (P.Pipeline(steps, **options, fuse=fuse)(batch) for fuse in (True, False))
    both = (inner(out["valid"]) & inner(wanted["valid"])).expand_as(out["image"])
    assert not both.any() or (out["image"] - wanted["image"])[both].abs().max() < 1e-3
    assert ((out["valid"] > 0.5) != (wanted["valid"] > 0.5)).double().mean() < 0.02
    assert (out["image"] - wanted["image"]).abs().mean() < 0.01
    assert torch.equal(out["keypoints_valid"], wanted["keypoints_valid"])
    assert torch.equal(out["boxes_valid"], wanted["boxes_valid"])
    assert ((out["boxes"] - wanted["boxes"]).abs() * out["boxes_valid"][..., None]).max() < 1e-9


@pytest.mark.parametrize("fuse", [True, False])
def test_a_crop_is_not_undone_by_a_pad(fuse):
    image = torch.arange(36.0).reshape(1, 1, 6, 6) + 1
    points = torch.tensor([[[0.0, 0.0], [2.0, 3.0]]])
    boxes = torch.tensor([[[0.0, 0.0, 1.0, 1.0], [0.0, 0.0, 3.0, 3.0], [2.0, 2.0, 4.0, 4.0]]])
    batch = {"image": image, "mask": image.long(), "keypoints": points, "boxes": boxes}
    out = P.Pipeline([P.CenterCrop(4), P.Pad(1)], fuse=fuse, mask_fill=7, return_valid=True)(batch)
    framed = torch.nn.functional.pad(image[..., 1:-1, 1:-1], (1, 1, 1, 1))
    assert torch.equal(out["image"], framed)
    assert torch.equal(out["mask"], torch.where(framed > 0, framed, 7.0).long())
    assert torch.equal(out["valid"], (framed > 0).float())
    assert out["keypoints_valid"].tolist() == [[False, True]]
    assert out["boxes_valid"].tolist() == [[False, True, True]]
    assert torch.equal(out["boxes"][0, 1:], torch.tensor([[1.0, 1.0, 3.0, 3.0], [2.0, 2.0, 4.0, 4.0]]))


def test_visibility_counts_what_is_left_of_the_whole_box():
    batch = {"image": torch.rand(1, 3, 6, 6), "boxes": torch.tensor([[[0.0, 1.0, 2.0, 5.0], [0.0, 1.0, 5.0, 5.0]]])}
    out = P.Pipeline([P.CenterCrop(4), P.Pad(1)], min_visibility=0.6)(batch)
    assert out["boxes_valid"].tolist() == [[False, True]]


@pytest.mark.parametrize("impl", ["reference", "auto"])
@pytest.mark.parametrize("mode", list(PAD_MODES))
def test_a_pads_border_rule_survives_a_rotation(mode, impl):
    image = torch.rand(2, 3, SIZE, SIZE, dtype=torch.float64)
    turn = P.RandomRotation((30.0, 30.0), fill=0.2)
    padded = np.pad(image.numpy(), ((0, 0), (0, 0), (2, 2), (2, 2)), mode=PAD_MODES[mode])
    out = P.Pipeline([P.Pad(2, padding_mode=mode), turn], impl=impl)(image)
    assert (out - P.Pipeline([turn], impl="reference")(torch.from_numpy(padded))).abs().max() < 1e-12


def test_each_fill_keeps_its_colour():
    """A pad before the inversion shows its fill inverted, the rotation after it shows its own."""
    image = torch.full((1, 3, 8, 8), 0.25, dtype=torch.float64)
    steps = [
        P.RandomTranslate(((0.5, 0.5), (0.0, 0.0)), fill=0.9),
        P.RandomInvert(p=1.0),
        P.RandomTranslate(((0.0, 0.0), (0.5, 0.5)), fill=0.4),
    ]
    out = P.Pipeline(steps)(image)
    assert len(P.Pipeline(steps).plan(ImageSpec(3, 8, 8)).groups) == 1
    assert (out[..., :4, :] - 0.4).abs().max() < 1e-12
    assert (out[..., 4:, :4] - 0.1).abs().max() < 1e-12
    assert (out[..., 4:, 4:] - 0.75).abs().max() < 1e-12


@pytest.mark.parametrize(
    "step",
    [
        *(P.Resize((7, 9)), P.Resize((20, 18)), P.RandomResizedCrop((7, 7)), P.RandomResizedCrop((15, 15))),
        *(P.Resize(size, interpolation=how, antialias=False) for size in ((7, 9), (20, 20)) for how in ("bilinear", "bicubic")),
        P.Resize((20, 20), interpolation="bicubic"),
        P.RandomResizedCrop((15, 15), interpolation="bicubic"),
    ],
)
def test_quarter_turns_stay_on_the_exact_path(step):
    """Before and after: integrating over an upright footprint, within the crop."""
    image = torch.rand(4, 3, 14, 14, dtype=torch.float64)
    for turn in (1, 2, 3):
        turned = P.RandomRotation90(times=(turn,))
        out, record = P.Pipeline([turned, step], seed=turn)(image, return_record=True)
        alone = P.Pipeline([step]).apply(torch.rot90(image, turn, (-2, -1)), record.step(1))
        assert (out - alone).abs().max() < 1e-12
    if out.shape[-1] == out.shape[-2]:
        out, record = P.Pipeline([step, turned], seed=5)(image, return_record=True)
        assert (out - torch.rot90(P.Pipeline([step]).apply(image, record.step(0)), turn, (-2, -1))).abs().max() < 1e-12


def test_the_whole_image_is_an_option():
    image = torch.rand(1, 3, 8, 8)
    steps = [P.RandomTranslate(((0.5, 0.5), (0.0, 0.0))), P.RandomTranslate(((-0.5, -0.5), (0.0, 0.0)))]
    points = torch.tensor([[[7.0, 1.0], [2.0, 1.0]]])
    whole, each = (P.Pipeline(steps, canvas=rule) for rule in ("image", "each"))
    out, lost = (pipeline({"image": image, "keypoints": points}) for pipeline in (whole, each))
    assert torch.equal(out["image"], image)
    assert bool(out["keypoints_valid"].all())
    assert torch.equal(lost["image"][..., :4], image[..., :4])
    assert bool((lost["image"][..., 4:] == 0).all())
    assert lost["keypoints_valid"].tolist() == [[False, True]]
    with pytest.raises(P.InvalidArgument, match="canvas"):
        P.Pipeline(steps, canvas="whole")


def test_the_rule_is_saved(tmp_path):
    pipeline = P.Pipeline([P.CenterCrop(4), P.RandomRotation(20)], canvas="image")
    assert P.Pipeline.from_dict(pipeline.to_dict()).canvas == "image"
    record = pipeline.draw(torch.rand(2, 3, 8, 8))
    record.save(tmp_path / "record.pt")
    assert P.Record.load(tmp_path / "record.pt").plan.canvas == "image"


def test_an_inverse_shows_nothing_that_was_cut_off():
    image = torch.rand(1, 3, 6, 6) + 0.5
    pipeline = P.Pipeline([P.CenterCrop(4), P.Pad(1, fill=0.7)])
    out, record = pipeline(image, return_record=True)
    back = pipeline.inverse(out, record)
    assert torch.equal(back, torch.nn.functional.pad(image[..., 1:-1, 1:-1], (1, 1, 1, 1)))


@pytest.mark.parametrize("impl", ["reference", "cpu"])
def test_gradients_reach_every_map_and_the_image(impl):
    steps = [P.RandomRotation((20.0, 20.0), fill=0.3), P.RandomInvert(p=1.0), P.RandomPerspective(0.3, p=1.0, fill=0.6)]
    pipeline = P.Pipeline(steps, impl=impl, seed=2)
    image = torch.rand(2, 1, 9, 9, dtype=torch.float64, requires_grad=True)  # finite differences of every pixel: one channel
    record = pipeline.draw(image)
    names = [(0, "degrees"), (2, "top_left_x"), (2, "bottom_right_y")]
    weights = torch.rand(2, 1, 9, 9, dtype=torch.float64)

    def loss(image, *values):
        given = record
        for (at, name), value in zip(names, values, strict=True):
            given = given.with_param(at, name, value)
        return (weights * pipeline.apply(image, given)).sum()

    values = [record.params[at][name].detach().clone().requires_grad_() for at, name in names]
    assert torch.autograd.gradcheck(loss, (image, *values), eps=1e-7, atol=1e-4)


def test_masks_learn_nothing_silently_lost():
    """A nearest image keeps its secant slope across canvases."""
    steps = [
        P.RandomRotation((20.0, 20.0), interpolation="nearest"),
        P.RandomTranslate(((0.1, 0.1), (0.2, 0.2)), interpolation="nearest"),
    ]
    pipeline = P.Pipeline(steps)
    image = torch.rand(1, 3, 9, 9)
    record = pipeline.draw(image).requires_grad_()
    pipeline.apply(image, record).pow(2).sum().backward()
    assert all(
        float(values[name].grad.abs().max()) > 0 for values, name in zip(record.params, ("degrees", "translate_x"), strict=True)
    )


def test_there_may_be_no_samples():
    pipeline = P.Pipeline([P.CenterCrop(8), P.RandomRotation(20), P.RandomPerspective(0.3, p=1.0)])
    out = pipeline({"image": torch.rand(0, 3, 9, 9), "boxes": torch.rand(0, 5, 4), "keypoints": torch.rand(0, 5, 2)})
    assert out["image"].shape == (0, 3, 8, 8)
    assert out["boxes_valid"].shape == (0, 5)
