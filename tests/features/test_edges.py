"""What features may not hide: widths that round, weights and responses that are not finite, pictures in another unit."""

import json
import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from PIL import Image
from safetensors.torch import load_file, save_file
from typer.testing import CliRunner

from pellucid.cli import app
from pellucid.errors import InvalidArgument, InvalidType
from pellucid.features import (
    HardNet,
    KeypointNet,
    consistency_loss,
    describe_sift,
    detect_sift,
    imitation_loss,
    load_descriptor,
    load_detector,
    save_descriptor,
    save_detector,
    share_view,
)
from pellucid.features.data.photographs import ImageFolder
from pellucid.features.data.sequences import find_sequences, read_sequence
from pellucid.features.evaluation.metrics import mutual_nearest
from pellucid.features.hardnet import width_of
from pellucid.features.train.run import picture_notes, train
from pellucid.features.train.settings import DetectorSettings
from tests.refusals import refused


def test_a_width_told_from_the_weights_has_the_same_layers():
    for k in range(16, 1100):
        channels = [round(c * k / 500) for c in (32, 32, 64, 64, 128, 128)]
        weights = {f"features.{3 * i}.weight": torch.empty(c, 1, 3, 3, device="meta") for i, c in enumerate(channels)}
        assert [round(c * width_of(weights)) for c in (32, 32, 64, 64, 128, 128)] == channels, k / 500


@pytest.mark.parametrize("width", [0.05, 0.1, 0.15, 0.37, 0.5])
def test_a_descriptor_of_any_width_is_read_back(tmp_path, width):
    network = HardNet(width=width, dimensions=24, seed=3).eval()
    again = load_descriptor(save_descriptor(network, tmp_path / "w.safetensors"))
    patches = torch.rand(3, 1, 32, 32)
    assert torch.equal(again(patches), network(patches))


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_weights_that_are_not_finite_are_named(tmp_path, bad):
    for network, save, load, name in (
        (HardNet(width=0.1), save_descriptor, load_descriptor, "features.3.weight"),
        (KeypointNet(), save_detector, load_detector, None),
    ):
        weights = network.state_dict()
        name = name or next(key for key, value in weights.items() if value.is_floating_point())
        weights[name].view(-1)[7] = bad
        path = save(network, tmp_path / "w.safetensors")
        refused(InvalidArgument, rf"finite weights.*{name}", load, path)


def test_a_detector_file_with_other_weights_is_named(tmp_path):
    from safetensors import safe_open

    path = save_detector(KeypointNet(), tmp_path / "d.safetensors")
    with safe_open(path, framework="pt") as opened:
        notes = opened.metadata()
    weights = load_file(path)
    weights.pop(next(iter(weights)))
    save_file(weights, path, metadata=notes)
    refused(InvalidArgument, "the weights of a KeypointNet", load_detector, path)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("width", v) for v in (math.nan, math.inf, -1.0, 0.0, 0.01, "1")),
        *(("dimensions", v) for v in (0, 1.5, math.nan)),
        *(("dropout", v) for v in (-0.1, 1.0, 2.0, math.nan)),
    ],
)
def test_a_network_that_cannot_be_is_named(name, value):
    refused(InvalidArgument, name, HardNet, **{name: value})


def test_descriptors_that_are_not_finite_match_nothing():
    a = F.normalize(torch.randn(6, 4), dim=1)
    assert mutual_nearest(a, a).pairs.tolist() == [[i, i] for i in range(6)]
    spoilt = a.clone()
    spoilt[0], spoilt[3, 1] = math.nan, math.inf
    assert mutual_nearest(spoilt, a).pairs[:, 0].tolist() == [1, 2, 4, 5]
    assert mutual_nearest(a, spoilt).pairs[:, 0].tolist() == [1, 2, 4, 5]
    assert len(mutual_nearest(torch.full((6, 4), math.nan), a).pairs) == 0


def test_a_nan_response_shows_where_both_views_see_it_and_only_there():
    first, second = torch.rand(1, 1, 24, 24), torch.rand(1, 1, 24, 24)
    straight = torch.eye(3)[None]
    plain = consistency_loss(share_view(first, second, straight))
    spoilt = first.clone()
    spoilt[..., 0, 0] = math.nan  # on the border, which takes no part
    assert torch.equal(consistency_loss(share_view(spoilt, second, straight)), plain)
    spoilt[..., 12, 12] = math.nan
    assert consistency_loss(share_view(spoilt, second, straight)).isnan()
    assert consistency_loss(share_view(second, spoilt, straight)).isnan()
    assert imitation_loss(spoilt, second).isnan()
    assert imitation_loss(second, spoilt).isnan()


def picture():
    x = F.avg_pool2d(torch.rand(1, 64, 64), 5, 1, 2)[0]
    return (x - x.min()) / (x.max() - x.min())


def test_sift_clips_what_a_filter_left_outside():
    assert len(detect_sift(picture() * 1.2 - 0.1, 50).points) > 20


@pytest.mark.parametrize("factor", [255.0, 65535.0, -255.0, math.nan])
def test_sift_refuses_floats_in_another_unit(factor):
    row = torch.zeros(1), torch.zeros(1)
    for call in (lambda x: detect_sift(x, 50), lambda x: describe_sift(x, torch.zeros(1, 2), *row)):
        refused(InvalidArgument, r"image: expected floating point in \[0, 1\].*65535", call, picture() * factor)


@pytest.mark.parametrize("dtype", [torch.int16, torch.uint16, torch.int64, torch.bool])
def test_sift_refuses_other_integers(dtype):
    refused(InvalidType, "image: expected uint8", detect_sift, (picture() * 255).to(dtype), 50)


@pytest.mark.parametrize("count", [-1, 2.5, "3"])
def test_sift_counts_are_whole(count):
    refused(InvalidArgument, "count", detect_sift, picture(), count)


# Folders


def write(path, value, side=64):
    path.parent.mkdir(parents=True, exist_ok=True)
    noise = np.random.default_rng(value).integers(0, 256, (side // 4, side // 4), dtype=np.uint8)
    Image.fromarray(noise).resize((side, side)).save(path)


def test_hidden_files_are_no_pictures(tmp_path):
    write(tmp_path / "a.png", 1)
    (tmp_path / "._a.png").write_bytes(b"\0\5\x16\7")
    write(tmp_path / ".thumbnails" / "b.png", 2)
    assert ImageFolder(tmp_path).names == ("a.png",)


def test_a_replaced_or_renamed_picture_is_another_folder(tmp_path):
    write(tmp_path / "a.png", 1)
    write(tmp_path / "b.png", 2)
    first = picture_notes(ImageFolder(tmp_path))
    assert picture_notes(ImageFolder(tmp_path)) == first
    write(tmp_path / "b.png", 3)
    second = picture_notes(ImageFolder(tmp_path))
    (tmp_path / "b.png").rename(tmp_path / "c.png")
    assert len({str(notes) for notes in (first, second, picture_notes(ImageFolder(tmp_path)))}) == 3
    assert picture_notes([torch.zeros(1, 4, 4)]) == {}


@pytest.mark.slow
def test_a_run_does_not_resume_on_a_replaced_picture(tmp_path):
    write(tmp_path / "pictures" / "a.png", 1, side=160)
    settings = DetectorSettings(photographs=str(tmp_path / "pictures"), steps=1, batch=1, size=48)
    train(settings, tmp_path / "run", quiet=True)
    train(settings, tmp_path / "run", quiet=True)
    write(tmp_path / "pictures" / "a.png", 2, side=160)
    refused(InvalidArgument, r"settings\.pictures: expected", train, settings, tmp_path / "run", quiet=True)


def sequence(home, views=4, leave_out=()):
    for number in range(1, views + 1):
        if f"{number}.png" not in leave_out:
            write(home / f"{number}.png", 7, side=96)
        if number > 1 and f"H_1_{number}" not in leave_out:
            (home / f"H_1_{number}").write_text("1 0 0 0 1 0 0 0 1")


@pytest.mark.parametrize(
    ("leave_out", "words"),
    [
        (["H_1_3"], "expected a homography H_1_3, got none, but 3.png, 4.png, H_1_4"),
        (["H_1_4"], "expected a homography H_1_4, got none, but 4.png"),
        (["H_1_2"], "expected a homography H_1_2, got none, but 2.png"),
        (["3.png"], "expected a picture 3.ppm"),
        (["H_1_3", "3.png"], "expected a homography H_1_3, got none, but 4.png, H_1_4"),
    ],
)
def test_a_gap_in_a_sequence_is_named(tmp_path, leave_out, words):
    sequence(tmp_path / "v_gap", leave_out=leave_out)
    (folder,) = find_sequences(tmp_path)
    refused(InvalidArgument, f"v_gap: {words}", read_sequence, folder)


def test_a_broken_sequence_and_equal_folder_names_leave_a_whole_table(tmp_path):
    sequence(tmp_path / "data" / "v_good", views=2)
    sequence(tmp_path / "data" / "v_broken", leave_out=["H_1_3"])
    runs = [tmp_path / parent / "run" for parent in ("one", "two")]
    for seed, run in enumerate((*runs, tmp_path / "raw")):
        save_descriptor(HardNet(width=0.1, dimensions=16, seed=seed), run / "descriptor.safetensors")
    arguments = ["eval-descriptor", tmp_path / "data", "--baselines", "raw", "--keypoints", 20, "--json", tmp_path / "table.json"]
    for run in (*runs, tmp_path / "raw"):
        arguments += ["-w", run]
    result = CliRunner().invoke(app, [str(word) for word in arguments])
    assert result.exit_code == 2
    assert "H_1_3" in result.output
    table = json.loads((tmp_path / "table.json").read_text())
    assert table["sequences"] == ["v_good"]
    assert [row["method"] for row in table["rows"]] == ["one/run", "two/run", f"{tmp_path.name}/raw", "raw"]
    again = CliRunner().invoke(app, [str(word) for word in [*arguments, "-w", runs[0]]])
    assert again.exit_code == 2
    assert "--weights: expected each run or file once" in again.output
