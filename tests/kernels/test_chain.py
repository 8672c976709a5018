"""The table of the colour chain: what is laid out in a row comes back, with and without what a pass has beside its stages."""

import re
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch

from pellucid.kernels import stages as folder
from pellucid.kernels import warp
from pellucid.kernels.stages.chain import GROUND, colors_of, fusable, place
from pellucid.kernels.warp import pack
from pellucid.kernels.warp.cpu import call
from pellucid.kernels.warp.packing import Link, unpack
from pellucid.segments.chain import AffineStage
from tests.kernels.test_stages import ORDERS, numbers, stages

EYE = torch.eye(3, dtype=torch.float64)[None]
FITTING = {"a": 1, "hac": 3, "aca": 3, "acac": 3, "aach": 1, "cc": 1, "ch": 1, "cpca": 4, "hacpca": 6, "pp": 1, "pca": 3, "hh": 1}


@pytest.mark.parametrize(("order", "count"), FITTING.items())
def test_as_many_stages_fit_as_stand_in_the_tables_order(order, count):
    assert fusable(stages(order, numbers())) == count


def packed(order, mixed, canvases):
    """A pass with a first mix or none, and fills of canvases or none."""
    matrix, offset, *_ = numbers()
    link = Link("zeros", EYE, torch.tensor([[0.0, 0.0, 3.0, 4.0]], dtype=torch.float64), fill=offset)
    how = {"matrix": matrix, "offset": offset, "fill": offset} if mixed else {}
    return pack(EYE[:, :2], size=(4, 5), links=[link] * canvases, epilogue=stages(order, numbers()), **how)


def equal(ours, theirs):
    return ours is theirs or all(
        torch.equal(a, b) if isinstance(a, torch.Tensor) else a == b for a, b in zip(ours, theirs, strict=True)
    )


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(("mixed", "canvases"), list(product([False, True], [0, 2])))
def test_a_row_gives_back_what_was_laid_out(order, mixed, canvases):
    made = packed(order, mixed, canvases)
    flags, given = made.recipe.flags, stages(order, numbers())
    found = unpack(made, 3)
    assert made.params.shape[1] == (place(GROUND, flags, 3, 3) + 3 * canvases or 1)
    assert len(found.stages) + len(made.epilogue) == len(given)
    for ours, theirs in zip((*found.stages, *made.epilogue), given, strict=True):
        assert type(ours) is type(theirs)
        assert equal(ours, theirs)
    assert (found.grounds is None) == (canvases == 0)
    before = unpack(made.without_stages(3), 3)
    assert before.stages == ()
    for ours, theirs in zip(
        (before.matrix, before.offset, before.fill, before.grounds),
        (found.matrix, found.offset, found.fill, found.grounds),
        strict=True,
    ):
        assert equal((ours,), (theirs,)) if theirs is not None else ours is None


@pytest.mark.parametrize("order", ORDERS)
def test_what_backward_reads_ends_before_the_last_mixes(order):
    made = packed(order, True, 0)
    colors = colors_of(made.recipe.flags, 3, 3)
    kinds = [isinstance(stage, AffineStage) for stage in unpack(made, 3).stages]
    assert len(colors.steps) - colors.deep == next((k for k, kind in enumerate(reversed(kinds)) if not kind), len(kinds))


def test_flags_are_read_in_the_table_alone():
    table = Path(folder.__file__).parent / "chain.py"
    files = [path for path in table.parents[1].rglob("*.py") if path != table and "triton" not in path.parts]
    assert [path.name for path in files if re.search(r"flags *&|& *flags", path.read_text())] == []


@pytest.mark.parametrize("order", ["hac", "acpa"])
def test_a_strip_stays_in_its_rows(order, monkeypatch):
    made = []

    def guarded(name, size, dtype):
        made.append(np.full(size + 64, 7, dtype))
        return made[-1][:size]

    monkeypatch.setattr(call, "scratch", guarded)
    image, *given = [part.requires_grad_() for part in (torch.rand(3, 3, 7, 9, dtype=torch.float64), *numbers())]
    warp.stages_by("cpu")(image, stages(order, given), torch.float64, False).sum().backward()
    assert len(made) > 5
    assert all((whole[-64:] == 7).all() for whole in made)
