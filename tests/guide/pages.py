"""Pages of the guide as a reader follows them: the blocks of Python in order, and what they print."""

import contextlib
import io
import re
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"
FENCE = re.compile(r"^```(?P<kind>python|text|sh)\n(?P<body>.*?)^```$", re.DOTALL | re.MULTILINE)


def blocks(page):
    """(kind, text, line) of every block of a page."""
    text = (DOCS / page).read_text(encoding="utf-8")
    return [(m["kind"], m["body"], text[: m.start()].count("\n") + 2) for m in FENCE.finditer(text)]


def follow(page, shell=None):
    """Run a page's blocks in one namespace, hold what each prints to the ``text`` block behind it, and count those."""
    scope, printed, compared = {"__name__": "guide"}, "", 0
    for kind, body, line in blocks(page):
        if kind == "python":
            stream = io.StringIO()
            with contextlib.redirect_stdout(stream):
                exec(compile("\n" * (line - 1) + body, str(DOCS / page), "exec"), scope)
            printed = stream.getvalue()
        elif kind == "text":
            assert printed == body, f"{page}:{line}: printed\n{printed}"
            compared += 1
        elif shell is not None:
            shell(body)
    return compared
