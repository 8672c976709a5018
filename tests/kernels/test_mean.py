"""The mean colour's gradient joins the pass's where it lies, and nothing else is written to."""

import pytest
import torch

import pellucid as P
from pellucid.kernels.color import pixels_of, with_mean
from pellucid.kernels.resize import settled
from pellucid.kernels.warp.packing import Opened, pack
from tests.peers import torchvision_functional

TRANSFORMS = {
    "warp": [P.RandomAffine(30), P.ColorJitter(contrast=0.5)],
    "colour alone": [P.ColorJitter(contrast=0.5)],
    "more than one pass of colour": [P.ColorJitter(contrast=0.5), P.RandomAffine(30), P.ColorJitter(hue=0.2)],
    "crop": [P.RandomResizedCrop((13, 9), antialias=True), P.ColorJitter(contrast=0.5)],
    "clipped": [P.ColorJitter(0.5, 0.5, saturation=0.5, hue=0.2, clip="end")],
}


def photos(dtype=torch.float32, batch=3):
    return torch.rand(batch, 3, 17, 12, dtype=dtype, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("name", TRANSFORMS)
def test_gradients_are_those_of_the_reference(name, layout):
    found = []
    for impl in ("cpu", "reference"):
        x = photos(torch.float64).contiguous(memory_format=layout).requires_grad_()
        out = P.Pipeline(TRANSFORMS[name], impl=impl)(x, key=P.Key(1, 2))
        found += torch.autograd.grad(out, x, torch.arange(out.numel(), dtype=torch.float64).reshape(out.shape).sin())
    torch.testing.assert_close(*found, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("name", TRANSFORMS)
def test_what_others_hold_is_left_alone(name):
    x = photos().requires_grad_()
    before = 2 * x
    before.retain_grad()
    out = P.Pipeline(TRANSFORMS[name])(before, key=P.Key(1, 2))
    grad = torch.randn(out.shape)
    kept = grad.clone()
    out.backward(grad, retain_graph=True)
    first, held = x.grad.clone(), before.grad
    seen = held.clone()
    out.backward(grad)
    assert torch.equal(grad, kept)
    assert torch.equal(x.grad, 2 * first)
    assert torch.equal(before.grad, 2 * seen)


@pytest.mark.parametrize("dtype", [torch.float32, torch.uint8])
def test_strides_of_axes_of_one_element_say_nothing(dtype):
    numbers = (255 * torch.rand(600, generator=torch.Generator().manual_seed(0))).to(dtype)
    for size, strides in (
        ((2, 1, 5, 4), (20, 4, 4, 1)),
        ((2, 1, 5, 4), (20, 1, 4, 1)),
        ((1, 3, 5, 4), (7, 20, 4, 1)),
        ((2, 3, 5, 1), (15, 5, 1, 9)),
        ((2, 3, 5, 1), (15, 1, 3, 9)),
        ((2, 3, 1, 4), (12, 4, 9, 1)),
        ((1, 1, 1, 1), (5, 6, 7, 8)),
    ):
        image = numbers.as_strided(size, strides)
        expected = image.double().mean((-2, -1)) / (255 if dtype == torch.uint8 else 1)
        torch.testing.assert_close(with_mean(image)[1], expected, rtol=1e-12, atol=1e-12)


def test_either_result_may_go_unused():
    x = photos(torch.float64).requires_grad_()
    (to_mean,) = torch.autograd.grad(with_mean(x)[1].sum(), x)
    torch.testing.assert_close(to_mean, torch.full_like(x, 1 / (17 * 12)))
    (to_image,) = torch.autograd.grad((with_mean(x)[0] ** 2).sum(), x)
    assert torch.equal(to_image, 2 * x)


def test_second_derivatives():
    x = photos(torch.float64, 1)[:, :, :4, :3].clone().requires_grad_()
    pipeline = P.Pipeline(TRANSFORMS["warp"], impl="cpu")
    assert torch.autograd.gradgradcheck(lambda image: pipeline(image, key=P.Key(1, 2)).sin(), x)


def test_batched_gradients():
    x = photos(torch.float64).requires_grad_()
    out = P.Pipeline(TRANSFORMS["warp"])(x, key=P.Key(1, 2))
    grads = torch.randn(2, *out.shape, dtype=torch.float64)
    (together,) = torch.autograd.grad(out, x, grads, is_grads_batched=True, retain_graph=True)
    for grad, found in zip(grads, together, strict=True):
        torch.testing.assert_close(found, *torch.autograd.grad(out, x, grad, retain_graph=True), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_any_number_of_threads_gives_the_same_bits(threads):
    x = torch.rand(2, 3, 300, 260, generator=torch.Generator().manual_seed(1)).requires_grad_()
    found = []
    for count in (1, threads):
        torch.set_num_threads(count)
        out = P.Pipeline(TRANSFORMS["warp"])(x, key=P.Key(1, 2))
        found += torch.autograd.grad(out.square().sum(), x)
    assert torch.equal(*found)


INF, NAN = float("inf"), float("nan")
WINDOW = (slice(2, 11), slice(3, 9))
FRAME = torch.tensor([[2.5, 1.5, 8.5, 10.5]], dtype=torch.float64)


def within(x, frame):
    whole = torch.tensor([[0, 0, x.shape[3] - 1, x.shape[2] - 1]], dtype=torch.float64)
    return with_mean(x, pixels_of(frame, whole))


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32, torch.float64])
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_the_mean_within_a_frame_is_that_of_its_pixels(dtype, layout):
    x = (photos(torch.float64) * 255).to(dtype).contiguous(memory_format=layout)
    unit = 255.0 if dtype == torch.uint8 else 1.0
    expected = x[:, :, *WINDOW].double().mean((-2, -1)) / unit
    torch.testing.assert_close(within(x, FRAME)[1], expected, rtol=1e-14, atol=0)
    torch.testing.assert_close(torch.vmap(lambda one: within(one[None], FRAME)[1][0])(x), expected, rtol=1e-14, atol=0)


@pytest.mark.parametrize(
    ("frame", "rows", "columns"),
    [
        ((-0.5, -0.5, 11.5, 16.5), (0, 17), (0, 12)),
        ((2.5 - 1e-9, 1.5 + 1e-9, 8.5 + 1e-9, 10.5 - 1e-9), (2, 11), (3, 9)),  # what rounding adds is no pixel
        ((2.3, 1.51, 8.7, 10.51), (2, 11), (2, 10)),  # parts of pixels are pixels, less than a 64th is nothing
        ((2.2, 1.5, 2.3, 1.5), (2, 3), (2, 3)),  # never nothing
        ((-9.0, 20.0, -7.0, 30.0), (16, 17), (0, 1)),
        ((NAN, 1.5, 8.5, NAN), (2, 3), (0, 9)),  # what is no number names no memory
        ((2.5, -INF, INF, 10.5), (0, 11), (3, 12)),
    ],
)
def test_pixels_of_a_frame(frame, rows, columns):
    x = photos(torch.float64, 1)
    found = within(x, torch.tensor([frame], dtype=torch.float64))[1]
    torch.testing.assert_close(found, x[:, :, slice(*rows), slice(*columns)].mean((-2, -1)), rtol=1e-14, atol=0)


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_a_frames_gradient_stays_inside(layout):
    frames = torch.cat((FRAME, FRAME + 1.0, FRAME * 0.5))
    for take in (
        lambda x: within(x, frames)[1].sin(),
        lambda x: (within(x, frames)[0] ** 2).sum((-2, -1)) * within(x, frames)[1],
    ):
        x = photos(torch.float64).contiguous(memory_format=layout).requires_grad_()
        assert torch.autograd.gradcheck(take, x)
    x = photos(torch.float64, 1)[:, :, :5, :4].clone().requires_grad_()
    assert torch.autograd.gradgradcheck(lambda image: within(image, FRAME * 0.3)[1].sin(), x)


CUTS = {
    "crop": [P.RandomCrop(8)],
    "center, then crop": [P.CenterCrop(10), P.RandomCrop(8)],
    "crop and flip": [P.RandomCrop(8), P.RandomHorizontalFlip(p=1.0)],
    "resize, then crop": [P.Resize((34, 24), antialias=False), P.RandomCrop((34, 24))],
}


@pytest.mark.parametrize("impl", ["cpu", "reference"])
@pytest.mark.parametrize("bytes_in", [False, True])
@pytest.mark.parametrize("name", CUTS)
def test_what_a_crop_cuts_off_has_no_part_in_the_contrast(name, bytes_in, impl):
    x = (photos() * 255).to(torch.uint8) if bytes_in else photos(torch.float64)
    jitter = P.ColorJitter(contrast=(0.3, 0.3), clip="none" if not bytes_in else "end")
    cut = P.Pipeline(CUTS[name], impl=impl)(x, key=P.Key(1, 2))
    expected = P.Pipeline([jitter], impl=impl)(cut)
    found = P.Pipeline([*CUTS[name], jitter], impl=impl)(x, key=P.Key(1, 2))
    torch.testing.assert_close(found, expected, rtol=0, atol=1 if bytes_in else 1e-12)


MADE = {
    "crop": [P.RandomResizedCrop((13, 9), antialias=True), P.RandomHorizontalFlip()],
    "enlarging": [P.RandomResizedCrop((31, 26), scale=(0.2, 0.4))],
    "bicubic": [P.Resize((8, 9), interpolation="bicubic")],
    "nearest": [P.Resize((8, 9), interpolation="nearest"), P.RandomHorizontalFlip()],
    "resize, then crop": [P.Resize((10, 12)), P.RandomCrop(7)],
}
JITTER = P.ColorJitter(0.2, (0.3, 0.9), saturation=0.4, hue=0.1)


@pytest.mark.parametrize("antialias", [False, True])
def test_behind_a_resize_the_mean_is_torchvisions(antialias):
    v2, x = torchvision_functional(), photos(torch.float64)
    expected = v2.adjust_contrast(v2.resize(x, [7, 5], antialias=antialias), 0.3)
    found = P.Pipeline([P.Resize((7, 5), antialias=antialias), P.ColorJitter(contrast=(0.3, 0.3), clip="none")])(x, key=P.Key(1, 2))
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-4)  # its luma weights have four digits


@pytest.mark.parametrize("impl", ["cpu", "reference"])
@pytest.mark.parametrize("name", MADE)
def test_behind_crops_and_resizes_the_mean_is_that_of_what_they_make(name, impl):
    twice = [
        P.ColorJitter(contrast=0.5, clip="none"),
        P.RandomHorizontalFlip(),
        P.ColorJitter(0.2, (0.3, 0.9), saturation=0.4, clip="none"),
    ]
    for steps in ([JITTER], [*twice, P.Normalize(0.4, 0.2)]):
        x, key = photos(torch.float64), P.Key(1, 2)
        made = P.Pipeline(MADE[name], impl=impl)(x, key=key)
        wanted = P.Pipeline([*MADE[name], *steps], fuse=False)(x, key=key)
        found = P.Pipeline([*MADE[name], *steps], impl=impl)(x, key=key)
        assert found.shape == made.shape
        torch.testing.assert_close(found, wanted, rtol=0, atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64, torch.uint8])
@pytest.mark.parametrize("name", MADE)
def test_the_bits_are_the_same_however_a_sample_comes(name, dtype):
    x = (torch.rand(5, 3, 240, 190, generator=torch.Generator().manual_seed(2)) * (255 if dtype == torch.uint8 else 1)).to(dtype)
    pipeline, key = (
        P.Pipeline([*MADE[name], JITTER, P.Normalize(0.4, 0.2)], impl="cpu", dtype=torch.float32),
        P.Key(1, 2, torch.arange(5)),
    )
    wanted = pipeline(x, key=key)
    assert torch.equal(pipeline(x.contiguous(memory_format=torch.channels_last), key=key), wanted)
    assert torch.equal(pipeline(list(x), key=key), wanted)
    if dtype != torch.uint8:
        assert torch.equal(pipeline(x.clone().requires_grad_(), key=key), wanted)
    for threads in (1, 2, 4):
        torch.set_num_threads(threads)
        assert torch.equal(pipeline(x, key=key), wanted)
        assert torch.equal(pipeline(x[3:4], key=P.Key(1, 2, torch.tensor([3]))), wanted[3:4])


@pytest.mark.parametrize("channels", [1, 2, 4])
def test_any_number_of_channels_is_settled(channels):
    x, steps = torch.rand(3, channels, 20, 16), [P.Resize((9, 8)), P.RandomContrast((0.3, 0.3))]
    for image in (x, (x * 255).to(torch.uint8)):
        found = P.Pipeline(steps, impl="cpu")(image, key=P.Key(1, 2))
        wanted = P.Pipeline(steps, impl="reference")(image, key=P.Key(1, 2))
        torch.testing.assert_close(found, wanted, rtol=0, atol=1 if image.dtype == torch.uint8 else 1e-6)


@pytest.mark.parametrize("impl", ["cpu", "reference"])
@pytest.mark.parametrize("name", MADE)
def test_gradients_through_the_mean_of_what_is_made(name, impl):
    """Eight weighted sums of all pixels stand for the result: otherwise there is a backward pass for each of thousands."""
    x = photos(torch.float64, 2)[:, :, :4, :4].clone().requires_grad_()
    pipeline = P.Pipeline([*MADE[name][:1], P.ColorJitter(contrast=(0.3, 0.3), clip="none")], impl=impl)
    pixels = pipeline(x, key=P.Key(1, 2)).flatten(2).shape[-1]
    weights = torch.randn(pixels, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    assert torch.autograd.gradcheck(lambda image: pipeline(image, key=P.Key(1, 2)).flatten(2) @ weights, x)


def test_crops_have_their_gradient_through_that_mean():
    """It moves with the crop."""
    found = []
    for impl in ("cpu", "reference"):
        pipeline = P.Pipeline([P.RandomResizedCrop((7, 6), scale=(0.3, 0.6)), P.RandomContrast((0.3, 0.6))], impl=impl)
        x = photos(torch.float64).requires_grad_()
        drawn = pipeline.draw(x, key=P.Key(1, 2)).requires_grad_()
        leaves = [value for step in drawn.params for value in step.values() if value.requires_grad]
        found.append(torch.autograd.grad(pipeline.apply(x, drawn).square().sum(), [x, *leaves]))
    for mine, theirs in zip(*found, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-9, atol=1e-11)
        assert theirs.abs().sum() > 0


@pytest.mark.parametrize("impl", ["cpu", "reference"])
@pytest.mark.parametrize(
    "crop", [[P.Resize((34, 24)), P.RandomCrop(8)], [P.RandomResizedCrop(8, scale=(0.1, 0.1), ratio=(1.0, 1.0))]]
)
def test_pixels_outside_of_a_crop_have_no_gradient(crop, impl):
    x = photos(torch.float64).requires_grad_()
    out = P.Pipeline([*crop, P.ColorJitter(contrast=(0.3, 0.3), hue=0.1)], impl=impl)(x, key=P.Key(1, 2))
    (grad,) = torch.autograd.grad(out.square().sum(), x)
    assert (grad != 0).sum((-2, -1)).max() <= 6 * 6  # the crop is less than 5 pixels wide


def test_a_contrast_before_the_crop_sees_all():
    x, jitter = photos(torch.float64), P.ColorJitter(contrast=(0.3, 0.3), clip="none")
    found = P.Pipeline([jitter, P.RandomCrop(8)])(x, key=P.Key(1, 2))
    cut = P.Pipeline([jitter, P.RandomCrop(8)], fuse=False)(x, key=P.Key(1, 2))
    torch.testing.assert_close(found, cut, rtol=0, atol=1e-12)


def test_two_contrasts_around_a_crop_have_a_mean_each():
    x, jitter = photos(torch.float64), P.ColorJitter(contrast=(0.3, 0.3), clip="none")
    steps = [jitter, P.RandomCrop(8), jitter, P.RandomHorizontalFlip()]
    found = P.Pipeline(steps)(x, key=P.Key(1, 2))
    torch.testing.assert_close(found, P.Pipeline(steps, fuse=False)(x, key=P.Key(1, 2)), rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", MADE)
def test_a_resize_that_waits_for_its_mean_has_all_gradients_of_the_reference(name):
    """At once, several together, and gradients of gradients."""
    x, key, found = photos(torch.float64, 2).requires_grad_(), P.Key(1, 2), []
    for impl in ("cpu", "reference"):
        out = P.Pipeline([*MADE[name], JITTER, P.Normalize(0.4, 0.2)], impl=impl)(x, key=key)
        weights = torch.rand(2, *out.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
        (together,) = torch.autograd.grad(out, x, weights, is_grads_batched=True, retain_graph=True)
        (again,) = torch.autograd.grad(out, x, weights[1], retain_graph=True)
        (first,) = torch.autograd.grad(out, x, weights[0], create_graph=True)
        found.append((*together, again, first, *torch.autograd.grad(first.square().sum(), x)))
    torch.testing.assert_close(*found, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("name", MADE)
def test_its_gradient_has_the_same_bits_however_a_sample_comes(name):
    x, key = torch.rand(5, 3, 240, 190, generator=torch.Generator().manual_seed(2)), P.Key(1, 2, torch.arange(5))
    pipeline = P.Pipeline([*MADE[name], JITTER, P.Normalize(0.4, 0.2)], impl="cpu")
    weights = torch.rand(pipeline(x, key=key).shape, generator=torch.Generator().manual_seed(3))

    def gradient(x, weights, key):
        x = x.detach().requires_grad_()
        return torch.autograd.grad(pipeline(x, key=key), x, weights)[0]

    wanted = gradient(x, weights, key)
    for threads in (1, 2, 4):
        torch.set_num_threads(threads)
        assert torch.equal(gradient(x, weights, key), wanted)
        assert torch.equal(gradient(x[3:4], weights[3:4], P.Key(1, 2, torch.tensor([3]))), wanted[3:4])


def test_one_row_of_colours_does_for_all_samples():
    x, still = photos(torch.float64).requires_grad_(), torch.tensor([[[1.5, 0.0, 0.25], [0.0, 1.5, 0.25]]], dtype=torch.float64)
    window, matrix = torch.tensor([[0.0, 0.0, 11.0, 16.0]], dtype=torch.float64), 0.7 * torch.eye(3, dtype=torch.float64)[None]
    resample = pack(still, size=(11, 8), padding_mode="border", window=window, matrix=matrix, offset=matrix[:, 0])
    slopes = torch.rand(1, resample.params.shape[1], 3, dtype=torch.float64)
    each = Opened(resample._replace(params=resample.params.expand(3, -1).contiguous()), slopes.expand(3, -1, -1).contiguous())
    found = [settled(x, opened, torch.float64) for opened in (Opened(resample, slopes), each)]
    assert torch.equal(*found)
    assert torch.equal(*(torch.autograd.grad(out.square().sum(), x)[0] for out in found))
