"""What lies over pictures goes through a pipeline's first warp with them: each is read once."""

import pytest
import torch
from scipy.ndimage import map_coordinates

import pellucid as P
from pellucid.adversarial import PatchAdversary
from pellucid.random import Learnable
from tests.refusals import refused

KEY = P.Key(4, 2)


def attack(pipeline, placement, size=(6, 4)):
    return PatchAdversary(pipeline, P.Pipeline(placement, seed=3), lambda x, y: x.mean((1, 2, 3)), size=size)


def pictures(size=(6, 4), height=20, width=24):
    generator = torch.Generator().manual_seed(0)
    images = torch.rand(3, 3, height, width, dtype=torch.float64, generator=generator)
    return images, torch.rand(1, 3, *size, dtype=torch.float64, generator=generator)


def shift(x, y, **options):
    """By so many pixels of 24 x 20."""
    return P.RandomTranslate(((x / 24, x / 24), (y / 20, y / 20)), **options)


JITTER = P.ColorJitter(0.3, 0.3, saturation=0.3, hue=0.1)
WHOLE = {
    "nothing": [],
    "colour alone": [JITTER],
    "a flip": [P.RandomHorizontalFlip(p=0.5)],
    "a shift": [shift(3, -5)],
    "shift, fill, colours": [shift(3, 5, fill=0.3), JITTER],
    "colours, then a shift": [JITTER, shift(9, -5, fill=0.3)],
    "stages between": [
        P.ColorJitter((2.0, 2.0)),
        P.RandomPosterize(4, p=1.0),
        shift(9, -5, fill=(0.3, 0.2, 0.1)),
        P.Normalize((0.5, 0.4, 0.3), (0.2, 0.3, 0.4)),
    ],
    "a shift, then stages": [
        shift(9, -5, fill=(0.3, 0.2, 0.1)),
        JITTER,
        P.RandomPosterize(4, p=1.0),
        P.RandomGaussianBlur(3, p=1.0),
    ],
    "out and back": [shift(12, 0, fill=0.7), P.ColorJitter(0.3, 0.3), shift(-12, 5, fill=0.3)],
    "pad and crop": [P.Pad(3, fill=0.2), P.CenterCrop((18, 14))],
    "grey": [shift(3, 5, fill=0.3), P.RandomGrayscale(p=1.0)],
}


@pytest.mark.parametrize("steps", WHOLE.values(), ids=WHOLE)
def test_whole_pixels_are_those_of_pasting_first(steps):
    pipeline = P.Pipeline(steps, seed=0)
    one, (images, patch) = attack(pipeline, [shift(3, -2)]), pictures()
    leaves = images.requires_grad_(), patch.requires_grad_()
    found, expected = one.show(*leaves, key=KEY), pipeline(one.paste(*leaves, key=KEY), key=KEY)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-6)
    weights = torch.rand_like(found)
    slopes = [torch.autograd.grad((weights * out).sum(), leaves) for out in (found, expected)]
    torch.testing.assert_close(slopes[0], slopes[1], rtol=0, atol=1e-5)


WARPS = {
    "affine": [P.RandomAffine(40, (0.1, 0.1), scale=(1.3, 1.5))],
    "perspective": [P.RandomPerspective(0.1, p=1.0), P.RandomAffine(20, scale=(1.5, 1.6))],
    "crop": [P.RandomResizedCrop((20, 24), scale=(0.3, 0.5))],
    "resize": [P.Resize((40, 50))],
}


@pytest.mark.parametrize("steps", WARPS.values(), ids=WARPS)
def test_patch_and_picture_are_read_once_where_they_lie(steps):
    """By scipy, at the places that the records say, wherever one of the two shows alone; enlarged, so that nothing is averaged."""
    pipeline = P.Pipeline(steps, seed=0)
    one, (images, patch) = attack(pipeline, [P.RandomAffine(30, (0.1, 0.1), scale=(1.8, 2.2))]), pictures()
    found = one.show(images, patch, key=KEY)
    placement, seen = one.placement.draw(images, key=P.Key(KEY.seed + 1, KEY.step)), pipeline.draw(images, key=KEY)
    height, width = seen.size_out
    v, u = torch.meshgrid(torch.arange(height).double(), torch.arange(width).double(), indexing="ij")
    points = seen.src_from_dst @ torch.stack((u, v, torch.ones_like(u))).flatten(1)
    at = points[:, :2] / points[:, 2:]
    own = placement.src_from_dst @ torch.cat((at, torch.ones_like(at[:, :1])), 1)
    own = own[:, :2] / own[:, 2:] - torch.tensor([[(24 - 4) / 2], [(20 - 6) / 2]])
    # Not what the edge of a crop weighs in another way: points within one and a half pixels of it.
    inside = within(at, 24, 20, 0.0) & within(torch.stack((u, v)).flatten(1)[None], width, height, -3.0)
    for part, places, where in ((patch, own, inside & within(own, 4, 6, 0.0)), (images, at, inside & ~within(own, 4, 6, 1.01))):
        assert int(where.sum()) > 30
        for row in range(3):
            for channel in range(3):
                pixels = part[row % len(part), channel].numpy()
                expected = torch.from_numpy(map_coordinates(pixels, places[row].flip(0).numpy(), order=1, mode="nearest"))
                shown = found[row, channel].flatten()
                torch.testing.assert_close(shown[where[row]], expected[where[row]], rtol=0, atol=1e-6)


def within(points, width, height, margin):
    low, high = -margin, torch.tensor([[width - 1.0], [height - 1.0]]) + margin
    return ((points >= low) & (points <= high)).all(1)


PASTED = {
    "blur": [P.RandomGaussianBlur(3, p=1.0), P.RandomRotation(20)],
    "a field": [P.RandomElastic(4.0), P.RandomRotation(20)],
    "reflections": [P.RandomRotation(20, padding_mode="reflection")],
    "nearest": [P.RandomRotation(20, interpolation="nearest")],
}


@pytest.mark.parametrize("steps", PASTED.values(), ids=PASTED)
def test_other_pipelines_take_what_is_pasted(steps):
    pipeline = P.Pipeline(steps, seed=0)
    one, (images, patch) = attack(pipeline, [P.RandomAffine(30)]), pictures()
    assert torch.equal(one.show(images, patch, key=KEY), pipeline(one.paste(images, patch, key=KEY), key=KEY))


def test_gradients_to_pixels_and_learned_numbers():
    pipeline = P.Pipeline([P.RandomAffine(Learnable(20.0), scale=(1.1, 1.2), fill=0.4), P.ColorJitter(0.3, 0.3)], seed=0).double()
    one = attack(pipeline, [P.RandomAffine(Learnable(25.0), (0.1, 0.1), scale=(1.8, 2.2))], (3, 4))
    images, patch = pictures((3, 4), 6, 7)
    learned = [*pipeline.parameters(), *one.placement.double().parameters()]
    assert len(learned) == 2

    def function(x, y, *_):
        return one.show(x, y, key=KEY)

    inputs = images[:1, :1].requires_grad_(), patch[:, :1].requires_grad_()
    assert torch.autograd.gradcheck(function, inputs, fast_mode=False)
    slopes = torch.autograd.grad(function(*inputs).square().sum(), learned)
    for parameter, slope in zip(learned, slopes, strict=True):
        with torch.no_grad():
            ends = [function(*inputs).square().sum() for step in (1e-3, -2e-3) if parameter.add_(step) is not None]
            parameter.add_(1e-3)
        assert float(slope) == pytest.approx(float((ends[0] - ends[1]) / 2e-3), rel=1e-5)


def test_attacks_see_what_is_shown():
    """The loss sees the very pictures that `show` gives."""
    seen = []

    def loss(x, y):
        seen.append(x.detach())
        return x.mean((1, 2, 3))

    camera = P.Pipeline([P.RandomAffine(20, scale=(1.2, 1.4)), JITTER], seed=0)
    one = PatchAdversary(camera, P.Pipeline([P.RandomRotation(20)], seed=1), loss, (6, 4), steps=1, draws=2)
    images = pictures()[0].float()
    one(images, torch.tensor([0, 1, 0]), key=KEY)
    grey = torch.full((1, 3, 6, 4), 0.5)
    assert torch.equal(seen[0], one.show(images.repeat(2, 1, 1, 1), grey, key=KEY))


@pytest.mark.parametrize(
    ("over", "message"),
    [
        (torch.zeros(3, 4, 4), "over: expected a picture and the maps"),
        ((torch.zeros(2, 4, 4), torch.eye(3)), r"over\[0\]: expected torch.float32 \(1 or 2, 3, h, w\)"),
        ((torch.zeros(3, 4, 4, dtype=torch.uint8), torch.eye(3)), r"over\[0\]: expected torch.float32"),
        ((torch.zeros(3, 4, 4), torch.eye(2)), r"over\[1\]: expected maps \(2, 3, 3\)"),
        ((torch.zeros(3, 4, 4), torch.zeros(3, 3, 3)), r"over\[1\]: expected maps"),
    ],
)
def test_what_does_not_fit_is_refused(over, message):
    pipeline, images = P.Pipeline([P.RandomRotation(10)]), torch.zeros(2, 3, 8, 8)
    refused((P.InvalidArgument, P.InvalidType), message, pipeline.apply, images, pipeline.draw(images), over=over)


def test_bytes_and_lists_take_nothing_over_them():
    pipeline, fitting = P.Pipeline([P.RandomRotation(10)]), (torch.zeros(3, 4, 4), torch.eye(3))
    images = torch.zeros(2, 3, 8, 8, dtype=torch.uint8)
    refused(P.InvalidArgument, "floating-point images", pipeline.apply, images, pipeline.draw(images), over=fitting)
    lists = [torch.zeros(3, 8, 8), torch.zeros(3, 6, 8)]
    refused(P.InvalidArgument, "None for a list", pipeline.apply, lists, pipeline.draw(lists), over=fitting)


def test_other_targets_are_not_covered():
    pipeline, images = P.Pipeline([P.RandomHorizontalFlip(p=1.0)]), torch.zeros(2, 3, 8, 8)
    mask = torch.randint(0, 5, (2, 8, 8))
    batch = {"image": images, "mask": mask}
    record = pipeline.draw(batch)
    out = pipeline.apply(batch, record, over=(torch.ones(3, 8, 8), torch.eye(3)))
    assert torch.equal(out["mask"], mask.flip(-1))
    assert bool((out["image"] == 1).all())


def test_no_pictures_are_no_mistake():
    one = attack(P.Pipeline([P.RandomAffine(20)]), [P.RandomAffine(20)])
    assert one.show(torch.zeros(0, 3, 8, 8), torch.zeros(1, 3, 6, 4)).shape == (0, 3, 8, 8)
    assert one.paste(torch.zeros(0, 3, 8, 8), torch.zeros(1, 3, 6, 4)).shape == (0, 3, 8, 8)
