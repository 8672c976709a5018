"""Independent plain-Python polygon maths for the oracles: no torch, no vectorisation, one polygon at a time."""

import math


def rotated_corners(cx, cy, w, h, r):
    """Corners of a box turned by r radians, counter-clockwise on a screen whose y points down."""
    out = []
    for sx, sy in ((-1, -1), (1, -1), (1, 1), (-1, 1)):
        x, y = sx * w / 2, sy * h / 2
        out.append((cx + math.cos(r) * x + math.sin(r) * y, cy - math.sin(r) * x + math.cos(r) * y))
    return out


def area(polygon):
    """Shoelace formula; 0 for fewer than three points."""
    total = 0.0
    for (x1, y1), (x2, y2) in zip(polygon, polygon[1:] + polygon[:1], strict=True):
        total += x1 * y2 - x2 * y1
    return abs(total) / 2 if len(polygon) > 2 else 0.0


def clip_convex(subject, window):
    """Sutherland-Hodgman: the part of ``subject`` inside a convex ``window`` that runs clockwise on screen."""
    for (ax, ay), (bx, by) in zip(window, window[1:] + window[:1], strict=True):

        def side(p, ax=ax, ay=ay, bx=bx, by=by):
            return (bx - ax) * (p[1] - ay) - (by - ay) * (p[0] - ax)

        kept = []
        for p, q in zip(subject, subject[1:] + subject[:1], strict=True):
            sp, sq = side(p), side(q)
            if sp >= 0:
                kept.append(p)
            if (sp > 0 > sq) or (sp < 0 < sq):
                t = sp / (sp - sq)
                kept.append((p[0] + t * (q[0] - p[0]), p[1] + t * (q[1] - p[1])))
        subject = kept
        if not subject:
            return []
    return subject
