"""One annotation that is wrong is named, skipped and counted, whatever is wrong with it; the picture beside it is written."""

import json
import os

import numpy as np
import pytest
import torch
from PIL import Image

import pellucid
from pellucid.data import folders
from tests.data import hostile
from tests.data.conftest import FLIP, call, made, picture, saved


@pytest.fixture
def two(tmp_path):
    source = tmp_path / "in"
    source.mkdir()
    for name in ("good.png", "bad.png"):
        picture(40, 60, 1).save(source / name)
    return source


def held(source, out, *words, **options):
    """What is wrong is named, what is right is written, and nothing of what is wrong."""
    outcomes = made(source, out, *words, **options)
    written = sorted(path.name for path in out.rglob("*") if ".augment" not in path.parts)
    assert not outcomes["good.png"].wrong
    assert outcomes["bad.png"].wrong
    assert "good_0.png" in written
    assert not [name for name in written if name.startswith(("bad", ".writing"))]
    return outcomes["bad.png"].wrong


def coco_file(tmp_path, content):
    file = tmp_path / "all.json"
    file.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    return file


@pytest.mark.parametrize("name", hostile.COCO)
def test_coco(name, two, tmp_path):
    held(two, tmp_path / "out", coco=coco_file(tmp_path, hostile.COCO[name](hostile.coco_content())))
    found = json.loads((tmp_path / "out" / "all.json").read_text(), parse_constant=pytest.fail)
    assert [image["file_name"] for image in found["images"]] == ["good_0.png"]
    assert [item["bbox"] for item in found["annotations"]] == [[35, 5, 20, 10]]


@pytest.mark.parametrize("name", hostile.LOOSE)
def test_coco_of_no_picture(name, two, tmp_path):
    file = coco_file(tmp_path, hostile.LOOSE[name](hostile.coco_content()))
    text = call(two, tmp_path / "out", "-p", saved(tmp_path, FLIP), "--coco", file, code=1)
    assert "all.json: " in text
    assert len(json.loads((tmp_path / "out" / "all.json").read_text())["images"]) == 2


@pytest.mark.parametrize("name", hostile.FILES)
def test_coco_files(name, two, tmp_path):
    with pytest.raises(pellucid.InvalidArgument, match=r"all\.json: expected"):
        made(two, tmp_path / "out", coco=coco_file(tmp_path, hostile.FILES[name]))
    assert not (tmp_path / "out").exists()


def test_what_coco_lists_beside_the_pictures_is_said(two, tmp_path):
    content = hostile.coco_content()
    content["images"] += [{"id": 3, "file_name": "gone.png"}, {"id": 4, "file_name": "far.png"}]
    content["annotations"] += [{**content["annotations"][0]}, {**content["annotations"][0], "id": 9, "image_id": 77}]
    text = call(two, tmp_path / "out", "-p", saved(tmp_path, FLIP), "--coco", coco_file(tmp_path, content))
    assert "2 listed pictures are not in the folder, such as gone.png" in text
    assert "1 annotation id is used twice, 1 annotation belongs to no listed picture" in text
    assert len(json.loads((tmp_path / "out" / "all.json").read_text())["annotations"]) == 3


@pytest.mark.parametrize("name", hostile.YOLO)
def test_yolo(name, two, tmp_path):
    (two / "good.txt").write_text(hostile.YOLO_RIGHT)
    (two / "bad.txt").write_bytes(hostile.YOLO[name])
    assert "bad.txt" in held(two, tmp_path / "out", "yolo")
    assert (tmp_path / "out" / "good_0.txt").read_text() == "2 0.750000 0.500000 0.100000 0.200000\n"


@pytest.mark.parametrize("name", hostile.VOC)
def test_voc(name, two, tmp_path):
    (two / "good.xml").write_text(hostile.VOC_RIGHT)
    (two / "bad.xml").write_bytes(hostile.VOC[name])
    assert "bad.xml" in held(two, tmp_path / "out")
    assert "<xmin>41</xmin>" in (tmp_path / "out" / "good_0.xml").read_text()


@pytest.mark.parametrize("name", hostile.MASKS)
def test_masks(name, two, tmp_path):
    masks, content = tmp_path / "m", hostile.MASKS[name]
    masks.mkdir()
    labels = np.zeros((40, 60), np.uint8)
    labels[:, :7] = 3
    Image.fromarray(labels).save(masks / "good.png")
    if content == "folder":
        (masks / "bad.png").mkdir()
    elif isinstance(content, bytes):
        (masks / "bad.png").write_bytes(content)
    elif content is not None:
        content.save(masks / "bad.png")
    held(two, tmp_path / "out", masks=masks)
    assert np.array_equal(np.array(Image.open(tmp_path / "out" / "masks" / "good_0.png")), labels[:, ::-1])


@pytest.mark.parametrize("form", ["yolo", "voc"])
def test_a_folder_in_the_place_of_a_file(form, two, tmp_path):
    suffix, right = {"yolo": (".txt", hostile.YOLO_RIGHT), "voc": (".xml", hostile.VOC_RIGHT)}[form]
    (two / "good").with_suffix(suffix).write_text(right)
    (two / "bad").with_suffix(suffix).mkdir()
    held(two, tmp_path / "out", form)


@pytest.mark.parametrize("form", ["none", "yolo", "voc", "coco", "masks"])
def test_names_that_are_no_text(form, two, tmp_path):
    """They are written as they are, or named as far as they can be; never the end of the run."""
    name = os.fsdecode(b"b\xffd")
    try:
        (two / "bad.png").rename(two / f"{name}.png")
    except OSError:
        pytest.skip("this file system takes names in UTF-8 alone")
    (tmp_path / "m").mkdir()
    for stem in ("good", name):
        (two / f"{stem}.txt").write_text(hostile.YOLO_RIGHT)
        (two / f"{stem}.xml").write_text(hostile.VOC_RIGHT)
        Image.fromarray(np.zeros((40, 60), np.uint8)).save(tmp_path / "m" / f"{stem}.png")
    words = {"coco": ["--coco", coco_file(tmp_path, hostile.coco_content())], "masks": ["--masks", tmp_path / "m"]}
    words = words.get(form, ["--annotations", form])
    code = 1 if form in ("coco", "voc") else 0  # which keep names as text
    text = call(two, tmp_path / "out", "-p", saved(tmp_path, FLIP), *words, code=code)
    assert (tmp_path / "out" / "good_0.png").exists()
    assert (tmp_path / "out" / f"{name}_0.png").exists() == (not code)
    assert not code or "b\\xffd.png: " in text


def test_what_a_decoder_refuses_is_one_pictures_error(two, tmp_path, monkeypatch):
    """Whatever kinds of files there come to be that are refused, such as those of 16 bits."""

    def refuse(content, before=folders.decode, **options):
        if content == (two / "bad.png").read_bytes():
            raise pellucid.InvalidArgument("bits: expected 8, got 16.")
        return before(content, **options)

    picture(41, 60, 1).save(two / "bad.png")
    monkeypatch.setattr(folders, "decode", refuse)
    text = call(two, tmp_path / "out", "-p", saved(tmp_path, FLIP), code=1)
    assert "1 of 2 could not be augmented" in text
    assert "bad.png: bits: expected 8, got 16." in text


def test_defects_are_one_pictures_error(two, tmp_path, monkeypatch):
    def broken(self, batch, before=pellucid.Pipeline.__call__, **options):
        if batch["image"].shape[1] == 41:
            raise ZeroDivisionError("by nothing")
        return before(self, batch, **options)

    picture(41, 60, 1).save(two / "bad.png")
    monkeypatch.setattr(pellucid.Pipeline, "__call__", broken)
    assert held(two, tmp_path / "out") == "ZeroDivisionError: by nothing"


def test_outlines_beyond_the_horizon_are_left_out(two, tmp_path):
    """A homography sends points of the picture's plane to nowhere: no NaN is written, and no outline that lost a corner."""

    class Horizon:
        def to_dict(self):
            return {}

        def __call__(self, batch, key):
            polygons = batch["polygons"]
            gone = batch["image"][0, 0, 0] == 7
            return {
                **batch,
                "keypoints_valid": torch.ones(len(batch.get("keypoints", ())), dtype=torch.bool),
                "polygons": torch.full_like(polygons, torch.nan) if gone else polygons,
                "polygons_valid": torch.full((len(polygons),), not gone),
                "boxes_valid": torch.ones(len(batch["boxes"]), dtype=torch.bool),
            }

    image = np.array(picture(40, 60, 1))
    image[0, 0] = 7
    Image.fromarray(image).save(two / "bad.png")
    outline = [5, 5, 20, 5, 20, 15]
    content = hostile.coco_content()
    for item in content["annotations"]:
        item["segmentation"] = [outline]
    for name in ("good", "bad"):
        (two / f"{name}.txt").write_text("1 .1 .1 .4 .1 .4 .3\n")
    for options in ({"coco": coco_file(tmp_path, content)}, {"form": "yolo"}):
        out = tmp_path / next(iter(options))
        assert not made(two, out, pipeline=Horizon(), **options)["bad.png"].wrong
        if "coco" in options:
            left = json.loads((out / "all.json").read_text(), parse_constant=pytest.fail)
            assert {item["image_id"] for item in left["annotations"]} == {
                image["id"] for image in left["images"] if image["file_name"] == "good_0.png"
            }
        else:
            assert (out / "good_0.txt").read_text()
            assert not (out / "bad_0.txt").read_text()
