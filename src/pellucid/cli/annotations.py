"""The targets of the demo's photographs, placed by hand.

Owns: boxes, keypoints and outlines of scikit-image's pictures, in the edge coordinates of the original files.
Must not: load pictures or compute.
Read next: ``photographs.py``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

__all__ = ["ANNOTATIONS", "Annotation", "Ellipse"]

Point: TypeAlias = tuple[float, float]


@dataclass(frozen=True)
class Ellipse:
    """An ellipse in its bounding box; ``lean`` is how far to the right of the centre its bottom point lies."""

    left: float
    top: float
    right: float
    bottom: float
    lean: float = 0.0


@dataclass(frozen=True)
class Annotation:
    """The targets of one photograph.

    Args:
        name: the picture's name in ``skimage.data``.
        boxes: (x1, y1, x2, y2).
        keypoints: (x, y).
        outlines: the mask's classes 1, 2, ... in order, as polygons or ellipses.
    """

    name: str
    boxes: tuple[tuple[float, float, float, float], ...]
    keypoints: tuple[Point, ...]
    outlines: tuple[Ellipse | tuple[Point, ...], ...]


# fmt: off
_FACE = (
    (186, 74), (197, 78), (210, 82), (228, 81), (245, 83), (262, 89), (268, 92), (270, 103), (270, 117), (267, 133), (264, 150),
    (258, 160), (248, 170), (237, 177), (225, 178), (213, 176), (200, 167), (190, 157), (186, 148), (183, 138), (182, 130),
    (181, 117), (181, 107), (183, 90), (185, 80),
)
_HELMET = (
    (284, 512), (279, 492), (277.5, 470), (280, 455), (285, 435), (290, 420), (299, 402), (310, 388), (327, 366), (342, 356),
    (360, 350), (372, 346), (397, 344), (422, 346), (440, 352), (457, 364), (472, 377), (482, 391), (490, 407), (495, 430),
    (497, 452), (503, 457), (506, 466), (510, 485), (512, 490), (512, 512),
)
_SPOON = (
    (357, 247), (341, 257), (330, 268), (326, 281), (328, 298), (335.5, 311.5), (349, 322.5), (363, 326), (379, 321), (396, 309),
    (404, 292), (406.7, 277), (402.6, 261), (393, 251), (385, 240), (372, 237.5), (365.6, 242.5),
)
_LEFT_EYE = (
    (135.5, 105), (140, 94), (150, 87), (165, 85.5), (180, 89), (195, 96), (204, 107.5), (208, 120), (207, 132.5), (197.5, 141),
    (190, 145), (177.5, 148), (162.5, 144), (150, 134), (141, 122.5),
)
_RIGHT_EYE = (
    (295, 137.5), (297.5, 130), (305, 120), (315, 114), (327.5, 110), (337.5, 110), (341, 116), (342.5, 127.5), (340, 140),
    (332.5, 154), (322.5, 162.5), (312.5, 165), (301, 162.5), (296, 155), (294.5, 145),
)
_NOSE = (
    (230, 226), (245, 225.5), (260, 230), (275, 232.5), (292.5, 232), (291, 240), (280, 246), (272.5, 256), (264, 264), (256, 266),
    (254, 260), (250, 250), (249, 245), (240, 237),
)
_ROCKET = (
    (322.3, 126.7), (317, 131), (313.5, 137), (311.5, 144), (311, 175), (314.5, 181), (314.3, 370), (312.7, 406.7), (331.7, 406.7),
    (330.3, 370), (330.5, 181), (333.8, 175), (333.5, 144), (331.5, 137), (327.5, 131),
)
# fmt: on

ANNOTATIONS = (
    Annotation(
        name="astronaut",
        boxes=((181, 74, 270, 178), (277.5, 344, 512, 512)),  # face, helmet
        keypoints=((203.3, 101.2), (246.7, 103.3), (223, 125), (204.5, 140.5), (244, 140.8)),  # pupils, nose, corners of the mouth
        outlines=(_FACE, _HELMET),
    ),
    Annotation(
        name="coffee",
        boxes=((173, 17.5, 409, 309), (325.8, 66.7, 424, 326)),  # cup with handle, spoon
        keypoints=((173, 107), (282, 17.7), (408.7, 118), (300, 208)),  # the rim's extremes
        outlines=(Ellipse(173, 17.7, 408.7, 208, lean=9), _SPOON),
    ),
    Annotation(
        name="chelsea",
        boxes=((135.5, 85.5, 208, 148), (294.5, 110, 342.5, 165), (230, 225.5, 292.5, 266)),  # eyes, nose
        keypoints=((171, 111), (314, 134), (257, 264)),  # pupils, tip of the nose
        outlines=(_LEFT_EYE, _RIGHT_EYE, _NOSE),
    ),
    Annotation(
        name="rocket",
        boxes=((311, 126.7, 333.8, 406.7),),
        keypoints=((322.3, 126.7), (363.3, 397.3), (193.5, 395), (151, 378.5), (432.5, 394.5)),  # tip, four lamps
        outlines=(_ROCKET,),
    ),
)
