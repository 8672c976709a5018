"""``pellucid preview`` takes pictures as they come."""

import json

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from pellucid import ColorJitter, Normalize, Pipeline, RandomAffine, RandomHorizontalFlip, RandomRotation90, Resize
from pellucid.cli import app
from pellucid.cli.files import read_image


def pixels(height, width, channels=3, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (height, width, channels), dtype=np.uint8).squeeze()


@pytest.fixture
def pipeline(tmp_path):
    file = tmp_path / "pipeline.toml"
    stack = [RandomAffine(degrees=15), ColorJitter(0.2, 0.2, saturation=0.2, hue=0.05), Normalize((0.5, 0.5, 0.5), (0.2, 0.2, 0.2))]
    Pipeline(stack).save(file)
    return file


def invoke(*arguments):
    return CliRunner().invoke(app, ["preview", *map(str, arguments)])


def test_every_kind_of_picture(tmp_path, pipeline):
    Image.fromarray(pixels(40, 60, 1)).save(tmp_path / "gray.png")
    Image.fromarray(pixels(50, 30, 4)).save(tmp_path / "rgba.png")
    Image.fromarray(pixels(1, 1)).save(tmp_path / "tiny.png")
    Image.fromarray(pixels(300, 20)).convert("CMYK").save(tmp_path / "long.jpg")
    Image.fromarray(pixels(20, 20)).convert("P").save(tmp_path / "palette.gif")
    names = ("gray.png", "rgba.png", "tiny.png", "long.jpg", "palette.gif")
    target = tmp_path / "made" / "sheet.png"
    result = invoke(*(tmp_path / name for name in names), "--pipeline", pipeline, "-o", target, "--variants", 2)
    assert result.exit_code == 0, result.output
    with Image.open(target) as sheet:
        assert sheet.format == "PNG"
        assert sheet.width > 3 * 100
    first = target.read_bytes()
    assert invoke(*(tmp_path / name for name in names), "-p", pipeline, "-o", target, "--variants", 2).exit_code == 0
    assert target.read_bytes() == first
    invoke(*(tmp_path / name for name in names), "-p", pipeline, "-o", target, "--variants", 2, "--seed", 1)
    assert target.read_bytes() != first


def test_reading(tmp_path):
    upright = pixels(4, 6)
    rgba = np.dstack([upright, np.zeros((4, 6), np.uint8)])
    Image.fromarray(rgba).save(tmp_path / "clear.png")
    assert np.array_equal(read_image(tmp_path / "clear.png").permute(1, 2, 0).numpy(), upright.astype(np.float32) / 255)

    turned = Image.fromarray(np.rot90(upright).copy())
    exif = turned.getexif()
    exif[0x0112] = 6  # turn a quarter clockwise to see it upright
    turned.save(tmp_path / "turned.png", exif=exif)
    assert read_image(tmp_path / "turned.png").shape == (3, 4, 6)
    assert np.array_equal(read_image(tmp_path / "turned.png").permute(1, 2, 0).numpy(), upright.astype(np.float32) / 255)

    deep = (np.arange(24, dtype=np.uint16) * 2000).reshape(4, 6)
    Image.fromarray(deep).save(tmp_path / "deep.png")
    assert np.array_equal(read_image(tmp_path / "deep.png", gray=True)[0].numpy(), deep.astype(np.float32) / 65535)


def test_gray_pictures_through_a_one_channel_pipeline(tmp_path):
    Pipeline([RandomHorizontalFlip(p=1.0), Resize((8, 8)), Normalize((0.5,), (0.5,))]).save(tmp_path / "one.toml")
    Image.fromarray(pixels(16, 16, 1)).save(tmp_path / "gray.png")
    assert invoke(tmp_path / "gray.png", "-p", tmp_path / "one.toml", "-o", tmp_path / "s.png", "--gray").exit_code == 0


def test_the_users_mistakes(tmp_path, pipeline):
    picture = tmp_path / "picture.png"
    Image.fromarray(pixels(64, 64)).save(picture)
    (tmp_path / "text.png").write_text("not a picture")
    (tmp_path / "cut.png").write_bytes(picture.read_bytes()[:3000])
    (tmp_path / "empty").mkdir()
    sheet = tmp_path / "sheet.png"
    for arguments, words in (
        ((tmp_path / "none.png", "-p", pipeline), "none.png"),
        ((tmp_path / "text.png", "-p", pipeline), "text.png"),
        ((tmp_path / "cut.png", "-p", pipeline), "cut.png"),
        ((tmp_path / "empty", "-p", pipeline), "folder"),
        ((picture, "-p", pipeline, "--coco", tmp_path / "coco.json"), "--coco"),
        ((tmp_path, "-p", pipeline, "--annotations", "labelme"), "--annotations"),
        ((tmp_path, "-p", pipeline, "--annotations", "coco"), "--coco"),
        ((picture, "-p", tmp_path / "none.toml"), "none.toml"),
        ((picture, "-p", pipeline, "--variants", 0), "--variants"),
        ((picture, "-p", pipeline, "--seed", -1), "seed"),
        ((picture, "-p", pipeline, "-o", tmp_path / "sheet.jpg"), ".png"),
        ((picture, "-p", pipeline, "--gray"), "channels"),
        ((picture,), "--pipeline"),
        ((), "IMAGE"),
    ):
        result = invoke(*arguments, *(() if "-o" in arguments else ("-o", sheet)))
        assert result.exit_code == 2, (arguments, result.output)
        assert words in result.output, (arguments, result.output)
        assert "Traceback" not in result.output
        assert not sheet.exists()


BOX = (8, 4, 24, 16)
"""Left, top, right, bottom of what is annotated on each picture of 32 x 40, in edges."""


def write_yolo(root):
    (root / "labels").mkdir()
    for name in ("a", "b", "c"):
        (root / "labels" / f"{name}.txt").write_text(f"3 {16 / 40} {10 / 32} {16 / 40} {12 / 32}\n")
    return ()


def write_coco(root):
    numbers = dict(enumerate(("a", "b", "c")))
    images = [{"id": i, "file_name": f"images/{name}.png"} for i, name in numbers.items()]
    items = [{"id": i, "image_id": i, "bbox": [8, 4, 16, 12], "category_id": 1} for i in numbers]
    (root / "coco.json").write_text(json.dumps({"images": images, "annotations": items}))
    return "--coco", root / "coco.json"


def write_voc(root):
    for name in ("a", "b", "c"):
        box = "".join(f"<{k}>{v}</{k}>" for k, v in zip(("xmin", "ymin", "xmax", "ymax"), (9, 5, 24, 16), strict=True))
        (root / "images" / f"{name}.xml").write_text(f"<annotation><object><bndbox>{box}</bndbox></object></annotation>")
    return ()


def write_masks(root):
    values = np.zeros((32, 40), np.uint8)
    values[BOX[1] : BOX[3], BOX[0] : BOX[2]] = 1
    (root / "masks" / "images").mkdir(parents=True)
    for name in ("a", "b", "c"):
        Image.fromarray(values).save(root / "masks" / "images" / f"{name}.png")
    return "--masks", root / "masks"


@pytest.fixture
def rows(monkeypatch):
    """What the sheet is laid out of."""
    seen = []

    def keep(rows, **words):
        seen.append((rows, words))
        return Image.new("RGB", (1, 1))

    monkeypatch.setattr("pellucid.cli.sheet.contact_sheet", keep)
    return seen


@pytest.mark.parametrize("write", [write_yolo, write_coco, write_voc, write_masks])
def test_a_folder_with_what_is_annotated(write, tmp_path, rows):
    (tmp_path / "images").mkdir()
    for name in ("a", "b", "c"):
        Image.fromarray(np.full((32, 40, 3), 90, np.uint8)).save(tmp_path / "images" / f"{name}.png")
    Pipeline([RandomHorizontalFlip(p=1.0)], box_format="xywh").save(tmp_path / "flip.toml")
    arguments = write(tmp_path)
    done = invoke(tmp_path, "-p", tmp_path / "flip.toml", "-o", tmp_path / "s.png", "--variants", 1, "--most", 2, *arguments)
    assert done.exit_code == 0, done.output
    ((shown, words),) = rows
    assert words["labels"] == ["images/a.png", "images/b.png"]
    for before, after in shown:
        k = before.width // 40
        drawn = np.abs(np.asarray(before).astype(int) - 90).max(-1) > 60
        ys, xs = np.nonzero(drawn)
        edges = np.array([xs.min(), ys.min(), xs.max() + 1, ys.max() + 1]) / k
        assert np.abs(edges - BOX).max() < 1.0, edges
        assert np.abs(np.asarray(before)[:, ::-1].astype(int) - np.asarray(after)).mean() < 1.0


def test_folders_show_the_draws_that_augment_writes(tmp_path, rows):
    source = tmp_path / "in"
    source.mkdir()
    for number, name in enumerate("abc"):
        Image.fromarray(pixels(230, 230, seed=number)).save(source / f"{name}.png")
    Pipeline([RandomHorizontalFlip(), RandomRotation90()]).save(tmp_path / "turn.toml")
    out = tmp_path / "out"
    made = CliRunner().invoke(app, ["augment", str(source), str(out), "-p", str(tmp_path / "turn.toml"), "-n", "3", "--seed", "2"])
    assert made.exit_code == 0, made.output
    invoke(source, "-p", tmp_path / "turn.toml", "-o", tmp_path / "s.png", "--variants", 3, "--seed", 2)
    ((shown, _),) = rows
    for name, row in zip("abc", shown, strict=True):
        for copy, tile in enumerate(row[1:]):
            with Image.open(out / f"{name}_{copy}.png") as written:
                small = written.convert("RGB").resize(tile.size, Image.Resampling.LANCZOS)
            assert np.array_equal(np.asarray(small), np.asarray(tile)), (name, copy)


def test_names_with_brackets_are_names(tmp_path, pipeline):
    Image.fromarray(pixels(8, 8)).save(tmp_path / "a.png")
    (tmp_path / "[").mkdir()
    result = invoke(tmp_path / "a.png", "--pipeline", pipeline, "-o", tmp_path / "[" / "x].png", "--variants", 1)
    assert result.exit_code == 0, result.exception
    assert "[/x].png" in result.output.replace("\n", "")
