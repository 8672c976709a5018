"""``pellucid play``: a page on this machine to try transforms on.

Owns: the command, its server, and the answer to a click: draws of a pipeline as pictures, numbers and code.
Must not: list transforms or their options, which are read from the library; serve other machines.
Read next: ``play.html``.
"""

from __future__ import annotations

import ast
import base64
import io
import json
import time
from collections.abc import Mapping
from dataclasses import fields
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlsplit

import typer

from pellucid.errors import InvalidArgument, InvalidType, invalid

if TYPE_CHECKING:
    from PIL.Image import Image
    from torch import Tensor

    from pellucid.transforms.base import Transform

__all__ = ["answer", "catalogue", "play", "server"]

_LONGEST, _DRAWS = 384, 12
_MOST = 32 << 20  # bytes of a request
_WRONG = (InvalidArgument, InvalidType, ValueError, TypeError, SyntaxError, LookupError, OSError)
"""Errors that a picture or an option from the page may raise; the page shows them."""


def play(
    picture: Annotated[Path | None, typer.Argument(metavar="IMAGE", help="A picture of yours; default a photograph.")] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port on this machine; 0 takes a free one.")] = 8642,
    browser: Annotated[bool, typer.Option(help="Open the page in a browser.")] = True,
) -> None:
    """Try transforms on a picture: stack them, move their ranges, see draws and gradients, copy the Python or TOML.

    The page is served to this machine alone, until Ctrl+C. Without IMAGE, scikit-image's photograph is shown where it is installed.
    """
    import webbrowser

    first = _sample() if picture is None else _address(_small(_opened(picture.read_bytes())))
    with server(port, first) as running:
        address = f"http://127.0.0.1:{running.server_address[1]}/"
        typer.echo(f"Pellucid plays on {address} until Ctrl+C.")
        if browser:
            webbrowser.open(address)
        try:
            running.serve_forever()
        except KeyboardInterrupt:
            typer.echo()


def server(port: int, first: str = "") -> ThreadingHTTPServer:
    """Make the page's server, on the loopback address; ``first`` is the picture that the page begins with, as a data URL."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self._ours() and self.path == "/":
                from pellucid.cli.files import page

                self._send(page("play", catalogue=json.dumps(catalogue()).replace("</", "<\\/"), first=first), "text/html")
            else:
                self.send_error(404)

        def do_POST(self) -> None:
            # A page of another origin may send JSON only after a preflight request, which this server never answers.
            length = int(self.headers.get("Content-Length") or 0)
            json_given = self.headers.get("Content-Type", "").startswith("application/json")
            if not self._ours() or not json_given or self.path != "/draw" or not 0 < length <= _MOST:
                self.send_error(403)
                return
            try:
                found = answer(json.loads(self.rfile.read(length)))
            except _WRONG as error:
                found = {"error": str(error)}
            self._send(json.dumps(found).encode(), "application/json")

        def log_message(self, *_: Any) -> None:
            pass

        def _ours(self) -> bool:
            """Whether the request names this machine as host, and not a foreign name that resolves to it (DNS rebinding)."""
            return urlsplit(f"//{self.headers.get('Host', '')}").hostname in ("127.0.0.1", "localhost")

        def _send(self, content: bytes, kind: str) -> None:
            self.send_response(200)
            self.send_header("Content-Type", f"{kind}; charset=utf-8")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

    try:
        return ThreadingHTTPServer(("127.0.0.1", port), Handler)
    except OSError as error:
        raise invalid("--port", expected="a free port", got=f"{port} ({error.strerror})", fix="Pass --port 0.") from error


@cache
def catalogue() -> dict[str, list[dict[str, Any]]]:
    """The transforms that the page offers, by group: name, summary, and options as text, with values of visible effect."""
    from pellucid.cli.gallery import example, summary
    from pellucid.transforms import GROUPS

    found: dict[str, list[dict[str, Any]]] = {}
    for group, kinds in GROUPS.items():
        for kind in kinds:
            if group not in ("Choices", "Mixing"):  # these hold transforms, or mix several pictures
                sample = example(kind)
                options = [(field.name, repr(getattr(sample, field.name))) for field in fields(kind)]  # type: ignore[arg-type]
                found.setdefault(group, []).append({"name": kind.__name__, "summary": summary(kind), "options": options})
    return found


def answer(asked: Mapping[str, Any]) -> dict[str, Any]:
    """Answer a request of the page: draw a picture through a stack of transforms.

    Args:
        asked: ``picture``, a data URL; ``transforms``, each with ``name`` and ``options``, texts by field; ``boxes``, rows of
            four numbers as shares of the picture; ``seed``; ``draws``; ``gradient``.

    Returns:
        ``draws`` and ``gradient`` as data URLs, ``milliseconds`` for a picture, ``explain``, ``python``, ``toml``.

    Errors:
        InvalidArgument, InvalidType, TypeError, ValueError or SyntaxError for a request that cannot be read or drawn.
    """
    import torch

    from pellucid.cli.draw import draw_targets, heat
    from pellucid.cli.files import to_tensor
    from pellucid.cli.gradients import arriving
    from pellucid.interop import as_code
    from pellucid.pipeline import Pipeline
    from pellucid.pipeline.explanation import explain
    from pellucid.pipeline.serialization import as_toml
    from pellucid.random import Key

    if not isinstance(asked, Mapping) or not {"picture", "transforms"} <= asked.keys():
        raise invalid("request", expected="an object with a picture and transforms", got=type(asked).__name__)
    image = to_tensor(_small(_opened(_content(asked["picture"]))))
    height, width = image.shape[1:]
    batch: dict[str, Tensor] = {"image": image}
    if asked.get("boxes"):
        edges = torch.tensor([width, height, width, height], dtype=torch.float32)
        batch["boxes"] = torch.tensor(asked["boxes"], dtype=torch.float32) * edges
    seed, draws = int(asked.get("seed", 0)), max(1, min(int(asked.get("draws", 3)), _DRAWS))
    pipeline = Pipeline([_made(step) for step in asked["transforms"]], seed=seed)
    records = [pipeline.draw(batch, key=Key(seed=seed, step=step)) for step in range(draws)]
    shown = [pipeline.apply(batch, record) for record in records]
    started = time.perf_counter()
    for record in records:
        pipeline.apply(batch, record)
    spent = (time.perf_counter() - started) / draws
    found = {
        "draws": [_address(draw_targets(one)) for one in shown],
        "milliseconds": round(1e3 * spent, 2),
        "explain": explain(records[0].plan, impl=pipeline.options.impl, device="cpu"),
        "python": as_code(pipeline),
        "toml": as_toml(pipeline.to_dict()),
    }
    if asked.get("gradient"):
        found["gradient"] = _address(heat(arriving(pipeline, batch["image"], records[0])))
    return found


def _made(step: Mapping[str, Any]) -> Transform:
    """Make a transform from its name and the texts of its options."""
    from pellucid import transforms

    kind = {one.__name__: one for one in transforms.ALL}.get(step["name"])
    if kind is None:
        raise invalid("name", expected="the name of a transform", got=repr(step["name"]))
    made: Transform = kind(**{name: _value(f"{kind.__name__}.{name}", text) for name, text in step["options"].items()})
    return made


def _value(name: str, text: str) -> Any:
    """An option's value, from its text: a literal, or a distribution of literals."""
    from pellucid import random

    def read(node: ast.expr) -> Any:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in random.__all__:
            given = {str(one.arg): read(one.value) for one in node.keywords}
            return getattr(random, node.func.id)(*map(read, node.args), **given)
        if isinstance(node, ast.Tuple):
            return tuple(map(read, node.elts))
        return ast.literal_eval(node)

    try:
        return read(ast.parse(text.strip(), mode="eval").body)
    except (ValueError, SyntaxError) as error:
        fix = "Put texts in quotes, such as 'bilinear'."
        raise invalid(name, expected="a number, a pair, a text or a distribution", got=text, fix=fix) from error


def _content(address: str) -> bytes:
    """The bytes of a data URL."""
    head, _, data = str(address).partition(",")
    if not head.startswith("data:image/") or not head.endswith(";base64"):
        raise invalid("picture", expected="a picture", got=f"{head[:40]!r}", fix="Choose a PNG, JPEG or WebP file.")
    return base64.b64decode(data)


def _opened(content: bytes) -> Image:
    from PIL import Image, ImageOps

    try:
        return ImageOps.exif_transpose(Image.open(io.BytesIO(content))).convert("RGB")
    except (OSError, ValueError, Image.DecompressionBombError) as error:
        raise invalid("picture", expected="a picture that Pillow reads", got=str(error)) from error


def _small(picture: Image) -> Image:
    picture.thumbnail((_LONGEST, _LONGEST))
    return picture


def _address(picture: Image) -> str:
    from pellucid.cli.files import png_bytes

    return f"data:image/png;base64,{base64.b64encode(png_bytes(picture)).decode()}"


def _sample() -> str:
    """scikit-image's astronaut as a data URL; an empty text if scikit-image is not installed."""
    try:
        from skimage import data
    except ImportError:
        return ""
    from PIL import Image

    return _address(_small(Image.fromarray(data.astronaut())))
