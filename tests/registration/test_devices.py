"""What registration computes with lies where its pictures lie, whatever torch's default device is."""

import pytest
import torch

from pellucid.functional import gaussian_blur
from pellucid.registration import align, align_volumes, fit_camera, refine_matches
from pellucid.registration.bending import _stiff
from pellucid.registration.camera import _taps
from pellucid.registration.maps import (
    MODELS,
    basis,
    changed,
    corner_distance,
    corners,
    frame,
    grid,
    lens_field,
    level_from_full,
    spline_field,
)
from pellucid.registration.voxels import inside, moved_by, places, volume_moves


def picture(*shape):
    return gaussian_blur(torch.rand(shape, generator=torch.Generator().manual_seed(0)), 9, 2.0)


FIXED = picture(1, 1, 40, 40)
VOLUME = torch.rand(1, 8, 8, 8, generator=torch.Generator().manual_seed(0))
FRAMES = torch.tensor([[[12.0, 0.0, 20.0], [0.0, 12.0, 20.0]]])
CALLS = {
    "translation": lambda: align(FIXED.roll(1, -1), FIXED, model="translation", steps=2).matrix,
    "other sizes": lambda: align(FIXED[..., :32], FIXED, model="similarity", loss="ncc", steps=1).matrix,
    "mutual information": lambda: (
        align(FIXED.roll(1, -1), FIXED, model="translation", loss="mutual_information", levels=1, steps=1).matrix
    ),
    "composition": lambda: align(FIXED.roll(1, -1), FIXED, model="affine+bspline", steps=1).field,
    "lens": lambda: align(FIXED.roll(1, -1), FIXED, model="affine+lens", steps=1).matrix,
    "volumes": lambda: align_volumes(VOLUME.roll(1, -1), VOLUME, model="rigid", steps=1).matrix,
    "bent volumes": lambda: align_volumes(VOLUME.roll(1, -1), VOLUME, model="affine+bspline", steps=1).field,
    "camera": lambda: torch.tensor(list(fit_camera(FIXED, FIXED, steps=1).parameters.values()), device="cpu"),
    "points": lambda: refine_matches(FIXED[0], FIXED[0].roll(1, -1), FRAMES, FRAMES)[0],
}


LONG = ("mutual information", "composition", "lens", "bent volumes", "camera")


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.slow] * (name in LONG)) for name in CALLS])
def test_the_default_device_decides_nothing(name):
    wanted = CALLS[name]()
    with torch.device("meta"):
        found = CALLS[name]()
    assert torch.equal(found, wanted)


def test_parts_stay_on_the_device_of_their_numbers():
    matrix, change, lens = torch.eye(3)[None], torch.zeros(1, 8), torch.zeros(1, 2)
    matrix, change, lens, block, six = (part.to("meta") for part in (matrix, change, lens, torch.eye(4)[None], torch.zeros(1, 6)))
    control, variance, size = torch.zeros(1, 2, 6, 6, device="meta"), torch.ones((), device="meta"), (9, 9)
    where = places(block, (4, 5, 6), None)
    spans = {model: basis(model, matrix) for model in MODELS if "+" not in model}
    for part in (
        frame(size, matrix),
        level_from_full(size, (5, 5), matrix),
        corners(size, matrix),
        corner_distance(matrix, matrix, size),
        changed(matrix, change[:, : len(spans["affine"])], spans["affine"], frame(size, matrix)),
        lens_field(lens, matrix, size),
        spline_field(control, size, 4.0),
        _stiff(control, 2, 1e-6),
        _taps(variance),
        *grid(size, variance),
        where,
        inside(where, torch.zeros(1, 1, 4, 5, 6, device="meta")),
        moved_by(six, (4, 5, 6)),
        volume_moves("rigid", (4, 5, 6)).distance(block, block),
    ):
        assert part.is_meta
