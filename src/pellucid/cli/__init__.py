"""The command line: one file per command, registered here.

Owns: the program's name, its list of commands, and ``main``.
Must not: import anything slow; a command imports what it needs inside its function, all but the settings that are its options.
Read next: ``demo.py``.
"""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import Annotated

from pellucid._version import __version__
from pellucid.errors import needs

with needs("The program", "typer rich"):
    import typer

from pellucid.cli.audit import audit
from pellucid.cli.augment import augment
from pellucid.cli.demo import demo
from pellucid.cli.doctor import doctor
from pellucid.cli.equivariance import equivariance
from pellucid.cli.errors import PoliteGroup
from pellucid.cli.evaluate import eval_descriptor, export_descriptor
from pellucid.cli.explain import explain
from pellucid.cli.export import export
from pellucid.cli.gallery import gallery
from pellucid.cli.import_ import import_
from pellucid.cli.learn import app as learn
from pellucid.cli.play import play
from pellucid.cli.preview import preview
from pellucid.cli.register import register
from pellucid.cli.train import TRAIN
from pellucid.cli.warmup import warmup

__all__ = ["app", "main"]

app = typer.Typer(
    name="pellucid",
    cls=PoliteGroup,
    help="Augmentation and warping that gradients pass through.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

# One line per command. A family of commands is a Typer app of its own: app.add_typer(..., name="bench").
app.command()(demo)
app.command()(play)
app.command()(preview)
app.command()(gallery)
app.command()(explain)
app.command("import")(import_)
app.command()(augment)
app.command()(export)
app.command()(audit)
app.command()(equivariance)
app.command()(register)
app.command()(doctor)
app.command()(warmup)
for name, train in TRAIN.items():
    app.command(name)(train)
app.command("eval-descriptor")(eval_descriptor)
app.command("export-descriptor")(export_descriptor)
app.add_typer(learn, name="learn")
# Commands of other installed packages, the benchmarks of a checkout among them.
for command in sorted(entry_points(group="pellucid.commands"), key=lambda point: point.name):
    app.add_typer(command.load(), name=command.name)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"pellucid {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Augmentation and warping that gradients pass through."""


def main() -> None:
    """The entry point of the ``pellucid`` program."""
    app(prog_name="pellucid")
