"""How axes are read: channels before rows and columns, and a word where they look otherwise."""

import numpy as np
import pytest
import torch

from pellucid import InvalidArgument, InvalidType, Pipeline, RandomAffine, RandomHorizontalFlip, Resize
from pellucid import functional as PF
from tests.functional.test_errors import ON_IMAGES, _call
from tests.refusals import refused

FLIP = RandomHorizontalFlip(p=1.0)
LAST = {"image": (22, 24, 3), "batch": (5, 22, 24, 3), "grey": (22, 24, 1), "rgba": (5, 22, 24, 4), "video": (2, 6, 22, 24, 3)}


@pytest.mark.parametrize("shape", LAST.values(), ids=LAST)
@pytest.mark.parametrize("run", [FLIP, Pipeline([FLIP])], ids=["alone", "pipeline"])
def test_channels_that_stand_last_are_refused(run, shape):
    channels_last = torch.rand(shape)
    permute = {3: "(2, 0, 1)", 4: "(0, 3, 1, 2)", 5: "(0, 1, 4, 2, 3)"}[len(shape)]
    for batch in (channels_last, {"image": channels_last}):
        with pytest.raises(InvalidArgument) as caught:
            run(batch)
        for part in (f".permute{permute}", "channels_last=True", str(shape), f"{shape[-3]} channels"):
            assert part in str(caught.value)
    # The advice works.
    assert run(channels_last.permute(*eval(permute))).shape[-3] == shape[-1]


@pytest.mark.parametrize("name", ON_IMAGES)
@pytest.mark.parametrize("shape", [(9, 10, 3), (2, 9, 10, 3)])
def test_channels_that_stand_last_are_refused_by_every_function(name, shape):
    refused(InvalidArgument, r"image: expected .*\.permute\(", _call, name, torch.rand(shape))


@pytest.mark.parametrize("name", ["warp_affine", "warp_perspective", "remap"])
def test_functions_with_the_option_name_it(name):
    image = torch.rand(9, 10, 3)
    arguments = {"remap": (torch.zeros(4, 5), torch.zeros(4, 5))}.get(name, (torch.eye(3), (5, 4)))
    refused(InvalidArgument, "channels_last=True", getattr(PF, name), image, *arguments)
    last = getattr(PF, name)(image, *arguments, channels_last=True)
    assert torch.equal(last, getattr(PF, name)(image.permute(2, 0, 1), *arguments).permute(1, 2, 0))
    assert getattr(PF, name)(image, *arguments, channels_last=False).shape == (9, 4, 5)


@pytest.mark.parametrize("shape", [(3, 22, 24), (5, 3, 22, 3), (64, 4, 4), (2, 6, 3, 22, 24), (2, 7, 9), (1, 1, 1, 3), (12, 5, 5)])
def test_pictures_and_feature_maps_pass(shape):
    assert torch.equal(FLIP(torch.ones(shape)), torch.ones(shape))


@pytest.mark.parametrize("shape", LAST.values(), ids=LAST)
@pytest.mark.parametrize("dtype", [torch.float32, torch.uint8])
def test_a_pipeline_takes_channels_last(shape, dtype):
    image = (torch.rand(shape) * 255).to(dtype)
    transforms = [RandomAffine(20, translate=(0.1, 0.1)), FLIP, Resize((11, 9))]
    first, last = Pipeline(transforms, seed=3), Pipeline(transforms, seed=3, channels_last=True)
    out, record = last(image, return_record=True)
    assert torch.equal(out, first(image.movedim(-1, -3)).movedim(-3, -1))
    assert out.shape == (*shape[:-3], 11, 9, shape[-1])
    assert out.dtype == dtype
    assert torch.equal(last.apply(image, record), out)
    assert last.inverse(out, record).shape == shape
    boxes = torch.tensor([1.0, 2.0, 6.0, 8.0]).expand(*shape[:-3], 1, 4)
    mask = torch.randint(0, 5, shape[:-1])
    together = last.apply({"image": image, "boxes": boxes, "mask": mask}, record)
    assert torch.equal(together["image"], out)
    assert together["mask"].shape == (*shape[:-3], 11, 9)
    assert "channels_last" in last.to_dict()
    assert torch.equal(Pipeline.from_dict(last.to_dict()).apply(image, record), out)


def test_channels_last_as_it_stands_and_nonsense():
    odd = torch.rand(2, 7, 5, 3)
    assert torch.equal(Pipeline([FLIP], channels_last=False)(odd), odd.flip(-1))
    refused(InvalidType, "channels_last: expected", Pipeline, [FLIP], channels_last="yes")


def test_torchvisions_pictures_have_their_channels_first():
    from tests.peers import torchvision_functional

    torchvision_functional()
    from torchvision import tv_tensors

    image = tv_tensors.Image(torch.rand(3, 7, 6))
    assert torch.equal(Pipeline([FLIP], channels_last=True)(image), image.flip(-1))


@pytest.mark.parametrize("shape", [(2, 1, 16, 22, 24), (2, 3, 16, 22, 24)])
def test_volumes_and_videos_in_another_order_are_refused(shape):
    with pytest.raises(InvalidArgument) as caught:
        FLIP(torch.rand(shape))
    for part in ("(B, T, C, H, W)", f"{shape[1]} frame", "16 channels", ".transpose(1, 2)", "volume"):
        assert part in str(caught.value)
    slices = torch.rand(shape).transpose(1, 2)
    assert torch.equal(FLIP(slices), slices.flip(-1))


def test_pipelines_take_arrays_and_functions_say_how_they_become_tensors():
    array = np.random.default_rng(0).random((22, 24, 3), dtype=np.float32)
    flipped = FLIP(torch.from_numpy(array).permute(2, 0, 1))
    assert torch.equal(FLIP(array), flipped)
    assert torch.equal(FLIP({"image": array})["image"], flipped)
    refused(InvalidType, r"permute\(2, 0, 1\)", PF.horizontal_flip, array)
