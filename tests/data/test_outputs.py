"""What a call will write is known before it writes: names that meet, sizes, where labels lie, and pipelines that fit no file."""

import json
from xml.etree import ElementTree as ET

import numpy as np
import pytest
import torch
from PIL import Image

import pellucid
from tests.data import hostile
from tests.data.conftest import FLIP, call, contents, picture, saved

LABEL = "2 0.250000 0.500000 0.100000 0.200000\n"
FLIPPED = "2 0.750000 0.500000 0.100000 0.200000\n"


@pytest.fixture
def one(tmp_path):
    source = tmp_path / "data" / "images"
    source.mkdir(parents=True)
    picture(40, 60, 1).save(source / "a.png")
    return source


def words(text):
    return " ".join(text.split())


# Names


@pytest.mark.parametrize("form", ["yolo", "voc", "masks"])
def test_two_pictures_with_one_file_of_labels_are_refused(form, one, tmp_path):
    picture(40, 60, 2).save(one / "a.jpg")
    (one / "a.txt").write_text(LABEL)
    (one / "a.xml").write_text(hostile.VOC_RIGHT)
    (tmp_path / "m").mkdir()
    Image.fromarray(np.zeros((40, 60), np.uint8)).save(tmp_path / "m" / "a.png")
    options = ["--masks", tmp_path / "m"] if form == "masks" else ["--annotations", form]
    text = words(call(one, tmp_path / "out", "-p", saved(tmp_path, FLIP), *options, code=2))
    assert "a.jpg" in text
    assert "a.png" in text
    assert not (tmp_path / "out").exists()
    call(one, tmp_path / "out", "-p", saved(tmp_path, FLIP), "--annotations", "none")  # pictures alone share nothing


@pytest.mark.parametrize("folder", ["masks", "SegmentationClass"])
def test_masks_among_the_pictures_are_not_taken_for_pictures(folder, one, tmp_path):
    for name in ("images", folder):
        (one / name).mkdir()
        picture(40, 60, 2).save(one / name / "b.png")
    text = words(call(one, tmp_path / "out", "-p", saved(tmp_path, FLIP), code=2))
    assert folder in text
    assert "--masks" in text
    assert not (tmp_path / "out").exists()
    call(one, tmp_path / "out", "-p", saved(tmp_path, FLIP), "--annotations", "none")


def test_what_differs_from_the_call_before_is_said(one, tmp_path):
    call(one, tmp_path / "out", "-p", saved(tmp_path, FLIP))
    text = words(call(one, tmp_path / "out", "-p", saved(tmp_path, FLIP), "-n", "2", "--quality", "90", code=2))
    assert "other settings (copies, quality)" in text


def test_pictures_in_a_folder_named_masks_do_not_meet_masks(one, tmp_path):
    (one / "masks").mkdir()
    picture(40, 60, 2).save(one / "masks" / "a.png")
    for name in ("a.png", "masks/a.png"):
        path = tmp_path / "m" / name
        path.parent.mkdir(exist_ok=True)
        Image.fromarray(np.zeros((40, 60), np.uint8)).save(path)
    text = words(call(one, tmp_path / "out", "-p", saved(tmp_path, FLIP), "--masks", tmp_path / "m", code=2))
    assert "masks/a_0.png" in text
    assert not (tmp_path / "out").exists()


def test_a_coco_file_named_as_a_picture_is_refused(one, tmp_path):
    picture(40, 60, 2).save(one / "b.png")
    file = tmp_path / "b_0.png"
    file.write_text(json.dumps({"images": [], "annotations": []}))
    call(one, tmp_path / "out", "-p", saved(tmp_path, FLIP), "--coco", file, code=2)
    assert not (tmp_path / "out").exists()


def test_a_name_with_brackets_is_a_name(one, tmp_path):
    out = tmp_path / "[" / "bold] out"
    assert "[/bold] out" in call(one, out, "-p", saved(tmp_path, FLIP)).replace("\n", "")
    out = tmp_path / "[" / "x]"
    assert "[/x]" in call(one, out, "-p", saved(tmp_path, FLIP)).replace("\n", "")


# Sizes and orientation


def turned(path, orientation, size=(60, 40)):
    exif = Image.Exif()
    exif[0x0112] = orientation
    picture(size[1], size[0], 1).save(path, exif=exif)


@pytest.mark.parametrize("form", ["coco", "voc"])
@pytest.mark.parametrize("stored", [True, False])
def test_boxes_of_the_unturned_frame_are_named(form, stored, one, tmp_path):
    """A picture of 60 x 40 that is shown as 40 x 60: boxes are of the frame whose size stands beside them."""
    (one / "a.png").unlink()
    turned(one / "a.jpg", 6)
    width, height = (60, 40) if stored else (40, 60)
    content = hostile.coco_content()
    content["images"] = [{"id": 1, "file_name": "a.jpg", "width": width, "height": height}]
    (tmp_path / "all.json").write_text(json.dumps(content))
    (one / "a.xml").write_text(hostile.VOC_RIGHT.replace("<width>60", f"<width>{width}").replace("<height>40", f"<height>{height}"))
    options = ["--coco", tmp_path / "all.json"] if form == "coco" else ["--annotations", "voc"]
    text = words(call(one, tmp_path / "out", "-p", saved(tmp_path, FLIP), *options, code=int(stored)))
    assert ("before the EXIF orientation" in text) == stored
    assert (tmp_path / "out" / "a_0.jpg").exists() == (not stored)


@pytest.mark.parametrize("orientation", [1, 3, 6])
def test_turned_pictures_whose_labels_know_no_size_are_counted(orientation, one, tmp_path):
    (one / "a.png").unlink()
    turned(one / "a.jpg", orientation)
    (one / "a.txt").write_text(LABEL)
    text = words(call(one, tmp_path / "out", "-p", saved(tmp_path, FLIP), "--annotations", "yolo"))
    assert ("1 picture was turned" in text) == (orientation > 1)
    assert "was turned" not in call(one, tmp_path / "alone", "-p", saved(tmp_path, FLIP), "--annotations", "none")


# Where labels lie


def test_parts_of_objects_move_with_them(one, tmp_path):
    part = "<part><name>head</name><bndbox><xmin>{}</xmin><ymin>5</ymin><xmax>{}</xmax><ymax>8</ymax></bndbox></part>"
    parts = part.format(11, 14) + part.format(15, 18)
    (one / "a.xml").write_text(hostile.VOC_RIGHT.replace("</object>", f"{parts}</object>"))
    call(one, tmp_path / "out", "-p", saved(tmp_path, [*FLIP, pellucid.CenterCrop((40, 32))]))
    tree = ET.parse(tmp_path / "out" / "a_0.xml").getroot()
    # 11..20 of 60 is 41..50 mirrored, and 27..36 of the middle 32, of which 27..32 is left; 11..14 is 33..36, and gone.
    found = [[int(box.findtext(name)) for name in ("xmin", "xmax")] for box in tree.iter("bndbox")]
    assert found == [[27, 32], [29, 32]]


@pytest.mark.parametrize("layout", ["beside", "in labels", "labels beside images", "deeper"])
def test_labels_are_found_wherever_trainers_look(layout, one, tmp_path):
    source, label, wanted, where = {
        "beside": (one, one / "a.txt", "a_0.txt", "beside them"),
        "in labels": (one.parent, one.parent / "labels" / "a.txt", "labels/a_0.txt", "in labels"),
        "labels beside images": (one, one.parent / "labels" / "a.txt", "a_0.txt", "in ../labels"),
        "deeper": (one / "train", one.parent / "labels" / "train" / "a.txt", "a_0.txt", "in ../../labels/train"),
    }[layout]
    if layout == "deeper":
        source.mkdir()
        (one / "a.png").rename(source / "a.png")
    label.parent.mkdir(parents=True, exist_ok=True)
    label.write_text(LABEL)
    text = words(call(source, tmp_path / "out", "-p", saved(tmp_path, FLIP)))
    assert f"1 picture, 1 with labels (yolo, {where})." in text
    assert (tmp_path / "out" / wanted).read_text() == FLIPPED


def test_what_is_not_read_is_said_before_anything_is_written(one, tmp_path, monkeypatch):
    labels = one.parent / "labels"
    labels.mkdir()
    (labels / "a.txt").write_text(LABEL)
    (one.parent / "instances.json").write_text(json.dumps(hostile.coco_content()))
    (one / "b.gif").write_bytes(b"GIF89a")
    text = words(call(one, tmp_path / "out", "-p", saved(tmp_path, FLIP), "--annotations", "none"))
    said = "../labels exists, ../instances.json exists, 1 picture file has a format that is not read, such as b.gif."
    assert "1 picture, 0 labels; " + said in text
    assert text.index(said) < text.index("Wrote 1 picture")


def test_labels_of_no_picture_are_said(one, tmp_path):
    labels = one.parent / "labels"
    labels.mkdir()
    for name in ("a.txt", "gone.txt"):
        (labels / name).write_text(LABEL)
    assert "; 1 in labels without a picture, such as gone.txt." in words(call(one, tmp_path / "out", "-p", saved(tmp_path, FLIP)))


def test_labels_where_trainers_do_not_look_are_refused(one, tmp_path):
    (one / "a.txt").write_text(LABEL)
    out = tmp_path / "images" / "more"
    text = words(call(one, out, "-p", saved(tmp_path, FLIP), "--annotations", "yolo", code=2))
    assert "labels" in text
    assert not out.exists()


def test_keypoints_of_yolo_are_refused(one, tmp_path):
    (one / "a.txt").write_text(LABEL)
    (one.parent / "data.yaml").write_text("kpt_shape: [2, 3]\n")
    (one / "a.txt").write_text("0 .5 .5 .2 .2 .4 .4 2 .6 .6 2\n")
    assert "kpt_shape" in call(one, tmp_path / "out", "-p", saved(tmp_path, FLIP), "--annotations", "yolo", code=2)


# Pipelines

MIXING = {
    "MixUp": [pellucid.MixUp()],
    "CutMix": [pellucid.CutMix()],
    "Mosaic": [pellucid.Mosaic()],
    "CopyPaste": [pellucid.CopyPaste()],
    "in a choice": [pellucid.OneOf([pellucid.RandomInvert(p=1.0), [pellucid.RandomHorizontalFlip(), pellucid.MixUp()]])],
}


@pytest.mark.parametrize("name", MIXING)
@pytest.mark.parametrize("form", ["none", "yolo"])
def test_what_mixes_pictures_is_refused_by_name(name, form, one, tmp_path):
    (one / "a.txt").write_text(LABEL)
    text = call(one, tmp_path / "out", "-p", saved(tmp_path, MIXING[name]), "--annotations", form, code=2)
    assert (name if name in text else "MixUp") in text
    assert not (tmp_path / "out").exists()


FLOATS = {
    "Normalize": ([*FLIP, pellucid.Normalize((0.5,) * 3, (0.5,) * 3)], {}),
    "dtype": (FLIP, {"dtype": torch.float32}),
}


@pytest.mark.parametrize("name", FLOATS)
def test_pictures_that_are_no_bytes_any_more_are_refused_once(name, one, tmp_path):
    steps, options = FLOATS[name]
    picture(40, 60, 2).save(one / "b.png")
    text = words(call(one, tmp_path / "out", "-p", saved(tmp_path, steps, **options), code=2))
    assert text.count("8-bit pictures") == 1
    assert name in text
    assert not (tmp_path / "out").exists()


def test_pairs_of_left_and_right_are_refused_with_labels(one, tmp_path):
    (one / "a.txt").write_text(LABEL)
    file = saved(tmp_path, FLIP, pairs={"keypoints": [(0, 1)]})
    assert "pairs" in call(one, tmp_path / "out", "-p", file, "--annotations", "yolo", code=2)
    call(one, tmp_path / "alone", "-p", file, "--annotations", "none")


OPTIONS = [
    {"channels_last": True},
    {"drop_invalid": True},
    {"return_valid": True},
    {"pad_targets": False},
    {"box_format": "yolo"},
    {"passthrough": ("image", "boxes")},
    {"targets": {"image": "heatmap"}},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_options_of_training_change_nothing(options, one, tmp_path):
    (one / "a.txt").write_text(f"2 0.05 0.5 0.1 0.2\n{LABEL}3 0.05 0.1 0.1 0.1 0.1 0.4\n")
    steps = [*FLIP, pellucid.RandomCrop((40, 50), pad_if_needed=True)]
    call(one, tmp_path / "plain", "-p", saved(tmp_path, steps), "--annotations", "yolo")
    call(one, tmp_path / "out", "-p", saved(tmp_path, steps, **options), "--annotations", "yolo")
    plain, out = ({n: v for n, v in contents(tmp_path / name).items() if ".augment" not in n} for name in ("plain", "out"))
    assert plain == out
    with Image.open(tmp_path / "plain" / "a_0.png") as found:
        assert found.size == (50, 40)


@pytest.mark.parametrize("width", [1, 3, 4])
def test_thin_pictures_are_pictures(width, one, tmp_path):
    picture(40, width, 1).save(one / "a.png")
    call(one, tmp_path / "out", "-p", saved(tmp_path, FLIP))
    assert np.array_equal(np.array(Image.open(tmp_path / "out" / "a_0.png")), np.array(picture(40, width, 1))[:, ::-1])


@pytest.mark.parametrize(("most", "right"), [(1, True), (65535, True), (65536, False), (-1, False)])
def test_masks_keep_every_number_or_are_named(most, right, one, tmp_path):
    (tmp_path / "m").mkdir()
    file = tmp_path / "m" / "a.tif"  # which holds 32 bits; what counts is the content
    Image.fromarray(np.full((40, 60), most, np.int32)).save(file)
    file.rename(file.with_suffix(".png"))
    text = call(one, tmp_path / "out", "-p", saved(tmp_path, FLIP), "--masks", tmp_path / "m", code=int(not right))
    written = tmp_path / "out" / "masks" / "a_0.png"
    assert written.exists() == right
    assert (np.array(Image.open(written)) == most).all() if right else "class numbers from 0 to 65535" in text


def test_masks_of_one_bit(one, tmp_path):
    (tmp_path / "m").mkdir()
    values = np.zeros((40, 60), bool)
    values[:, :7] = True
    Image.fromarray(values).save(tmp_path / "m" / "a.png")
    call(one, tmp_path / "out", "-p", saved(tmp_path, FLIP), "--masks", tmp_path / "m")
    assert np.array_equal(np.array(Image.open(tmp_path / "out" / "masks" / "a_0.png")) > 0, values[:, ::-1])


def test_one_form_of_annotations_in_a_call(one, tmp_path):
    (tmp_path / "all.json").write_text(json.dumps(hostile.coco_content()))
    for options in (("--masks", one), ("--annotations", "none")):
        call(one, tmp_path / "out", "-p", saved(tmp_path, FLIP), "--coco", tmp_path / "all.json", *options, code=2)


def test_captions_beside_pictures_are_no_labels(one, tmp_path):
    (one / "a.txt").write_text("a cat on a mat\n")
    assert "0 labels; 1 .txt file lies beside pictures" in words(call(one, tmp_path / "out", "-p", saved(tmp_path, FLIP)))


def test_what_cuts_objects_into_pieces_is_refused_with_labels(one, tmp_path):
    (one / "a.txt").write_text(LABEL)
    file = saved(tmp_path, [pellucid.GridShuffle()])
    assert "GridShuffle" in call(one, tmp_path / "out", "-p", file, "--annotations", "yolo", code=2)
    call(one, tmp_path / "out", "-p", file, "--annotations", "none")
