"""Annotations that are wrong in one place, form by form: each is of ``bad.png`` (40 x 60); that of ``good.png`` is right.

A row is a name, and what it makes of the form's right content.
"""

import json
import math

import numpy as np
from PIL import Image

NAN, HUGE = math.nan, math.inf
_RLE = {"counts": [300, 100, 2000], "size": [40, 60]}


def coco_content():
    return {
        "images": [
            {"id": 1, "file_name": "bad.png", "width": 60, "height": 40},
            {"id": 2, "file_name": "good.png", "width": 60, "height": 40},
        ],
        "annotations": [
            {"id": n, "image_id": n, "category_id": 1, "bbox": [5, 5, 20, 10], "area": 200, "segmentation": []} for n in (1, 2)
        ],
        "categories": [{"id": 1, "name": "cat"}],
    }


_ITEM = {
    "bbox": [
        None, "text", "1234", [], [1, 2, 3], [1, 2, 3, 4, 5], ["a", 2, 3, 4], ["1", "2", "3", "4"], [NAN, 2, 3, 4],
        [1, 2, HUGE, 4], [1, 2, -3, 4],
        [1, 2, 3, -4], [[1, 2, 3, 4]], [[1, 2], [3, 4]], {}, {"x": 1}, True, 7, [None] * 4, [True] * 4, [10**400, 1, 1, 1],
    ],
    "keypoints": [
        "x", "abc", [1], [1, 2], [1, 2, 2, 3], [NAN, 1, 2], [1, HUGE, 2], [1, 2, "v"], {"a": 1}, 7, True, [[1, 2, 2]],
        [1, 2, None], [1, 2, NAN],
        ["1", "2", "2"], [None, None, 0],
    ],
    "segmentation": [
        "text", 7, True, [[1, 2]], [[1, 2, 3]], [[1, 2, 3, 4]], [[1, 2, 3, 4, 5]], [[1, 2, 3, 4, 5, 6, 7]], [[NAN] * 6],
        [[1, 2, 3, 4, 5, HUGE]],
        [["a"] * 6], [["1"] * 6], [1, 2, 3, 4, 5, 6], [None], [[None] * 6], [{}], ["abcdef"], [[[1, 2], [3, 4], [5, 6]]],
        [[True] * 6], [[]],
        {}, {"size": [40, 60]}, {"counts": "PPYo0", "size": [40, 60]}, {"counts": [1, 2], "size": [40, 60]},
        {"counts": [-1, 2401], "size": [40, 60]},
        {"counts": [1200.5, 1199.5], "size": [40, 60]}, {"counts": ["1200", "1200"], "size": [40, 60]},
        {"counts": None, "size": [40, 60]},
        {"counts": 2400, "size": [40, 60]}, {"counts": {}, "size": [40, 60]}, {"counts": [[2400]], "size": [40, 60]},
        {"counts": [NAN, 1], "size": [40, 60]},
        {**_RLE, "size": [60, 40]}, {**_RLE, "size": "40x60"}, {**_RLE, "size": [40]}, {**_RLE, "size": None},
        {**_RLE, "size": [40.5, 60]},
        {"counts": [True, 2399], "size": [40, 60]}, {"counts": [10**30, 2400 - 10**30], "size": [40, 60]},
    ],
    "area": [NAN, HUGE],
    "score": [NAN],
}  # fmt: skip
_IMAGE = {
    "width": [61, 40, "60", NAN, -60, [60], 60.5, True],
    "height": [41, 60, {}],
    "license": [NAN],
    "file_name": [7, None, ["bad.png"], "other.png", ""],
    "id": [None, [1], {}, NAN],
}


def _label(value):
    return json.dumps(value)[:40].replace("[", "(").replace("]", ")")


def _set(where, name, value):
    def change(content):
        content[where][0][name] = value
        return content

    return change


def _without(where, name):
    def change(content):
        del content[where][0][name]
        return content

    return change


def _more(where, item):
    def change(content):
        content[where].append(item)
        return content

    return change


COCO = {
    **{f"{name} {_label(value)}": _set("annotations", name, value) for name, values in _ITEM.items() for value in values},
    **{f"image {name} {_label(value)}": _set("images", name, value) for name, values in _IMAGE.items() for value in values},
    "no bbox": _without("annotations", "bbox"),
    "no file_name": _without("images", "file_name"),
    "no id": _without("images", "id"),
    "a file name twice": _more("images", {"id": 3, "file_name": "bad.png", "width": 60, "height": 40}),
    "an id twice": _more("images", {"id": 1, "file_name": "gone.png", "width": 60, "height": 40}),
}
"""Of one picture: it is named, the other one is written."""

LOOSE = {
    "no image_id": _without("annotations", "image_id"),
    **{f"image_id {_label(value)}": _set("annotations", "image_id", value) for value in (None, [1], {}, NAN)},
    **{f"an annotation {_label(value)}": _more("annotations", value) for value in (None, 7, "x", [], True)},
    **{f"an image {_label(value)}": _more("images", value) for value in (None, 7, "x", [], True)},
}
"""Of no picture: both are written, and the file is named."""

FILES = {
    "empty": b"",
    "no text": b"\xff\xfe\xfa",
    "latin": json.dumps(coco_content(), ensure_ascii=False).replace("cat", "ch\xe4t").encode("latin-1"),
    "cut": json.dumps(coco_content()).encode()[:100],
    "a list": b"[]",
    "null": b"null",
    "a number": b"7",
    "no images": b'{"annotations": []}',
    "no annotations": b'{"images": []}',
    "images a number": b'{"images": 7, "annotations": []}',
    "images null": b'{"images": null, "annotations": []}',
    "images a table": b'{"images": {"a": 1}, "annotations": []}',
    "annotations text": b'{"images": [], "annotations": "none"}',
    "deep": b'{"images": [], "annotations": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "digits": b'{"images": [], "annotations": [], "n": ' + b"1" * 5000 + b"}",
    "info nan": json.dumps({**coco_content(), "info": {"n": NAN}}).encode(),
}
"""Of no use at all: refused, and nothing is written."""

YOLO_RIGHT = "2 0.25 0.5 0.1 0.2\n"
YOLO = {
    "no text": b"\xff\xfe 0.5",
    "latin": "ch\xe4t 0.5 0.5 0.1 0.1".encode("latin-1"),
    "utf-16": YOLO_RIGHT.encode("utf-16"),
    "zeros": bytes(64),
    "all bytes": bytes(range(256)),
    "a class alone": b"2",
    "three numbers": b"2 0.5 0.5 0.1",
    "five numbers": b"2 0.5 0.5 0.1 0.1 0.9",
    "seven numbers": b"2 .1 .1 .2 .1 .2 .3 .4",
    "two points": b"2 .1 .1",
    "words": b"2 a b c d",
    "commas": b"2,0.5,0.5,0.1,0.1",
    "decimal commas": b"2 0,5 0,5 0,1 0,1",
    "nan": b"2 nan 0.5 0.1 0.2",
    "nan size": b"2 .5 .5 nan .2",
    "inf": b"2 inf 0.5 0.1 0.2",
    "1e999": b"2 1e999 0.5 0.1 0.2",
    "nan outline": b"2 .1 .1 .2 .1 .2 nan",
    "inf outline": b"2 .1 .1 .2 .1 -inf .2",
    "negative width": b"2 .5 .5 -.1 .2",
    "negative height": b"2 .5 .5 .1 -.2",
    "pixels": b"2 30 20 12 8",
    "outline in pixels": b"2 5 5 30 5 30 15",
    "right, then wrong": b"2 0.25 0.5 0.1 0.2\n2 0.25\n",
    "wrong, then right": b"2 0.25\n2 0.25 0.5 0.1 0.2\n",
    "json": b'{"boxes": [1, 2, 3, 4]}',
    "xml": b"<annotation/>",
}

VOC_RIGHT = (
    "<annotation><filename>a.png</filename><size><width>60</width><height>40</height></size><object><name>cat</name>"
    "<bndbox><xmin>11</xmin><ymin>5</ymin><xmax>20</xmax><ymax>20</ymax></bndbox></object></annotation>"
)


def _voc(old, new):
    assert old in VOC_RIGHT
    return VOC_RIGHT.replace(old, new).encode()


_CORNERS = {"xmin": "11", "ymin": "5", "xmax": "20", "ymax": "20"}
VOC = {
    "empty": b"",
    "no xml": b"cat 1 2 3 4",
    "no text": b"\xff\xfe\xfa",
    "latin, not said": _voc("cat", "ch\xe4t").decode().encode("latin-1"),
    "cut": VOC_RIGHT[:100].encode(),
    "two roots": (VOC_RIGHT * 2).encode(),
    "unknown entity": _voc("cat", "&cat;"),
    **{
        f"{name} {value or 'empty'}": _voc(f"<{name}>{old}<", f"<{name}>{value}<")
        for name, old in _CORNERS.items()
        for value in ("", "a", "nan", "inf", "1e999", "1,5")
    },
    **{f"no {name}": _voc(f"<{name}>{old}</{name}>", "") for name, old in _CORNERS.items()},
    "no bndbox": _voc("<bndbox><xmin>11</xmin><ymin>5</ymin><xmax>20</xmax><ymax>20</ymax></bndbox>", ""),
    "from right to left": _voc("<xmax>20<", "<xmax>2<"),
    "from low to high": _voc("<ymax>20<", "<ymax>2<"),
    "two boxes": _voc("</bndbox>", "</bndbox><bndbox><xmin>1</xmin><ymin>1</ymin><xmax>2</xmax><ymax>2</ymax></bndbox>"),
    "width of another": _voc("<width>60", "<width>61"),
    "height of another": _voc("<height>40", "<height>41"),
    "turned": _voc("<width>60</width><height>40", "<width>40</width><height>60"),
    "width text": _voc("<width>60", "<width>wide"),
    "width nan": _voc("<width>60", "<width>nan"),
    "objects in a group": _voc("<object>", "<group><object>").replace(b"</object>", b"</object></group>"),
    "a point": _voc("</object>", "<point><x>12</x><y>8</y></point></object>"),
    "an outline": _voc("</object>", "<polygon><x1>12</x1><y1>8</y1><x2>14</x2><y2>8</y2></polygon></object>"),
    "a turned box": _voc("</object>", "<robndbox><cx>12</cx><cy>8</cy><w>4</w><h>3</h><angle>1</angle></robndbox></object>"),
    "a part of nan": _voc(
        "</object>",
        "<part><bndbox><xmin>nan</xmin><ymin>5</ymin><xmax>9</xmax><ymax>9</ymax></bndbox></part></object>",
    ),
    "a part without box": _voc("</object>", "<part><name>head</name></part></object>"),
}  # fmt: skip


def _masks():
    def image(values):
        return Image.fromarray(values)

    right = np.zeros((40, 60), np.uint8)
    return {
        "missing": None,
        "no picture": b"mask",
        "empty": b"",
        "colours": image(np.zeros((40, 60, 3), np.uint8)),
        "alpha": image(np.zeros((40, 60, 4), np.uint8)),
        "grey and alpha": image(np.zeros((40, 60, 2), np.uint8)),
        "smaller": image(right[1:]),
        "larger": image(np.zeros((41, 60), np.uint8)),
        "turned": image(np.ascontiguousarray(right.T)),
        "one pixel": image(right[:1, :1].copy()),
        "a folder": "folder",
    }


MASKS = _masks()
