"""The law of stages: what is derived from a recorded reference equals torch's own derivatives of that reference.

At random points, where channels are equal or grey, on the ends of what is clipped, and where they are no numbers.
"""

from functools import cache
from itertools import product

import pytest
import torch

from pellucid.kernels.stages.colour import STAGES
from printer.derived import SLOPES, jvp, vjp
from printer.program import Writer, played
from printer.recorded import program_of
from tests.compare import within_budget

LEVELS = (0.0, 0.25, 0.5, 1.0)
STRANGE = (torch.nan, torch.inf, -torch.inf)
# Of each number: the range of random points, and what else it is where channels are equal. Others are in (-1, 1), and 0 there.
NUMBERS = {
    "hue_shift": ((-1.0, 1.0), (0.0, 1 / 6, 0.5)),
    "hue": ((-1.0, 1.0), (0.0, 0.5, 0.0)),
    "saturation": ((-0.5, 0.5), (0.0, 1.0, -0.5)),
    "value": ((-0.5, 0.5), (0.0, 0.5, 0.0)),
    "gate": ((0.0, 1.0), (1.0, 0.0, 0.5)),
    "factor": ((0.0, 2.0), (1.0, 0.0, 2.0)),
    "exponent": ((0.2, 3.0), (1.0, 0.0, 0.5)),
    "gain": ((0.2, 2.0), (1.0, 0.5, 1.0)),
    "amount": ((0.0, 6.0), (0.5, 1.0, 3.0)),
    "reach": ((0.1, 0.5), (0.1, 1.0, 0.5)),
}


@cache
def points(name):
    """(image (n, channels), one row of each number (n, count)) in float64 that float32 holds, too."""
    stage, generator = STAGES[name], torch.Generator().manual_seed(7)

    def rand(*shape):
        return torch.rand(*shape, generator=generator, dtype=torch.float64)

    channels = len(stage.pixels)
    ties = torch.tensor(list(product(LEVELS, repeat=channels)), dtype=torch.float64)
    beside = [ties, ties, ties, 1.5 * rand(150, channels) - 0.25]
    strange = rand(len(STRANGE) * (channels + 1), channels)
    for k, value in enumerate(STRANGE):
        for c in range(channels):
            strange[k * (channels + 1) + c, c] = value
        strange[k * (channels + 1) + channels] = value
    image, rows = torch.cat((*beside, strange)), []
    for number, count in stage.numbers.items():
        (low, high), some = NUMBERS.get(number, ((-1.0, 1.0), (0.0, 0.5, 1.0)))
        exact = torch.tensor(some, dtype=torch.float64).repeat_interleave(len(ties))[:, None].expand(-1, count)
        rows.append(torch.cat((exact, low + (high - low) * rand(len(image) - len(exact), count))))
    return [part.float().double() for part in (image, *rows)]


def flat(inputs):
    return [column for part in inputs for column in part.unbind(1)]


def reference(stage, image, *numbers):
    given = [row if count > 1 else row[:, 0] for row, count in zip(numbers, stage.numbers.values(), strict=True)]
    return stage.reference(image[:, :, None, None], *given).flatten(1)


def truth(stage, inputs, upstream, changes):
    leaves = [part.clone().requires_grad_() for part in inputs]
    out = reference(stage, *leaves)
    slopes = torch.autograd.grad(out, leaves, upstream, materialize_grads=True)
    _, tangent = torch.func.jvp(lambda *parts: reference(stage, *parts), tuple(inputs), tuple(changes))
    return out.detach(), torch.cat(slopes, 1), tangent


def found(name, inputs, upstream, changes, slopes=SLOPES):
    program, given = program_of(name), flat(inputs)
    like = given[0]
    parts = (
        (program, given),
        (vjp(program, slopes=slopes), [*given, *upstream.unbind(1)]),
        (jvp(program, slopes=slopes), [*given, *flat(changes)]),
    )
    return [torch.stack([part.expand_as(like) for part in played(*of)], 1) for of in parts]


def directions(name, dtype=torch.float64):
    """What comes back to each result, and a change of all inputs."""
    generator, (image, *rows) = torch.Generator().manual_seed(8), points(name)
    results = len(program_of(name).results)
    shapes = [(len(image), results), image.shape, *(row.shape for row in rows)]
    upstream, *changes = (torch.randn(shape, generator=generator, dtype=torch.float64).float().to(dtype) for shape in shapes)
    return upstream, changes


@cache
def held_to(name):
    return truth(STAGES[name], points(name), *directions(name))


def law(name, slopes=SLOPES):
    theirs, ours = held_to(name), found(name, points(name), *directions(name), slopes)
    for one, other, tolerance in zip(ours, theirs, (0.0, 1e-12, 1e-12), strict=True):
        torch.testing.assert_close(one, other, rtol=tolerance, atol=tolerance, equal_nan=True)


@pytest.mark.parametrize("name", STAGES)
def test_value_and_derivatives_are_torchs(name):
    law(name)


@pytest.mark.parametrize("name", STAGES)
def test_in_single_precision_the_error_is_the_references(name):
    """Away from jumps, which rounding moves; and where numbers are none."""
    some = torch.isfinite(torch.cat(points(name), 1)).all(1)
    inputs = [part[some] for part in points(name)]
    upstream, changes = (part[some] for part in directions(name)[:1]), [part[some] for part in directions(name)[1]]
    args = (inputs, *upstream, changes)
    exact = truth(STAGES[name], *args)
    single = (tuple(part.float() for part in inputs), args[1].float(), [part.float() for part in changes])
    for fast, slow, best in zip(found(name, *single), truth(STAGES[name], *single), exact, strict=True):
        assert fast.dtype == torch.float32
        assert within_budget(fast, slow, best)


def wrong(what):
    """The table of slopes with one row that doubles what goes through the first value it goes through."""

    def planted(*values):
        right = list(SLOPES[what](*values))
        first = next(k for k, through in enumerate(right) if through is not None)
        through = right[first]
        return [*right[:first], lambda u: through(u) * 2.0, *right[first + 1 :]]

    return {**SLOPES, what: planted}


def ends_outside(x, low, high, _):
    return [lambda u: ((low < x) & (x < high)).where(u, 0.0), None, None]


def first_takes_all(*values):
    *channels, extreme = values
    taken, throughs = channels[0].equals(channels[0].writer.number(torch.nan)), []
    for channel in channels:
        tie = channel.equals(extreme) & ~taken
        taken = taken | channel.equals(extreme)
        throughs.append(lambda u, tie=tie: tie.where(u, 0.0))
    return throughs


def used(name):
    """The rows of the table that a stage's derivative is made of."""
    program = program_of(name)
    right = vjp(program)
    return sorted(
        what for what in {step.what for step in program.steps} & SLOPES.keys() if vjp(program, slopes=wrong(what)) != right
    )


PLANTED = [(name, what) for name in STAGES for what in used(name)]


@pytest.mark.parametrize(("name", "what"), PLANTED)
def test_a_wrong_slope_breaks_the_law(name, what):
    with pytest.raises(AssertionError):
        law(name, wrong(what))


def test_every_stage_has_a_slope_to_plant_a_mistake_in():
    assert {name for name, _ in PLANTED} == set(STAGES)


@pytest.mark.parametrize(
    ("name", "what", "planted"),
    [
        ("clip", "clamp", ends_outside),
        ("hue", "clamp", ends_outside),
        ("saturation", "clamp", ends_outside),
        ("hue", "most", first_takes_all),
        ("hue", "least", first_takes_all),
        ("hsv", "most", first_takes_all),
    ],
)
def test_another_convention_breaks_the_law(name, what, planted):
    with pytest.raises(AssertionError):
        law(name, {**SLOPES, what: planted})


def test_an_operation_without_a_slope_is_named():
    writer = Writer()
    x = writer.given("x")
    with pytest.raises(NotImplementedError, match="cos has no row in the table of slopes"):
        vjp(writer.program([writer.do("cos", x)]))


def test_what_was_written_before_is_found_again():
    writer = Writer()
    x, y = writer.given("x"), writer.given("y")
    assert (x + y).place == (y + x).place
    assert (x - y).place != (y - x).place
    assert writer.do("neg", -x).place == x.place
    assert (x * 1.0).place == x.place
    assert (x + -y).place == (x - y).place
    question = x < y
    assert question.where(question.where(x, 1.0), y).place == question.where(x, y).place
    assert question.where(x, x).place == x.place
    program = writer.program([x * y])
    assert [step.what for step in program.steps] == ["given", "given", "mul"]
