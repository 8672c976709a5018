"""DiffAugment and ADA as published: closed forms, gradients of both orders, and the controller."""

import copy
import math

import numpy as np
import pytest
import torch

from pellucid import InvalidArgument, InvalidType, Key, Pipeline
from pellucid.policy import ADA, DiffAugment
from pellucid.policy.adversarial import (
    AdaBands,
    AdaColors,
    AdaCutout,
    AdaGeometry,
    AdaNoise,
    DiffColor,
    DiffCutout,
    DiffTranslation,
    octaves,
    overfitting,
)
from tests.refusals import refused

F64 = torch.float64


def floats(batch=6, size=(12, 10), channels=3):
    return torch.rand(batch, channels, *size, dtype=F64, generator=torch.Generator().manual_seed(0))


def drawn(transform, x, key=None):
    augment = Pipeline([transform])
    out, record = augment(x, key=key or Key(1, 2), return_record=True)
    return out, {name: value[:, None, None, None] if value.dim() == 1 else value for name, value in record.params[0].items()}


def test_diffaugments_colours_are_the_published_ones():
    x = floats()
    out, now = drawn(DiffColor(), x)
    signed = 2.0 * x - 1.0 + 2.0 * now["brightness"]
    mean = signed.mean(1, keepdim=True)
    signed = (signed - mean) * now["saturation"] + mean
    mean = signed.mean((1, 2, 3), keepdim=True)
    signed = (signed - mean) * now["contrast"] + mean
    torch.testing.assert_close(out, (signed + 1.0) / 2.0, rtol=0, atol=1e-12)
    many = Pipeline([DiffColor()]).draw(floats(4000, (1, 1))).params[0]
    for name, low, high in (("brightness", -0.25, 0.25), ("saturation", 0.0, 2.0), ("contrast", 0.5, 1.5)):
        assert low <= many[name].min() < low + 0.01 * (high - low)
        assert high - 0.01 * (high - low) < many[name].max() <= high


def test_diffaugments_shifts_and_squares_are_the_published_ones():
    x = floats(40, (13, 17))
    out, now = drawn(DiffTranslation(), x)
    shifts = torch.stack((now["y"], now["x"]), -1).reshape(-1, 2).to(torch.int64).tolist()
    assert {s for s, _ in shifts} == {-2, -1, 0, 1, 2}  # 13 / 8 and 17 / 8, to the nearest
    padded = np.pad(x.numpy(), ((0, 0), (0, 0), (3, 3), (3, 3)), constant_values=0.5)
    for i, (down, right) in enumerate(shifts):
        assert np.array_equal(out[i].numpy(), padded[i, :, 3 + down : 16 + down, 3 + right : 20 + right])
    out, now = drawn(DiffCutout(), x)
    rows, columns = np.arange(13), np.arange(17)
    for i in range(40):
        top, left = int(now["y"].flatten()[i]) - 3, int(now["x"].flatten()[i]) - 4  # 7 rows and 9 columns
        hole = ((rows >= top) & (rows < top + 7))[:, None] & ((columns >= left) & (columns < left + 9))
        assert np.array_equal(out[i].numpy(), np.where(hole, 0.5, x[i].numpy()))


def test_diffaugment_stands_in_files_and_takes_a_policy(tmp_path):
    augment = Pipeline([DiffAugment()], seed=1)
    augment.save(tmp_path / "policy.toml")
    assert Pipeline.load(tmp_path / "policy.toml").transforms == augment.transforms
    assert [type(one) for one in DiffAugment(["cutout", "color"]).transforms] == [DiffColor, DiffCutout]
    refused(InvalidArgument, "policy", DiffAugment, ["colour"])


def turned(degrees):
    angle = math.radians(degrees)
    return np.array([[math.cos(angle), -math.sin(angle), 0], [math.sin(angle), math.cos(angle), 0], [0, 0, 1]])


def test_adas_geometry_is_the_product_of_its_steps():
    x = floats(8)
    augment = Pipeline([AdaGeometry(0.8, 0.6)])
    record = augment.draw(x, key=Key(3, 4))
    for i in range(8):
        v = {name: float(value[i]) for name, value in record.params[0].items()}
        v = {name: v[f"open_{name.split('_')[0]}"] * value for name, value in v.items() if not name.startswith("open_")}
        total = np.eye(3)
        for step in (
            np.diag([1 - 2 * v["flip"], 1, 1]),
            turned(90 * v["quarter"]),
            np.array([[1, 0, round(v["shift_x"] * 10)], [0, 1, round(v["shift_y"] * 12)], [0, 0, 1.0]]),
            np.diag([math.exp(v["scale"])] * 2 + [1]),
            turned(v["before"]),
            np.diag([math.exp(v["stretch"]), math.exp(-v["stretch"]), 1]),
            turned(v["after"]),
            np.array([[1, 0, v["move_x"] * 10], [0, 1, v["move_y"] * 12], [0, 0, 1.0]]),
        ):
            total = step @ total
        centre = np.array([[1, 0, 4.5], [0, 1, 5.5], [0, 0, 1.0]])
        np.testing.assert_allclose(record.matrix[i].numpy(), centre @ total @ np.linalg.inv(centre), atol=1e-9)


@pytest.mark.parametrize("channels", [1, 3])
def test_adas_colours_are_the_product_of_their_steps(channels):
    x = floats(8, channels=channels)
    out, now = drawn(AdaColors(0.8), x)
    axis = np.full(channels, channels**-0.5)
    across = np.outer(axis, axis)
    for i in range(8):
        v = {name: float(value.flatten()[i]) for name, value in now.items()}
        v = {name: v[f"open_{name}"] * value for name, value in v.items() if not name.startswith("open_")}
        picture = (2.0 * x[i].reshape(channels, -1).numpy() - 1.0 + 2.0 * v["brightness"]) * math.exp(v["contrast"])
        picture = picture - 2.0 * v["luma"] * across @ picture
        if channels == 3:
            angle = math.radians(v["hue"])
            cross = np.cross(np.eye(3), axis)
            hue = math.cos(angle) * np.eye(3) + (1 - math.cos(angle)) * across
            either = [hue + sign * math.sin(angle) * cross for sign in (1, -1)]
            saturation = across + (np.eye(3) - across) * math.exp(v["saturation"])
            candidates = [saturation @ one @ picture for one in either]
        else:
            candidates = [picture]
        found = 2.0 * out[i].reshape(channels, -1).numpy() - 1.0
        assert min(np.abs(found - one).max() for one in candidates) < 1e-9


def test_octaves_add_up_and_lie_where_they_should():
    bands = octaves(torch.zeros((), dtype=F64))
    whole = torch.zeros(bands.shape[1], dtype=F64)
    whole[bands.shape[1] // 2] = 1.0
    torch.testing.assert_close(bands.sum(0), whole, rtol=0, atol=1e-12)
    torch.testing.assert_close(bands, bands.flip(1), rtol=0, atol=1e-12)
    power = torch.fft.rfft(bands, 1024).abs()  # 0 to the highest frequency
    strongest = power.argmax(0)
    for band, place in enumerate((20, 96, 192, 400)):  # in the middle of each, of 512
        assert strongest[place] == band
    assert (power[1:, 0] < 1e-12).all()


def test_bands_keep_the_power_of_what_falls_off_as_pictures_do():
    """The gains, squared and weighed by each band's share of a picture's power, add up to 1."""
    augment = Pipeline([AdaBands(1.0)])
    record = augment.draw(floats(1))
    bands = octaves(torch.zeros((), dtype=F64))
    transform = augment[0]
    like = torch.zeros((), dtype=F64)
    still = {name: torch.zeros_like(value) if name != "gain2" else value + 0.3 for name, value in record.params[0].items()}
    kernel = transform.lower(still, None, like).vertical
    gain = math.exp(float(still["gain2"]))
    norm = math.sqrt((10 + 1 + gain**2 + 1) / 13)
    row = torch.tensor([1.0, 1.0, gain, 1.0], dtype=F64) / norm
    torch.testing.assert_close(kernel[0], row @ bands, rtol=0, atol=1e-12)


def test_nothing_happens_at_zero():
    x = floats()
    torch.testing.assert_close(ADA(p=0.0, seed=0)(x), x, rtol=0, atol=1e-12)


STEPS = [
    AdaGeometry(0.9, 0.7),
    AdaColors(0.9),
    AdaBands(0.9),
    AdaNoise(0.9),
    AdaCutout(0.9),
    DiffColor(),
    DiffTranslation(),
    DiffCutout(),
]


@pytest.mark.parametrize("step", STEPS, ids=lambda step: type(step).__name__)
def test_gradients_of_both_orders(step):
    x = floats(2, (5, 6)).requires_grad_()
    augment = Pipeline([step])
    assert torch.autograd.gradcheck(lambda x: augment(x, key=Key(5, 6)), x, fast_mode=False)
    assert torch.autograd.gradgradcheck(lambda x: augment(x, key=Key(5, 6)).square(), x, fast_mode=True)


def test_the_whole_of_ada_has_second_derivatives():
    x = floats(2, (6, 6)).requires_grad_()
    augment = ADA(p=0.7, seed=0)
    assert torch.autograd.gradgradcheck(lambda x: augment(x, key=Key(5, 6)).square(), x, fast_mode=True)
    critic = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.Tanh(), torch.nn.Flatten(), torch.nn.Linear(64, 1)).to(F64)
    (slope,) = torch.autograd.grad(critic(augment(x)).sum(), x, create_graph=True)
    slope.square().sum().backward()  # R1
    assert all(one.grad is not None and torch.isfinite(one.grad).all() for one in [*critic.parameters()][:-1])


def test_how_often_each_step_happens_follows_p():
    augment, x = ADA(p=0.3, seed=0), torch.zeros(3000, 3, 1, 1)
    for p in (0.3, 0.8):
        with torch.no_grad():
            augment.p.fill_(p)
            augment.p_turn.fill_(1 - math.sqrt(1 - p))
        record = augment.pipeline.draw(x, key=Key(0, 1))
        gates = {
            f"{i}_{name}": value
            for i, v in enumerate(record.params)
            for name, value in v.items()
            if "open" in name or name == "gate"
        }
        assert len(gates) == 8 + 5 + 4 + 1 + 1
        for name, gate in gates.items():
            expected = 1 - math.sqrt(1 - p) if name in ("0_open_before", "0_open_after") else p
            assert abs(float(gate.mean()) - expected) < 0.04, name


def test_changing_p_compiles_nothing_anew():
    augment, graphs = ADA(p=0.0, seed=0), []

    def backend(graph, inputs):
        graphs.append(graph)
        return graph.forward

    compiled = torch.compile(augment, backend=backend, fullgraph=True)
    x = torch.rand(2, 3, 8, 8)
    for p in (0.0, 0.5, 1.0):
        with torch.no_grad():
            augment.p.fill_(p)
        torch.testing.assert_close(compiled(x, key=Key(1, 2)), augment(x, key=Key(1, 2)), rtol=0, atol=1e-5)
    assert len(graphs) == 1


def test_the_controller_follows_the_heuristics():
    augment = ADA(p=0.5, target=0.6, images=1000)
    real = torch.cat((torch.ones(90), -torch.ones(10)))  # r_t = 0.8
    assert float(augment.update(real)) == pytest.approx(0.6)
    assert float(augment.p_turn) == pytest.approx(1 - math.sqrt(0.4))
    assert float(augment.update(torch.cat((torch.ones(70), -torch.ones(30))))) == pytest.approx(0.5)  # 0.4
    assert float(overfitting(torch.tensor([2.0]), validation=torch.tensor([1.0]), generated=torch.tensor([-2.0]))) == 0.25
    for _ in range(9):
        augment.update(-real)
    assert float(augment.p) == 0.0
    again = ADA()
    again.load_state_dict(augment.state_dict())
    assert float(again.p) == 0.0
    twin = copy.deepcopy(augment)
    twin.update(real)
    assert (float(twin.p), float(augment.p)) == (pytest.approx(0.1), 0.0)
    assert float(dict(twin.pipeline.learned.named_parameters())["0_open_flip_p"]) == pytest.approx(0.1)
    refused(InvalidArgument, "both or neither", augment.update, real, validation=real)
    refused(InvalidType, "real", augment.update, torch.zeros(0))
    refused(InvalidArgument, "probability", ADA, p=1.5)
