"""Files that version 0.1.0 wrote are read, and mean what they meant: files of a minor version are read by the next two."""

import pytest
import torch

from pellucid import Key, Pipeline, Record

PIPELINE = """\
pellucid = 1
seed = 3
same_on_batch = false
fuse = true
canvas = "each"
impl = "auto"
box_format = "xyxy"
min_area = 0.0
min_visibility = 0.0
mask_fill = 0.0
return_valid = false
pad_targets = true
drop_invalid = false

[interpolation]
mask = "nearest"
heatmap = "bilinear"
depth = "bilinear"
flow = "bilinear"
normals = "bilinear"

[[transforms]]
name = "RandomAffine"
scale = [0.8, 1.2]

[transforms.degrees]
distribution = "Uniform"

[transforms.degrees.low]
learnable = -10.0

[transforms.degrees.high]
learnable = 10.0

[transforms.p]
learnable = 0.5

[[transforms]]
name = "OneOf"
transforms = [{ name = "RandomInvert", p = 1.0 }, { name = "RandomRotation", degrees = 4 }]
weights = [{ learnable = 1.0 }, { learnable = 2.0 }]

[[transforms]]
name = "ColorJitter"

[transforms.brightness]
learnable = 0.2
"""

LEARNED = {
    "0_gate_p": 0.0,
    "0_degrees_center": 0.0,
    "0_degrees_width": 20.0,
    "1_choice_weight_0": 0.5413248538970947,
    "1_choice_weight_1": 1.8545866012573242,
    "4_brightness_half_width": -1.3862943649291992,
}
MEANING = [
    *[(0.0, 3089864852.0, number) for number in (0.5, 0.7310585786300049)],
    *[
        (0.0, 3474087044.0, number)
        for number in (-0.34657359027997264, 0.34657359027997264, 0.3433691562408886, 1.6566308437591113)
    ],
    *[(1.0, 3249232530.0, 0.5)] * 4,
    *[(4.0, 3648444131.0, number) for number in (1.0, 0.5, 1.0, 0.7310585786300049)],
]
"""What the learned numbers are where their parameters are 0, and 1."""

DRAWN = [
    {
        "gate": [1.0, 0.0],
        "degrees": [9.42237837104374, 3.434197146333771],
        "scale": [1.1042826653923838, 1.145281484676525],
    },
    {"choice": [[0.0, 1.0], [0.0, 1.0]]},
    {},
    {"degrees": [3.6825840855017304, -3.0280648367479444]},
    {"brightness": [1.024241248584053, 0.8931748151774986]},
]
"""Of two pictures of 8 x 8 under ``Key(1, 1)``."""


@pytest.fixture
def pipeline(tmp_path):
    (tmp_path / "pipeline.toml").write_text(PIPELINE)
    return Pipeline.load(tmp_path / "pipeline.toml")


def test_a_pipeline_draws_as_it_did(pipeline):
    record = pipeline.draw(torch.zeros(2, 3, 8, 8), key=Key(1, 1))
    assert [values.keys() for values in record.params] == [values.keys() for values in DRAWN]
    for here, then in zip(record.params, DRAWN, strict=True):
        for name, value in here.items():
            assert torch.allclose(value.double(), torch.tensor(then[name], dtype=torch.float64), rtol=1e-6), name


def test_learned_numbers_are_those_saved(pipeline):
    state = {f"learned.{name}": torch.tensor(value) for name, value in LEARNED.items()}
    state |= {
        "_seed": torch.tensor(3),
        "_step": torch.tensor(7),
        "learned._extra_state": torch.tensor(MEANING, dtype=torch.float64),
    }
    state["learned.0_degrees_center"] = torch.tensor(1.5)
    pipeline.load_state_dict(state)
    assert pipeline.step == 7
    assert pipeline.learned.get_parameter("0_degrees_center") == 1.5


def test_a_record_replays(pipeline, tmp_path):
    transforms = [
        {
            "name": "RandomAffine",
            "degrees": {"distribution": "Uniform", "low": {"learnable": -10.0}, "high": {"learnable": 10.0}},
            "scale": [0.8, 1.2],
            "p": {"learnable": 0.5},
        },
        {
            "name": "OneOf",
            "transforms": [{"name": "RandomInvert", "p": 1.0}, {"name": "RandomRotation", "degrees": 4}],
            "weights": [{"learnable": 1.0}, {"learnable": 2.0}],
        },
        {"name": "ColorJitter", "brightness": {"learnable": 0.2}},
    ]
    params = [{name: torch.tensor(value, dtype=torch.float64) for name, value in values.items()} for values in DRAWN]
    state = {"pellucid_record": 1, "transforms": transforms, "image": [3, 8, 8], "fuse": True, "canvas": "each"}
    torch.save({**state, "samples": 2, "lead": 1, "params": params}, tmp_path / "record.pt")
    images = torch.rand(2, 3, 8, 8)
    again = Record.load(tmp_path / "record.pt")
    assert torch.allclose(pipeline.apply(images, again), pipeline(images, key=Key(1, 1)), atol=1e-6)
