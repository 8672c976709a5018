"""The shape checks under which the contract suite runs: a wrong call raises, and only while they are on."""

import torch
from jaxtyping import TypeCheckError

from pellucid.geometry.points import transform_points
from pellucid.segments.specs import WarpSpec
from tests import shape_checks
from tests.refusals import refused


def test_wrong_shapes_numbers_and_fields_are_refused():
    assert transform_points(torch.rand(4, 2), torch.eye(3)).shape == (4, 2)
    refused(TypeCheckError, "dst_from_src", transform_points, torch.rand(4, 2), torch.eye(3)[:2])
    refused(TypeCheckError, "points", transform_points, torch.ones(4, 2, dtype=torch.int64), torch.eye(3))
    refused(TypeCheckError, "resamples", WarpSpec, (3, 4), resamples="no")


def test_they_can_be_switched():
    checking = transform_points.__code__
    for function, own, _ in shape_checks._exchanges():
        assert function.__code__ is not own
        function.__code__ = own
    assert transform_points(torch.ones(4, 2, dtype=torch.int64), torch.eye(3)).shape == (4, 2)
    with shape_checks.shapes_checked():
        assert transform_points.__code__ is checking
    assert transform_points.__code__ is not checking
