"""How the program fails: a user's mistake gives one red sentence and exit code 2.

Owns: which exceptions count as the user's mistakes, and how they are printed.
Must not: catch anything else; a bug of this package keeps its traceback.
Read next: ``__init__.py``.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import typer
from rich.console import Console
from rich.text import Text
from typer.core import TyperGroup

from pellucid.errors import ImplementationError, InvalidArgument, InvalidType, StoppedRun

__all__ = ["USER_ERROR", "MissingExtraError", "PoliteGroup", "need", "printable"]

USER_ERROR = 2


class MissingExtraError(RuntimeError):
    """A command needs a package that only an optional extra installs."""

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(f"This command needs {package}. Install it with: pip install 'pellucid[{extra}]'")


_PACKAGES = {
    "cv2": "OpenCV",
    "matplotlib": "matplotlib",
    "onnx": "onnx",
    "onnxscript": "onnxscript",
    "safetensors": "safetensors",
    "skimage": "scikit-image",
}
"""Names of packages by the module that they install."""


def need(extra: str, *modules: str) -> None:
    """Check, before any work is done, that the packages that a command needs are installed."""
    for module in modules:
        try:
            installed = find_spec(module) is not None
        except ValueError:  # the module is blocked by None in sys.modules
            installed = False
        if not installed:
            raise MissingExtraError(_PACKAGES[module], extra)


class PoliteGroup(TyperGroup):
    """A command group that prints what the user got wrong instead of a traceback."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command; turn a user's mistake into a sentence and exit code 2."""
        try:
            return super().invoke(ctx)
        except (InvalidArgument, InvalidType, ImplementationError, MissingExtraError, StoppedRun) as error:
            _complain(str(error))
        except BrokenPipeError:  # whoever read the output has read enough, as ``head`` does: no mistake, and Click ends quietly
            raise
        except OSError as error:
            _complain(f"{error.filename}: {error.strerror}." if error.filename and error.strerror else str(error))
        raise typer.Exit(USER_ERROR)


def printable(text: str) -> str:
    r"""Return a text with the bytes of file names that are not UTF-8 written as ``\xff``."""
    try:
        content = text.encode(errors="surrogateescape")
    except UnicodeEncodeError:  # surrogates that come from no file name
        content = text.encode(errors="backslashreplace")
    return content.decode(errors="backslashreplace")


def _complain(sentence: str) -> None:
    shown = Text.assemble(("error: ", "bold red"), (printable(sentence), "red"))
    Console(stderr=True, highlight=False, soft_wrap=True).print(shown)
