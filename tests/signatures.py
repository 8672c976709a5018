"""``python -m tests.signatures --write``: how every public name is called, one line each, in ``signatures.txt``.

Without ``--write`` it prints what differs. A test holds the file to the code, and says of each line that changed what its change
asks for.
"""

import importlib
import inspect
import pkgutil
import re
import sys
from pathlib import Path

import pellucid

FILE = Path(__file__).with_name("signatures.txt")
ROOMS = sorted(
    name for _, name, _ in pkgutil.iter_modules(pellucid.__path__, "pellucid.") if not name.rpartition(".")[2].startswith("_")
)
INSIDE = (
    "pellucid.core",
    "pellucid.engine",
    "pellucid.kernels",
    "pellucid.segments",
    "pellucid.cli",
    "pellucid.errors",
    "pellucid.types",
)
"""What is no interface, or (segments) may change with a note."""


def _called(value):
    """The names, kinds and defaults of what it takes, without annotations: they may say more tomorrow."""
    try:
        taken = inspect.signature(value)
    except (TypeError, ValueError):
        return ""
    plain = taken.replace(
        parameters=[one.replace(annotation=one.empty) for one in taken.parameters.values()], return_annotation=taken.empty
    )
    return re.sub(r" at 0x[0-9a-f]+|<factory>", "...", str(plain))


def _lines_of(path, value):
    yield path + (_called(value) if callable(value) else "")
    if inspect.isclass(value) and value.__module__.startswith("pellucid"):
        theirs = {name for base in (pellucid.Transform, pellucid.Distribution) if value is not base for name in dir(base)}
        for name, member in inspect.getmembers(value):
            ours = any(name in vars(base) for base in value.__mro__ if base.__module__.startswith("pellucid"))
            if (
                not name.startswith("_")
                and ours
                and name not in theirs
                and (inspect.isroutine(member) or isinstance(member, property))
            ):
                yield f"{path}.{name}" + (_called(member) if callable(member) else "")


def lines():
    """Every public name of the package and of its rooms, with its signature."""
    found, seen = set(), set()
    for room in ("pellucid", *ROOMS):
        if room.startswith(INSIDE):
            continue
        module = importlib.import_module(room)
        for name in getattr(module, "__all__", ()):
            if room != "pellucid" and id(getattr(module, name)) in seen:  # the same by a shorter name
                continue
            seen.add(id(getattr(module, name)))
            found.update(_lines_of(f"{room}.{name}", getattr(module, name)))
    return sorted(found)


def changes(before, now):
    """What differs, with what it asks for."""
    old, new = ({line.partition("(")[0]: line for line in some} for some in (before, now))
    for name in sorted(old.keys() - new.keys()):
        yield f"gone: {old[name]}\n  It stays for one minor version, with a DeprecationWarning (core/formerly.py)."
    for name in sorted(new.keys() - old.keys()):
        yield f"new: {new[name]}\n  A line under Added."
    for name in sorted(name for name in old.keys() & new.keys() if old[name] != new[name]):
        yield f"changed: {old[name]}\n  now: {new[name]}\n  Calls as before go on for one minor version (core/formerly.py)."


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        FILE.write_text("\n".join(lines()) + "\n")
    else:
        raise SystemExit("\n".join(changes(FILE.read_text().splitlines(), lines())))
