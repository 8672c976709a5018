"""Every transform of volumes keeps to the interface: rest, files, gradients."""

import pytest
import torch

import pellucid
from pellucid import Pipeline, Record
from pellucid.segments import Warp3Spec
from pellucid.types import ImageSpec
from tests.refusals import refused
from tests.volumes.cases import CASES, everything, voxels

every = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


def test_every_transform_has_a_row():
    assert {type(case.transform) for case in CASES} == set(pellucid.VOLUMES)
    assert not set(pellucid.VOLUMES) & set(pellucid.ALL)


@every
def test_resting_form_changes_nothing(case):
    for dtype in (torch.float32, torch.float64):
        x = voxels(dtype=dtype)
        out = Pipeline([case.identity], targets={"image": "volume"})(x)
        assert torch.equal(out, x) if not case.rounding else (out - x).abs().max() <= case.rounding
    x = (voxels() * 255).to(torch.uint8)
    assert torch.equal(Pipeline([case.identity], targets={"image": "volume"})(x), x)


@every
def test_batches_stay_as_they_are_and_all_of_them_comes_out(case):
    """How results replay, and go in lists and alone, is in ``contract/test_every_way.py``."""
    batch = everything()
    before = {key: value.clone() for key, value in batch.items()}
    out = Pipeline([case.transform], seed=3)(batch)
    assert out.keys() == {*batch, "points3_valid", "cuboids_valid"}
    assert all(torch.equal(batch[key], before[key]) for key in batch)
    assert torch.equal(out["labels"], batch["labels"])


@every
def test_records_and_pipelines_from_files(case, tmp_path):
    augment = Pipeline([case.transform], seed=11)
    augment.save(tmp_path / "augment.toml")
    batch = everything()
    out, record = augment(batch, return_record=True)
    assert torch.equal(Pipeline.load(tmp_path / "augment.toml")(batch)["volume"], out["volume"])
    record.save(tmp_path / "record.pt")
    loaded = Record.load(tmp_path / "record.pt")
    assert loaded.size_in == record.size_in == (6, 8, 7)
    assert torch.equal(augment.apply(batch, loaded)["volume"], out["volume"])
    moves = isinstance(case.transform.segment(ImageSpec.of(2, (6, 8, 7))), Warp3Spec)
    assert ("Warp3" in augment.explain(batch)) == moves


@every
def test_gradients_by_finite_differences(case):
    batch = voxels(2, (4, 5, 4), channels=1, dtype=torch.float64).requires_grad_()
    augment = Pipeline([case.transform], seed=2, targets={"image": "volume"})
    record = augment.draw({"volume": batch})
    for name, value in ({"gate": 0.9} | case.off_kinks).items():
        now = record.params[0].get(name)
        record = record if now is None else record.with_param(0, name, torch.full_like(now, value))
    declared = {"image", *record.params[0]} - {"words"}
    assert declared <= case.transform.gradients.keys()
    names = [name for name in record.params[0] if case.transform.gradients[name] != "none"]
    values = [record.params[0][name].detach().clone().requires_grad_() for name in names]

    def of(volume, *values):
        here = record
        for name, value in zip(names, values, strict=True):
            here = here.with_param(0, name, value)
        return augment.apply(volume, here)

    assert torch.autograd.gradcheck(of, (batch, *values))


@every
def test_a_transform_is_refused_where_it_means_nothing(case):
    refused(pellucid.InvalidArgument, "volumes", Pipeline([case.transform]).plan, ImageSpec(3, 8, 8))


def test_pictures_and_volumes_do_not_mix():
    augment = Pipeline([pellucid.RandomFlip3("x")])
    refused(pellucid.InvalidArgument, "goes with volume", augment, {"volume": voxels(), "mask": torch.zeros(3, 8, 7)})
    with pytest.raises(pellucid.InvalidArgument, match="RandomCrop: expected pictures"):
        Pipeline([pellucid.RandomFlip3("x"), pellucid.RandomCrop(2)])(voxels())
    refused(pellucid.InvalidArgument, r"\(C, D, H, W\)", augment, torch.zeros(4, 4, 4))
    refused(pellucid.InvalidType, r"\.float\(\)", augment, voxels().to(torch.int16))
    refused(pellucid.InvalidArgument, r"a tensor \(3, n, 3\)", augment.draw(voxels()).map_points, torch.zeros(1, 4, 2))


def test_what_has_two_axes_says_so():
    augment = Pipeline([pellucid.RandomAffine3(10)])
    record = augment.draw(voxels())
    for ask in (record.flow, lambda: record.map_to(record), lambda: record.at((4, 4))):
        refused(pellucid.InvalidArgument, "record of pictures", ask)
    refused(pellucid.InvalidArgument, "gradient_scale", augment, voxels(), gradient_scale=1.0)
    refused(pellucid.InvalidArgument, "depth, height and width", augment, {"volume": voxels(), "labelmap": torch.zeros(3, 6, 8, 6)})
    assert "2 x 6 x 8 x 7" in augment.explain(size=(6, 8, 7), channels=2)
    mask = augment.valid_mask(record)
    assert mask.shape == (3, 1, 6, 8, 7)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.uint8])
def test_narrow_dtypes_come_back(dtype):
    x = (voxels() * 255).to(dtype)
    augment = Pipeline([pellucid.RandomAffine3(10), pellucid.RandomElastic3(4)])
    out, record = augment(x, return_record=True)
    assert out.dtype == dtype
    scale = 255.0 if dtype == torch.uint8 else 1.0
    wide = augment.apply(x.float() / scale, record) * scale
    assert (out.float() - wide).abs().max() <= {torch.float16: 0.07, torch.bfloat16: 0.51, torch.uint8: 0.501}[dtype]


def test_a_clip_stays_a_clip():
    clip = torch.rand(2, 5, 3, 6, 6)
    out = Pipeline([pellucid.RandomHorizontalFlip(p=1.0)])(clip)
    assert torch.equal(out, clip.flip(-1))


def test_other_names_for_volumes():
    """A pipeline with a map in space takes pictures for volumes, as other libraries' dicts have them."""
    x, labels = voxels(), everything()["labelmap"]
    augment = Pipeline([pellucid.RandomFlip3("x", p=1.0)], targets={"label": "labelmap"})
    out = augment({"image": x, "label": labels})
    assert torch.equal(out["image"], x.flip(-1))
    assert torch.equal(out["label"], labels.flip(-1))
    arrays = Pipeline([pellucid.RandomFlip3("z", p=1.0)], out="same")(x[0].numpy())
    assert (arrays == x[0].flip(1).numpy()).all()
