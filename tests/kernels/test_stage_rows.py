"""What is printed of stages: the text in the repository, and what it computes once compiled."""

import numpy as np
import pytest
import torch

from pellucid.kernels.jit import entry
from pellucid.kernels.stages.colour import STAGES
from pellucid.kernels.stages.printed import hsv, hue
from printer import printing
from printer.derived import vjp
from printer.program import Writer, played
from printer.recorded import program_of
from printer.rows import Rows, lowered, printed
from tests.compare import within_budget

from .test_stage_laws import directions, flat, held_to, points, truth


def test_the_text_in_the_repository_is_what_is_printed():
    """After a change of a reference: ``python -m printer.printing``."""
    modules = printing.modules()
    assert {path.stem for path in printing.FOLDER.glob("*.py")} == {"__init__", *modules}
    for name, text in modules.items():
        assert (printing.FOLDER / f"{name}.py").read_text() == text, name


@pytest.mark.parametrize("name", STAGES)
def test_what_a_vector_does_is_what_the_stage_means(name):
    """But for a rounding of divisions: NaN and infinities included, forward and backward."""
    program, given, upstream = program_of(name), flat(points(name)), directions(name)[0].unbind(1)
    for theirs, one, inputs in zip(held_to(name), (program, vjp(program)), (given, [*given, *upstream]), strict=False):
        ours = torch.stack([part.expand_as(given[0]) for part in played(lowered(one), inputs)], 1)
        torch.testing.assert_close(ours, theirs, rtol=1e-11, atol=1e-11, equal_nan=True)


@entry
def turned_back(shift, source, grad, out):
    out[:3] = grad
    for u in range(source.shape[1]):
        hue.hue_backward(shift[u], source[:, u : u + 1], out[:3, u : u + 1], out[3:, u : u + 1])


@entry
def shifted(h, s, v, source, out):
    for u in range(source.shape[1]):
        hsv.hsv(h[u], s[u], v[u], source[:, u : u + 1], out[:, u : u + 1])


@entry
def shifted_back(h, s, v, gate, source, grad, out):
    for u in range(source.shape[1]):
        here, there = out[3:, u : u + 1], out[:3, u : u + 1]
        hsv.gated_hsv_backward(h[u], s[u], v[u], gate[u], source[:, u : u + 1], grad[:, u : u + 1], here, there)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    ("name", "run", "way"),
    [("hue", turned_back, 1), ("hsv", shifted, 0), ("gated_hsv", shifted_back, 1)],
    ids=["hue_backward", "hsv", "gated_hsv_backward"],
)
def test_compiled_rows_err_as_the_reference_does(name, run, way, dtype):
    """On rows of one pixel, each with numbers of its own."""
    upstream, changes = directions(name)
    inputs = [part.to(dtype) for part in points(name)]
    usual, exact = truth(STAGES[name], inputs, upstream.to(dtype), [part.to(dtype) for part in changes])[way], held_to(name)[way]
    rows = [part.to(dtype).T.contiguous().numpy() for part in ([inputs[0], upstream] if way else [inputs[0]])]
    out = np.full((exact.shape[1], len(exact)), 7.0, rows[0].dtype)
    run(*(number[:, 0].numpy() for number in inputs[1:]), *rows, out)
    ours = torch.from_numpy(out).T
    assert torch.equal(ours.isnan(), usual.isnan())
    if dtype == torch.float32:
        assert within_budget(ours, usual, exact)
    else:
        torch.testing.assert_close(ours, exact, rtol=1e-12, atol=1e-12, equal_nan=True)


def test_numbers_alone_are_computed_before_the_loop_and_rows_may_be_written_over():
    writer = Writer()
    x, factor = writer.given("x"), writer.given("factor")
    program = writer.program([x * (factor + 1.0), x])
    text = printed(Rows("grown", program, {"rows": ("x",)}, {"rows": (0,), "copy": (1,)}, "Grown.", "exact"))
    before, loop = text.split("    for u in range(len(rows_0)):\n")
    assert text.startswith("@exact.noinline.wide\ndef grown(factor, rows, copy):")
    assert "k0 = factor + c1" in before
    assert [line.strip() for line in loop.splitlines()] == ["x = rows_0[u]", "rows_0[u] = x * k0", "copy_0[u] = x"]
