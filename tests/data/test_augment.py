"""``pellucid augment``: pictures and what is annotated on them land together, once, whatever runs beside or stops in between."""

import json
import shutil
from pathlib import Path
from xml.etree import ElementTree as ET

import numpy as np
import pytest
import torch
from PIL import Image
from typer.testing import CliRunner

import pellucid
from pellucid import Key, Pipeline
from pellucid.cli import app
from pellucid.data import decode, index_of
from pellucid.data.coco import rle_of, unpacked_rle
from pellucid.data.manifest import Manifest
from tests.data.conftest import FLIP, SIZES, call, contents, picture, saved

TURN = [pellucid.RandomAffine(20, translate=(0.1, 0.1)), pellucid.ColorJitter(0.3, 0.3)]


def test_every_copy_is_the_draw_of_its_name(folder, tmp_path):
    file, out = saved(tmp_path, TURN), tmp_path / "out"
    text = call(folder, out, "-p", file, "-n", 2, "--seed", 5)
    assert "Wrote 16 pictures" in text
    assert {path.suffix for path in out.rglob("*.*g")} == {".jpg", ".png"}
    augment = Pipeline(TURN)
    for copy in range(2):
        wanted = augment(decode(folder / "dog" / "03.png"), key=Key(5, copy, torch.tensor([index_of("dog/03.png")])))
        assert torch.equal(decode(out / "dog" / f"03_{copy}.png"), wanted)


def test_workers_and_shards_write_the_same_bytes(folder, tmp_path, monkeypatch):
    file = saved(tmp_path, TURN)
    call(folder, tmp_path / "one", "-p", file)
    call(folder, tmp_path / "two", "-p", file, "--workers", 2)
    for shard in ("2/3", "1/3", "3/3"):
        call(folder, tmp_path / "three", "-p", file, "--shard", shard)
    monkeypatch.setenv("WORLD_SIZE", "2")
    for rank in "01":
        monkeypatch.setenv("RANK", rank)
        call(folder, tmp_path / "four", "-p", file)
    wanted = contents(tmp_path / "one")
    assert len(wanted) == 2 * len(SIZES) + 1  # pictures, notes on them, settings
    assert all(contents(tmp_path / name) == wanted for name in ("two", "three", "four"))


def test_it_goes_on_and_overwrites_nothing(folder, tmp_path):
    file, out = saved(tmp_path, TURN), tmp_path / "out"
    call(folder, out, "-p", file)
    wanted = contents(out)
    for path in list(out.rglob("*.jpg"))[:3]:
        path.unlink()
    times = {path: path.stat().st_mtime_ns for path in out.rglob("*.*g")}
    assert "Wrote 3 pictures" in call(folder, out, "-p", file)
    assert contents(out) == wanted
    assert all(path.stat().st_mtime_ns == time for path, time in times.items())
    assert "other settings" in call(folder, out, "-p", file, "--seed", 1, code=2)
    other = tmp_path / "other"
    other.mkdir()
    (other / "letter.txt").write_text("dear")
    assert "a folder with files in it" in call(folder, other, "-p", file, code=2)
    assert "neither is nor contains IN" in call(folder, folder, "-p", file, code=2)
    assert (other / "letter.txt").read_text() == "dear"
    assert "Wrote 8 pictures" in call(folder, other, "-p", file, "--overwrite")
    assert not (other / "letter.txt").exists()


def test_bad_files_are_named_skipped_and_counted(folder, tmp_path):
    source = tmp_path / "in"
    shutil.copytree(folder, source)
    whole = (source / "cat" / "00.jpg").read_bytes()
    (source / "cat" / "cut.jpg").write_bytes(whole[: len(whole) // 2])
    (source / "dog" / "text.png").write_text("no picture")
    text = call(source, tmp_path / "out", "-p", saved(tmp_path, TURN), code=1)
    assert "Wrote 8 pictures" in text
    assert "2 of 10 could not be augmented" in text
    assert "cat/cut.jpg: " in text
    assert "dog/text.png: " in text


def test_mistakes_in_the_call(folder, tmp_path):
    file = saved(tmp_path, TURN)
    for words, expected in (
        ((tmp_path / "gone", tmp_path / "o", "-p", file), "a folder of pictures"),
        ((folder, tmp_path / "o", "-p", file, "--shard", "4/3"), "I from 1 to N"),
        ((folder, tmp_path / "o", "-p", file, "--annotations", "csv"), "--annotations: expected one of"),
        ((folder, tmp_path / "o", "-p", file, "--annotations", "coco"), "--coco: expected the COCO file"),
    ):
        assert expected in call(*words, code=2).replace("\n", " ")
        assert not (tmp_path / "o").exists()


# Annotations: under a flip every number has a mirrored one that can be said by hand.


@pytest.fixture
def one(tmp_path):
    source = tmp_path / "in"
    (source / "images").mkdir(parents=True)
    picture(40, 60, 1).save(source / "images" / "a.png")
    return source


def test_yolo(one, tmp_path):
    (one / "labels").mkdir()
    (one / "labels" / "a.txt").write_text("2 0.25 0.5 0.1 0.2\n7 0.1 0.1 0.3 0.1 0.3 0.4\n")
    (one / "classes.txt").write_text("cat\n")
    call(one, tmp_path / "out", "-p", saved(tmp_path, FLIP))
    box, outline = (line.split() for line in (tmp_path / "out" / "labels" / "a_0.txt").read_text().splitlines())
    assert (box[0], outline[0]) == ("2", "7")
    np.testing.assert_allclose([*map(float, box[1:])], (0.75, 0.5, 0.1, 0.2), atol=1e-6)
    np.testing.assert_allclose([*map(float, outline[1:])], (0.9, 0.1, 0.7, 0.1, 0.7, 0.4), atol=1e-6)
    assert (tmp_path / "out" / "classes.txt").read_text() == "cat\n"
    (one / "labels" / "a.txt").write_text("2 0.25 0.5\n")
    assert "a.txt:1: expected class cx cy w h" in call(one, tmp_path / "bad", "-p", saved(tmp_path, FLIP), code=1)


def test_voc(one, tmp_path):
    objects = "".join(
        f"<object><name>{n}</name><bndbox><xmin>{x}</xmin><ymin>5</ymin><xmax>{x + 9}</xmax><ymax>20</ymax></bndbox></object>"
        for n, x in (("cat", 11), ("dog", 31))
    )
    text = f"<annotation><filename>a.png</filename><size><width>60</width><height>40</height></size>{objects}</annotation>"
    (one / "images" / "a.xml").write_text(text)
    call(one, tmp_path / "out", "-p", saved(tmp_path, [*FLIP, pellucid.CenterCrop((40, 30))]))
    tree = ET.parse(tmp_path / "out" / "images" / "a_0.xml").getroot()
    assert [tree.findtext(name) for name in ("filename", "size/width", "size/height")] == ["a_0.png", "30", "40"]
    # Pixels 11..20 of 60 are 41..50 mirrored, and 26..35 of the middle 30, of which 26..30 are left; 31..40 are 21..30, then 6..15.
    assert [item.findtext("bndbox/xmin") for item in tree.iter("object")] == ["26", "6"]
    assert [item.findtext("bndbox/xmax") for item in tree.iter("object")] == ["30", "15"]
    (one / "images" / "a.xml").write_text("<annotation>")
    assert "a Pascal VOC annotation" in call(one, tmp_path / "bad", "-p", saved(tmp_path, FLIP), code=1)


def coco(one, extra=()):
    crowd = np.zeros((40, 60), np.uint8)
    crowd[5:9, 50:60] = 1
    annotations = [
        {
            "id": 5,
            "image_id": 9,
            "category_id": 3,
            "bbox": [10, 5, 20, 10],
            "area": 150.0,
            "segmentation": [[10, 5, 30, 5, 30, 15]],
            "keypoints": [12, 7, 2, 0, 0, 0],
            "num_keypoints": 1,
        },
        {"id": 6, "image_id": 9, "category_id": 4, "bbox": [50, 5, 10, 4], "iscrowd": 1, "segmentation": rle_of(crowd), "area": 40},
        *extra,
    ]
    images = [{"id": 9, "file_name": "images/a.png", "height": 40, "width": 60}]
    file = one / "instances.json"
    file.write_text(json.dumps({"images": images, "annotations": annotations, "categories": [{"id": 3}, {"id": 4}]}))
    return file


def test_coco(one, tmp_path):
    call(one, tmp_path / "out", "-p", saved(tmp_path, FLIP), "--coco", coco(one), "-n", 2)
    found = json.loads((tmp_path / "out" / "instances.json").read_text())
    assert [image["file_name"] for image in found["images"]] == ["images/a_0.png", "images/a_1.png"]
    assert [(item["id"], item["image_id"]) for item in found["annotations"]] == [(1, 1), (2, 1), (3, 2), (4, 2)]
    first, crowd = found["annotations"][:2]
    assert first["bbox"] == [30, 5, 20, 10]
    assert first["segmentation"] == [[50, 5, 30, 5, 30, 15]]
    assert first["area"] == 100
    assert first["keypoints"] == [47, 7, 2, 0, 0, 0]
    assert crowd["bbox"] == [0, 5, 10, 4]
    mask = unpacked_rle(crowd["segmentation"], (40, 60), "")
    assert mask[5:9, :10].all()
    assert mask.sum() == 40
    assert found["categories"] == [{"id": 3}, {"id": 4}]


def test_coco_of_shards_and_after_a_stop(folder, tmp_path):
    names = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.*g"))
    images = [{"id": i, "file_name": name} for i, name in enumerate(names)]
    boxes = [{"id": i, "image_id": i, "category_id": 1, "bbox": [5, 5, 20, 20]} for i in range(len(names))]
    file = tmp_path / "all.json"
    file.write_text(json.dumps({"images": images, "annotations": boxes, "categories": []}))
    pipeline = saved(tmp_path, TURN)
    call(folder, tmp_path / "one", "-p", pipeline, "--coco", file)
    for shard in ("2/2", "1/2"):
        call(folder, tmp_path / "two", "-p", pipeline, "--coco", file, "--shard", shard)
    (tmp_path / "two" / "cat" / "00_0.jpg").unlink()
    (tmp_path / "two" / "all.json").unlink()
    call(folder, tmp_path / "two", "-p", pipeline, "--coco", file)
    assert contents(tmp_path / "one") == contents(tmp_path / "two")
    assert len(json.loads((tmp_path / "one" / "all.json").read_text())["images"]) == 8


def test_compressed_run_lengths_are_named(one, tmp_path):
    packed = {"id": 7, "image_id": 9, "category_id": 4, "bbox": [0, 0, 9, 9], "segmentation": {"counts": "PPYo0", "size": [40, 60]}}
    text = call(one, tmp_path / "out", "-p", saved(tmp_path, FLIP), "--coco", coco(one, [packed]), code=1)
    assert "annotation 7: counts: expected uncompressed run lengths" in text


def test_masks_keep_their_palette(one, tmp_path):
    labels = np.zeros((40, 60), np.uint8)
    labels[10:20, :15] = 3
    mask = Image.fromarray(labels)
    mask.putpalette([0, 0, 0, 255, 0, 0, 0, 255, 0, 0, 0, 255])
    (tmp_path / "labels" / "images").mkdir(parents=True)
    mask.save(tmp_path / "labels" / "images" / "a.png")
    call(one, tmp_path / "out", "-p", saved(tmp_path, FLIP), "--masks", tmp_path / "labels")
    with Image.open(tmp_path / "out" / "masks" / "images" / "a_0.png") as found:
        assert found.mode == "P"
        assert found.getpalette()[9:12] == [0, 0, 255]
        assert np.array_equal(np.array(found), labels[:, ::-1])


def test_run_lengths_come_back():
    mask = (np.random.default_rng(0).random((13, 17)) > 0.5).astype(np.uint8)
    assert np.array_equal(unpacked_rle(rle_of(mask), (13, 17), ""), mask)
    assert rle_of(np.ones((2, 2)))["counts"] == [0, 4]


def test_a_keyboard_interrupt_leaves_whole_files(folder, tmp_path, monkeypatch):
    done = []

    def stop(self, name, content, write=Manifest.write):
        if len(done) == 3:
            raise KeyboardInterrupt
        done.append(name)
        return write(self, name, content)

    file, out = saved(tmp_path, TURN), tmp_path / "out"
    monkeypatch.setattr(Manifest, "write", stop)
    CliRunner().invoke(app, ["augment", str(folder), str(out), "-p", str(file)])
    assert len(list(out.rglob("*.*g"))) == 3
    monkeypatch.undo()
    assert "Wrote 5 pictures" in call(folder, out, "-p", file)
    call(folder, tmp_path / "again", "-p", file)
    assert contents(out) == contents(tmp_path / "again")
    assert not list(Path(out).rglob(".writing-*"))
