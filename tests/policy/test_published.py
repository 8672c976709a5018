"""Published policies are torchvision's: the same operations, magnitudes and tables, and the same pictures for the same choice."""

import math

import pytest
import torch

import pellucid as P
from pellucid import Pipeline
from pellucid.policy import AutoAugment, RandAugment, TrivialAugmentWide
from pellucid.policy.operations import ORDER, magnitudes, operation
from pellucid.policy.published import _TABLES
from tests.peers import torchvision_functional

WIDE = {"shear": 0.99, "translate": 32.0, "rotate": 135.0, "factor": 0.99, "posterize": 6.0}
LEVELS = {"Brightness": 1, "Color": 2, "Contrast": 2, "Sharpness": 1, "AutoContrast": 1}
"""Of grey: torchvision cuts off where we round, and its luma too. All others are equal bit for bit."""
EDGES = ("ShearX", "ShearY", "Rotate")


def peer():
    torchvision_functional()
    import torchvision.transforms.v2 as transforms

    return transforms


def pictures():
    generator = torch.Generator().manual_seed(5)
    coarse = torch.rand(2, 3, 10, 11, generator=generator)
    smooth = torch.nn.functional.interpolate(coarse, size=(76, 90), mode="bicubic").clamp(0, 1)
    return (40 + 170 * smooth).to(torch.uint8)


def space(name):
    return getattr(peer(), name)._AUGMENTATION_SPACE


@pytest.mark.parametrize("name", ORDER)
def test_the_wide_space_has_torchvisions_operations_and_magnitudes(name):
    of, signed = space("TrivialAugmentWide")[name]
    theirs = of(31, 77, 90)
    ours = magnitudes(name, WIDE, 31, signed=False)
    if theirs is not None:
        torch.testing.assert_close(torch.tensor(ours), theirs.float(), rtol=0, atol=1e-5)
        assert len(magnitudes(name, WIDE, 31)) == 31 * (1 + signed)
    assert set(space("TrivialAugmentWide")) == {"Identity", *ORDER}


@pytest.mark.parametrize("name", [*ORDER, "Invert"])
def test_each_operation_makes_torchvisions_picture(name):
    x, policy = pictures(), peer().TrivialAugmentWide()
    values = magnitudes(name, WIDE, 7) if name not in ("AutoContrast", "Equalize", "Invert") else [0.0]
    for value in values:
        theirs = policy._apply_image_or_video_transform(x, name, value, interpolation=peer().InterpolationMode.NEAREST, fill={})
        ours = Pipeline([operation(name, (value,), 1.0, pixels=True)])(x)
        check_operation(ours, theirs, name, value)


def check_operation(ours, theirs, name, value):
    off = (ours.int() - theirs.int()).abs()
    if name in EDGES:  # float32 coordinates on a pixel's edge fall either way
        edges = 2e-2 if name == "Rotate" and value % 45 == 0 else 2e-3  # of 45 degrees, whole diagonals lie there
        assert (off > 0).any(1).float().mean() < edges, value
    else:
        assert off.max() <= LEVELS.get(name, 0), (value, off.max())


NAMES = {
    P.RandomRotation: "Rotate",
    P.RandomBrightness: "Brightness",
    P.RandomSaturation: "Color",
    P.RandomContrast: "Contrast",
    P.RandomSharpness: "Sharpness",
    P.RandomPosterize: "Posterize",
    P.RandomSolarize: "Solarize",
    P.RandomAutoContrast: "AutoContrast",
    P.RandomEqualize: "Equalize",
    P.RandomInvert: "Invert",
}


def applied(record, i):
    """What happens to a sample, by torchvision's names and with its magnitudes, shifts as whole pixels."""
    steps, found = record.plan.steps, []
    for step, drawn in zip(steps, record.params, strict=True):
        kind = type(step.transform)
        names = [f"choice_{gate.turn}" if steps[gate.choice].transform.turns > 1 else "choice" for gate in step.gates]
        chosen = [record.params[gate.choice][name][i, gate.branch] for name, gate in zip(names, step.gates, strict=True)]
        if not chosen or not all(chosen) or ("gate" in drawn and not drawn["gate"][i]):
            continue
        values = {name: float(value[i]) for name, value in drawn.items() if name != "gate"}
        name, value = max(values.items(), key=lambda one: abs(one[1]), default=("", 0.0))
        if kind is P.RandomTranslate:
            found.append((f"Translate{name[-1].upper()}", float(round(value * record.plan.specs[0].size[name[-1] == "x"]))))
        elif kind is P.RandomShear:
            found.append((f"Shear{name[-1].upper()}", math.tan(math.radians(value))))
        else:
            found.append((NAMES[kind], value - (NAMES[kind] in ("Brightness", "Color", "Contrast", "Sharpness"))))
    return found


@pytest.mark.parametrize("policy", [RandAugment(n=3), *map(AutoAugment, _TABLES)], ids=["rand", *_TABLES])
def test_whole_policies_make_torchvisions_pictures(policy):
    x, peers = pictures().repeat(24, 1, 1, 1), peer().TrivialAugmentWide()

    def theirs(image, name, value):
        return peers._apply_image_or_video_transform(image, name, value, interpolation=peer().InterpolationMode.NEAREST, fill={})

    out, record = Pipeline([policy], seed=1)(x, return_record=True)
    lengths = []
    for i in range(len(x)):
        operations, mine, whole = applied(record, i), x[i : i + 1], x[i : i + 1]
        for name, value in operations:
            made, whole = theirs(mine, name, value), theirs(whole, name, value)
            mine = Pipeline([operation(name, (value,), 1.0, pixels=True)])(mine)
            if name not in EDGES:  # under a slope of 0.2 whole columns lie on pixels' edges; the test above has others
                check_operation(mine, made, name, value)
        assert torch.equal(out[i : i + 1], mine)
        if not any(name in LEVELS or name in EDGES for name, _ in operations):
            assert torch.equal(out[i : i + 1], whole)
            lengths.append(len(operations))
    assert max(lengths) > 1


def test_rand_augment_has_torchvisions_magnitudes():
    theirs = {name: of(31, 331, 331) for name, (of, _) in space("RandAugment").items()}
    assert set(theirs) == {"Identity", *ORDER}
    policy = RandAugment(n=3, magnitude=9)
    assert (policy.n, policy.replace) == (3, True)
    names = dict(zip(ORDER, policy.transforms[1:], strict=True))
    assert names["Rotate"].degrees.values == pytest.approx((float(theirs["Rotate"][9]), -float(theirs["Rotate"][9])))
    assert names["TranslateY"].translate[1].values[0] * 331 == pytest.approx(float(theirs["TranslateY"][9]), rel=1e-6)
    assert names["Color"].saturation.values[0] == pytest.approx(1 + float(theirs["Color"][9]))
    assert names["Posterize"].bits.values == (float(theirs["Posterize"][9]),)
    assert names["Solarize"].threshold.values[0] == pytest.approx(float(theirs["Solarize"][9]))


@pytest.mark.parametrize("policy", _TABLES)
def test_the_tables_are_torchvisions(policy):
    transforms = peer()
    theirs = transforms.AutoAugment(getattr(transforms.AutoAugmentPolicy, policy.upper()))._policies
    ours = [[word.split() for word in pair.split("+")] for pair in _TABLES[policy].split(";")]
    assert [[(w[0], float(w[1]), int(w[2]) if len(w) > 2 else None) for w in pair] for pair in ours] == [list(p) for p in theirs]
    assert len(AutoAugment(policy).transforms) == 25


@pytest.mark.parametrize("make", [TrivialAugmentWide, RandAugment, AutoAugment, lambda: AutoAugment("svhn")])
def test_policies_stand_in_pipelines_and_files(make, tmp_path):
    augment = Pipeline([P.RandomHorizontalFlip(), make()], seed=1)
    out, record = augment(pictures(), return_record=True)
    assert out.dtype == torch.uint8
    assert torch.equal(augment.apply(pictures(), record), out)
    augment.save(tmp_path / "policy.toml")
    assert Pipeline.load(tmp_path / "policy.toml").transforms == augment.transforms
