"""Cells that are stretched, against numpy.interp, there and back."""

import numpy as np
import torch

from pellucid import GridDistortion, InvalidArgument, Pipeline, RandomHorizontalFlip
from tests.refusals import refused


def test_the_map_is_the_piecewise_linear_one_of_numpy():
    x = torch.rand(3, 1, 40, 61, dtype=torch.float64)
    out, record = Pipeline([GridDistortion((4, 7), magnitude=1 / 3)], seed=3)(x, return_record=True)
    flow = record.flow()
    transform = record.plan.transforms[0]
    values = {name: value.double() if value.is_floating_point() else value for name, value in record.params[0].items()}
    control = transform.bend(values, record.plan.specs[0], x).control
    for sample in range(3):
        # The knots alone are taken from the library; what lies between them is numpy's.
        down = np.interp(np.arange(40), np.linspace(0, 39, 5), np.linspace(0, 39, 5) + control[sample, 1, 1:-1, 1].numpy())
        across = np.interp(np.arange(61), np.linspace(0, 60, 8), np.linspace(0, 60, 8) + control[sample, 0, 1, 1:-1].numpy())
        np.testing.assert_allclose(flow[sample, 0].numpy() + np.arange(61), np.tile(across, (40, 1)), atol=1e-12)
        np.testing.assert_allclose(flow[sample, 1].numpy() + np.arange(40)[:, None], np.tile(down[:, None], (1, 61)), atol=1e-12)
        lengths = np.diff(across[[0, -1]])
        np.testing.assert_allclose(lengths, 60.0, atol=1e-12)  # the border stays
        rows, columns = np.clip(np.floor(down), 0, 38).astype(int), np.clip(np.floor(across), 0, 59).astype(int)
        v, u, image = (down - rows)[:, None], across - columns, x[sample, 0].numpy()
        cut = [image[rows + i][:, columns + j] for i in (0, 1) for j in (0, 1)]
        wanted = (1 - v) * ((1 - u) * cut[0] + u * cut[1]) + v * ((1 - u) * cut[2] + u * cut[3])
        np.testing.assert_allclose(out[sample, 0].numpy(), wanted, atol=1e-12)


def test_points_come_back_however_unequal_the_cells():
    x = torch.zeros(64, 1, 50, 50)
    augment = Pipeline([RandomHorizontalFlip(0.5), GridDistortion((9, 9), magnitude=1 / 3)], seed=5)
    record = augment.draw(x)
    points = torch.rand(64, 500, 2, dtype=torch.float64) * 49
    there = record.map_points(points)
    assert there.isfinite().all()
    out = augment.inverse({"image": x, "keypoints": there}, record)["keypoints"]
    assert (out - points).abs().max() < 1e-6


def test_lengths_are_uniform_about_the_mean():
    record = Pipeline([GridDistortion((2, 2), magnitude=(0.3, 0.3))], seed=1).draw(torch.zeros(4000, 1, 11, 11))
    middle = record.flow()[:, 0, 0, 5] / 10 + 0.5  # (1 + .3 u) / (2 + .3 (u + v))
    generator = np.random.default_rng(0)
    u, v = generator.uniform(-0.3, 0.3, (2, 100_000))
    wanted = (1 + u) / (2 + u + v)
    assert abs(float(middle.mean()) - wanted.mean()) < 0.005
    assert abs(float(middle.std()) - wanted.std()) < 0.003


def test_one_cell_is_refused():
    refused(InvalidArgument, "2 to 64", GridDistortion, (1, 4))
