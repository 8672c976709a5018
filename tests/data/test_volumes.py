"""NIfTI files, against nibabel, and what is said of files of other kinds."""

import builtins

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import pellucid as P
from pellucid.cli import app
from pellucid.data import read_volume, write_volume
from tests.refusals import refused


def nibabel():
    return pytest.importorskip("nibabel", reason="nibabel is not installed: NIfTI files need pellucid[volumes]")


def saved(path, voxels, affine):
    nibabel().save(nibabel().Nifti1Image(voxels, affine), path)


def test_dicom_is_left_to_others(tmp_path):
    for name in ("series", "slice.dcm"):
        refused(P.InvalidArgument, "dcm2niix, or read it by SimpleITK", read_volume, tmp_path / name)
    refused(P.InvalidArgument, r"\.nii or \.nii\.gz", write_volume, tmp_path / "a.png", torch.zeros(2, 2, 2), torch.eye(4))


def test_the_package_is_named_where_it_is_missing(tmp_path, monkeypatch):
    real = builtins.__import__

    def without(name, *args, **options):
        if name == "nibabel":
            raise ModuleNotFoundError("No module named 'nibabel'", name="nibabel")
        return real(name, *args, **options)

    monkeypatch.setattr(builtins, "__import__", without)
    refused(ModuleNotFoundError, r"pellucid\[volumes\]", read_volume, tmp_path / "scan.nii.gz")


def test_voxels_and_world_are_nibabels(tmp_path):
    affine = np.array([[0.9, 0.1, 0, -4], [0, 1.2, 0, 5], [0.2, 0, 3, 6], [0, 0, 0, 1]])
    voxels = np.arange(4 * 5 * 6, dtype=np.int16).reshape(4, 5, 6)
    saved(tmp_path / "scan.nii.gz", voxels, affine)
    volume, world = read_volume(tmp_path / "scan.nii.gz")
    assert volume.shape == (1, 6, 5, 4)
    assert volume[0, 5, 2, 1] == voxels[1, 2, 5]
    assert np.abs(world.numpy() - affine).max() < 1e-6  # files hold float32
    write_volume(tmp_path / "copy.nii", volume, world)
    again = nibabel().load(tmp_path / "copy.nii")
    assert np.array_equal(again.get_fdata(), voxels)
    assert np.allclose(again.affine, affine, atol=1e-6)
    several = torch.rand(2, 3, 4, 5)
    write_volume(tmp_path / "two.nii.gz", several, world)
    assert torch.equal(read_volume(tmp_path / "two.nii.gz")[0], several)


def test_a_folder_of_pairs(tmp_path):
    for name in ("a", "b"):
        (tmp_path / "in").mkdir(exist_ok=True)
        (tmp_path / "marks").mkdir(exist_ok=True)
        voxels = np.random.default_rng(0).random((8, 7, 6)).astype(np.float32)
        saved(tmp_path / "in" / f"{name}_0000.nii.gz", voxels, np.diag([1.0, 1.0, 2.0, 1.0]))
        saved(tmp_path / "marks" / f"{name}.nii.gz", (voxels > 0.5).astype(np.uint8), np.diag([1.0, 1.0, 2.0, 1.0]))
    P.Pipeline([P.RandomFlip3("x"), P.RandomQuarterTurn3("z", (0, 2))]).save(tmp_path / "augment.toml")
    command = ["augment", str(tmp_path / "in"), str(tmp_path / "out"), "-p", str(tmp_path / "augment.toml"), "-n", "3"]
    command += ["--masks", str(tmp_path / "marks")]
    first = CliRunner().invoke(app, command)
    assert "Wrote 6 of 6 volumes" in first.output, first.output
    for copy in range(3):
        volume, _ = read_volume(tmp_path / "out" / "images" / f"a_0000_{copy}.nii.gz")
        labels, _ = read_volume(tmp_path / "out" / "labels" / f"a_0000_{copy}.nii.gz", labels=True)
        assert torch.equal(labels, (volume[0] > 0.5).int())
    (tmp_path / "out" / "images" / "a_0000_1.nii.gz").unlink()
    assert "Wrote 1 of 6 volumes" in CliRunner().invoke(app, command).output
    (tmp_path / "marks" / "b.nii.gz").unlink()
    (tmp_path / "out" / "labels" / "b_0000_0.nii.gz").unlink()
    assert CliRunner().invoke(app, command).exit_code != 0


def test_a_folder_that_does_not_fit_is_refused_by_file(tmp_path):
    voxels, affine = np.random.default_rng(0).random((6, 7, 8)).astype(np.float32), np.diag([1.0, 1.0, 3.0, 1.0])
    marks = {"smaller": (voxels[1:] > 0.5, affine), "elsewhere": (voxels > 0.5, np.diag([1.0, 1.0, 2.0, 1.0]))}
    P.Pipeline([P.RandomFlip3("x")]).save(tmp_path / "augment.toml")
    for name in (*marks, "unmarked", "broken"):
        for folder in ("in", "marks"):
            (tmp_path / name / folder).mkdir(parents=True)
        saved(tmp_path / name / "in" / "a.nii.gz", voxels, affine)
        if name in marks:
            saved(tmp_path / name / "marks" / "z.nii.gz", marks[name][0].astype(np.uint8), marks[name][1])
            saved(tmp_path / name / "in" / "z.nii.gz", voxels, affine)
            (tmp_path / name / "in" / "a.nii.gz").unlink()
    (tmp_path / "broken" / "in" / "a.nii.gz").write_bytes(b"no scan")
    words = {
        "smaller": "marks/z.nii.gz",
        "elsewhere": "differs by 1",
        "unmarked": "a.nii.gz, the labels of a",
        "broken": "in/a.nii.gz",
    }
    for name, word in words.items():
        there = [str(tmp_path / name / "in"), str(tmp_path / name / "out"), "-p", str(tmp_path / "augment.toml")]
        masks = [] if name == "broken" else ["--masks", str(tmp_path / name / "marks")]
        found = CliRunner().invoke(app, ["augment", *there, *masks])
        assert isinstance(found.exception, (P.InvalidArgument, SystemExit)), name
        assert word in f"{found.exception} {found.output}".replace("\n", ""), name
        assert not (tmp_path / name / "out").exists() or not any((tmp_path / name / "out").rglob("*.nii*")), name


@pytest.mark.parametrize("kind", [np.int16, np.float32])
def test_blocks_write_the_files_of_whole_volumes(tmp_path, kind):
    voxels = (100 * np.random.default_rng(0).random((13, 11, 9))).astype(kind)
    for folder, name, part in (
        ("in", "a_0000", voxels),
        ("in", "b", np.stack((voxels, 2 * voxels), -1)),
        ("marks", "a", voxels > 50),
    ):
        (tmp_path / folder).mkdir(exist_ok=True)
        saved(tmp_path / folder / f"{name}.nii", part.astype(kind if folder == "in" else np.uint8), np.diag([1.0, 1.0, 2.0, 1.0]))
    saved(tmp_path / "marks" / "b.nii", (voxels > 50).astype(np.uint8), np.diag([1.0, 1.0, 2.0, 1.0]))
    P.Pipeline([P.RandomAffine3(20, 0.1), P.RandomElastic3(5, 0.3), P.RandomBrightness((0.8, 1.2), clip="none")]).save(
        tmp_path / "augment.toml"
    )
    for out, more in (("whole", []), ("blocks", ["--block", "5"])):
        command = ["augment", str(tmp_path / "in"), str(tmp_path / out), "-p", str(tmp_path / "augment.toml"), *more]
        found = CliRunner().invoke(app, [*command, "--masks", str(tmp_path / "marks")])
        assert "Wrote 2 of 2 volumes" in found.output, found.output
    for name in ("images/a_0000_0", "images/b_0", "labels/a_0000_0", "labels/b_0"):
        whole, blocks = (nibabel().load(tmp_path / out / f"{name}.nii") for out in ("whole", "blocks"))
        assert whole.shape == blocks.shape
        assert whole.get_data_dtype() == blocks.get_data_dtype()
        assert np.array_equal(whole.get_fdata(), blocks.get_fdata())
        assert np.array_equal(whole.affine, blocks.affine)


def test_the_others_of_a_folder_are_augmented(tmp_path):
    (tmp_path / "in").mkdir()
    for name in ("a", "c", "packed"):
        saved(tmp_path / "in" / f"{name}.nii{'.gz' * (name == 'packed')}", np.ones((5, 6, 7), np.float32), np.eye(4))
    (tmp_path / "in" / "b.nii").write_bytes((tmp_path / "in" / "a.nii").read_bytes()[:500])  # its voxels are missing
    P.Pipeline([P.RandomFlip3("x")]).save(tmp_path / "augment.toml")
    command = ["augment", str(tmp_path / "in"), str(tmp_path / "out"), "-p", str(tmp_path / "augment.toml")]
    found = CliRunner().invoke(app, command)
    assert found.exit_code == 1
    said = found.output.replace("\n", "")
    assert "Wrote 3 of 4 volumes" in said
    assert "1 of 4 could not be augmented" in said
    assert "b.nii: path: expected a NIfTI file" in said
    assert "packed.nii.gz: " in CliRunner().invoke(app, [*command, "--overwrite", "--block", "4"]).output
