"""What is printed of stages for Triton computes what the reference does, with its error; by the interpreter or on a GPU."""

import pytest
import torch

from pellucid.kernels.stages.colour import STAGES
from printer.blocks import printed
from printer.printing import module_of_blocks, there_and_back
from tests.compare import within_budget
from tests.scripts import loaded

from .interpreted import DEVICE, runs
from .test_stage_laws import directions, held_to, points, truth

__all__ = ["runs"]

KERNEL = """@triton.jit
def run(image, numbers, grad, out, count, N: tl.constexpr, C: tl.constexpr, R: tl.constexpr, BACK: tl.constexpr, P: tl.constexpr):
    at = tl.arange(0, P)
    there = at < count
    pixels, upstream, found = (), (), ()
    for c in tl.static_range(C):
        pixels = pixels + (tl.load(image + c * count + at, mask=there, other=0.0),)
    for c in tl.static_range(R):
        upstream = upstream + (tl.load(grad + c * count + at, mask=there, other=0.0),)
    {numbers}
    if BACK:
        along, into = {name}_backward({given}pixels, upstream)
        found = into + along
    else:
        found = {name}({given}pixels)
    for k in tl.static_range(C + N if BACK else R):
        tl.store(out + k * count + at, found[k] + tl.zeros((P,), pixels[0].dtype), mask=there)
"""


@pytest.fixture(scope="module")
def kernels(tmp_path_factory):
    """By stage: a kernel around its printed text."""
    folder, made = tmp_path_factory.mktemp("blocks"), {}
    for name, stage in STAGES.items():
        count = sum(stage.numbers.values())
        loads = [f"n{k} = tl.load(numbers + {k} * count + at, mask=there, other=0.0)" for k in range(count)]
        text = KERNEL.replace("{numbers}", "\n    ".join(loads)).replace("{name}", name)
        text = text.replace("{given}", "".join(f"n{k}, " for k in range(count)))
        if not count:
            text = text.replace("along, into =", "along, into = (),")
        file = folder / f"{name}.py"
        file.write_text(module_of_blocks([*map(printed, there_and_back(name)), text], []))
        made[name] = loaded(file)
    return made


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", STAGES)
def test_printed_blocks_err_as_the_reference_does(kernels, name, dtype):
    upstream, changes = directions(name)
    inputs = [part.to(dtype) for part in points(name)]
    usual = truth(STAGES[name], inputs, upstream.to(dtype), [part.to(dtype) for part in changes])
    image, *rows = inputs
    numbers = torch.cat(rows, 1) if rows else image[:, :0]
    planes = [part.T.contiguous().to(DEVICE) for part in (image, numbers, upstream.to(dtype))]
    sizes = {"N": numbers.shape[1], "C": image.shape[1], "R": upstream.shape[1], "P": 1 << (len(image) - 1).bit_length()}
    for way in range(2):
        out = torch.full((usual[way].shape[1], len(image)), 7.0, dtype=dtype, device=DEVICE)
        kernels[name].run[(1,)](*planes, out, len(image), BACK=bool(way), **sizes)
        ours, exact = out.T.cpu(), held_to(name)[way]
        assert torch.equal(ours.isnan(), usual[way].isnan())
        if dtype == torch.float32:
            assert within_budget(ours, usual[way], exact)
        else:
            torch.testing.assert_close(ours, exact, rtol=1e-11, atol=1e-11, equal_nan=True)
