"""Reading other libraries' pipelines: what every one of them is read with.

Owns: options that are asked for by name, and the list of what cannot be read.
Must not: import another library, or run anything that it reads.
Read next: ``torchvision.py``.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pellucid.errors import InvalidArgument, InvalidType, invalid, wrong_type
from pellucid.pipeline import Pipeline
from pellucid.random import Categorical
from pellucid.random.arguments import is_number, plain
from pellucid.transforms import Apply
from pellucid.transforms.base import Transform

__all__ = [
    "TARGETS",
    "Cannot",
    "Given",
    "Imported",
    "Missing",
    "Reader",
    "Table",
    "Unsupported",
    "arguments_of",
    "fractions",
    "gated",
    "integers",
    "mask_fill_of",
    "pair",
    "whole",
]

TARGETS = "Targets: "
"""How notes begin that say what becomes of masks, boxes or points in another way, for all to see."""

LOST = object()
"""An argument that an object does not keep: reading it is an error, and not its default."""

Made = Transform | Sequence[Transform] | None


class Missing(NamedTuple):
    """What could not be imported.

    Args:
        where: its place, such as ``transforms[2].transforms[0]``.
        name: of their transform.
        option: of it, with its value; empty where all of it is meant.
        reason: why.
        nearest: what comes closest here; empty where nothing does.

    Example:
        >>> from pellucid.interop import read_torchvision
        >>> print(read_torchvision({"name": "MagicFilter"}).missing[0])
        pipeline: MagicFilter: nothing here does what it does.
    """

    where: str
    name: str
    option: str
    reason: str
    nearest: str

    def __str__(self) -> str:
        option = f"({self.option})" if self.option else ""
        return f"{self.where}: {self.name}{option}: {self.reason}." + (f" Nearest: {self.nearest}." if self.nearest else "")


class Unsupported(InvalidArgument):
    """Some of a pipeline cannot be imported with the same results; `missing` lists all of it."""

    def __init__(self, missing: Sequence[Missing]) -> None:
        self.missing = tuple(missing)
        lines = "\n".join(f"  {one}" for one in self.missing)
        super().__init__(f"{len(self.missing)} of the pipeline's transforms have no equal here:\n{lines}")


class Imported(NamedTuple):
    """A pipeline, and how far it is the other library's.

    Args:
        pipeline: of what could be imported.
        notes: where draws or roundings differ in a way that results hardly show, in words. Those that begin with "Targets:" say
            what becomes of masks, boxes or points in another way; importers that give a pipeline alone warn of them.
        missing: what could not be imported and was left out.
        total: how many transforms theirs has, choices not counted.

    Example:
        >>> from pellucid.interop import read_torchvision
        >>> read = read_torchvision([{"name": "RandomInvert"}, {"name": "MagicFilter"}])
        >>> len(read.pipeline), [missing.name for missing in read.missing], read.total
        (1, ['MagicFilter'], 2)
    """

    pipeline: Pipeline
    notes: tuple[str, ...]
    missing: tuple[Missing, ...]
    total: int


class Cannot(Exception):  # noqa: N818
    """Raised while one transform is read."""

    def __init__(self, option: str, reason: str, nearest: str = "") -> None:
        super().__init__(reason)
        self.option, self.reason, self.nearest = option, reason, nearest


class Given:
    """The options of one of their transforms, by name.

    Each is read, refused, noted, or idle, which takes a reason; one that nobody spoke of is refused at the end.
    """

    def __init__(self, name: str, options: Mapping[str, Any], reader: Reader) -> None:
        self.name, self.options = name, dict(options)
        self.unused = set(options)
        self._reader = reader

    def __call__(self, option: str, default: Any = None) -> Any:
        """The option's value, with sequences as tuples; of two names given as ``"a|b"``, the one that is there."""
        for name in option.split("|"):
            if name in self.options:
                self.unused.discard(name)
                if self.options[name] is LOST:
                    raise Cannot(name, "the object does not keep this argument", "its description as plain data")
                return plain(self.options[name])
        return default

    def first(self, option: str) -> str:
        """Of several names, ``"a|b"``, the one that is there."""
        return next((name for name in option.split("|") if name in self.options), option.partition("|")[0])

    def has(self, option: str) -> bool:
        """Whether it is given and not None."""
        return self.options.get(option) is not None

    def idle(self, reason: str, *options: str) -> None:
        """Options that change no result, there or here: no picture, mask, box, point or label. The tests try them there."""
        self._reader.idle |= {(self.name, option): reason for option in options}
        self.unused -= set(options)

    def only(self, option: str, *allowed: Any, default: Any, reason: str, nearest: str = "") -> Any:
        """The option's value, one of a few."""
        value = self(option, default)
        if value not in allowed:
            raise Cannot(f"{self.first(option)}={value!r}", reason, nearest)
        return value

    def noted(self, option: str, *same: Any, default: Any, text: str) -> None:
        """An option that is not imported: a note says so, but for the values that mean the same here."""
        if self(option, default) not in same:
            self._reader.note(text)
            self._reader.noted |= {(self.name, option)}


Table = Mapping[str, Callable[[Given, "Reader", str], Made]]


@dataclass
class Reader:
    """One import: the tables of a library, and what was found.

    Args:
        table: from the name of a transform to a function of (options, reader, place) that gives ours.
        nearest: for transforms without one, (the reason, what comes closest).
        version: the library's major version that the options' defaults are of.
    """

    table: Table
    nearest: Mapping[str, tuple[str, str]]
    version: int = 0
    settings: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    missing: list[Missing] = field(default_factory=list)
    idle: dict[tuple[str, str], str] = field(default_factory=dict)
    noted: set[tuple[str, str]] = field(default_factory=set)
    count: int = 0
    size: tuple[int, int] | None = None

    def ends(self, where: str, size: Any) -> None:
        """A picture is (height, width) from here on; None where that is not known, as after anything inside a choice."""
        certain = where.count(".transforms[") <= 1 and isinstance(size, tuple) and len(size) == 2
        self.size = (int(size[0]), int(size[1])) if certain else None

    def note(self, text: str) -> None:
        """Say once where something differs in a way that results hardly show, or, after ``TARGETS``, that targets do."""
        if text not in self.notes:
            self.notes.append(text)

    def set(self, **settings: Any) -> None:
        """Options of the pipeline."""
        self.settings |= settings

    def one(self, described: Any, where: str) -> tuple[Transform, ...]:
        """Ours for one of theirs; none where it is missing."""
        if not isinstance(described, Mapping) or not isinstance(described.get("name"), str):
            raise wrong_type(where, expected="a table with the name of a transform", got=repr(described))
        name = described["name"]
        given = Given(name, {key: value for key, value in described.items() if key != "name"}, self)
        self.count += "transforms" not in described
        try:
            if name not in self.table:
                raise Cannot("", *self.nearest.get(name, ("nothing here does what it does", "")))
            made = self.table[name](given, self, where)
            if given.unused:
                option = min(given.unused)
                raise Cannot(f"{option}={given.options[option]!r}", "this option is not known", "")
        except Cannot as error:
            self.missing.append(Missing(where, name, error.option, error.reason, error.nearest))
            return ()
        except (InvalidArgument, InvalidType) as error:
            if "transforms" in described:  # a description that is none
                raise
            self.missing.append(Missing(where, name, "", f"its options have no meaning here ({error})", ""))
            return ()
        return () if made is None else (made,) if isinstance(made, Transform) else tuple(made)

    def each(self, described: Any, where: str) -> list[tuple[Transform, ...]]:
        """Ours for each of several."""
        if not isinstance(described, list | tuple):
            raise wrong_type(where, expected="a list of transforms", got=repr(described))
        return [self.one(one, f"{where}[{i}]") for i, one in enumerate(described)]

    def imported(self, described: Any) -> Imported:
        """A whole pipeline."""
        transforms = self.one(described, "pipeline")
        return Imported(Pipeline(transforms, **self.settings), tuple(self.notes), tuple(self.missing), self.count)


def whole(imported: Imported) -> Pipeline:
    """The pipeline, or the list of what it lacks; what becomes of targets in another way is a warning."""
    if imported.missing:
        raise Unsupported(imported.missing)
    for note in imported.notes:
        if note.startswith(TARGETS):
            warnings.warn(note, UserWarning, stacklevel=3)
    return imported.pipeline


def arguments_of(value: object, lookup: Callable[[object, str], Any] = getattr) -> dict[str, Any]:
    """An object's class and the constructor's arguments as it keeps them."""
    names = [name for name in inspect.signature(type(value).__init__).parameters if name not in ("self", "args", "kwargs")]
    found: dict[str, Any] = {"name": type(value).__name__}
    for name in names:
        try:
            found[name] = lookup(value, name)
        except AttributeError:
            found[name] = LOST
    return found


def fractions(value: Any) -> Any:
    """A fill, or several, in [0, 1]: what is above 1 is of bytes."""
    numbers = value if isinstance(value, tuple) else (value,)
    if not all(map(is_number, numbers)) or max(numbers) <= 1:
        return value
    parts = tuple(number / 255.0 for number in numbers)
    return parts if isinstance(value, tuple) else parts[0]


def mask_fill_of(fill: Any, reader: Reader) -> float | None:
    """What a fill of pictures and masks alike is for masks; None for 0, and for several numbers, which fit no mask."""
    number = fill[0] if isinstance(fill, tuple) and len(fill) == 1 else fill
    cut = int(number) if is_number(number) else 0
    if is_number(number) and cut != number:
        reader.note(f"fill={number}: masks are filled with {cut} here, as those of whole numbers are there")
    return float(cut) if cut else None


def gated(transforms: Made, p: Any) -> Made:
    """All of several transforms with a probability."""
    several = (transforms,) if isinstance(transforms, Transform) else tuple(transforms or ())
    if p == 1 or not several:
        return several
    return Apply(several, p=p)


def pair(value: Any, option: str, *, around: float | None = None) -> tuple[float, float]:
    """A range: two numbers, or one number m for (around - m, around + m)."""
    if is_number(value) and around is not None:
        return (around - value, around + value)
    if isinstance(value, tuple) and len(value) == 2 and all(map(is_number, value)):
        return (float(value[0]), float(value[1]))
    raise invalid(option, expected="a range of two numbers", got=repr(value))


def integers(value: Any, option: str, step: int = 1) -> Categorical | float:
    """Whole numbers from a range, each as likely."""
    low, high = (value, value) if is_number(value) else pair(value, option)
    numbers = tuple(float(n) for n in range(int(low), int(high) + 1, step))
    if not numbers:
        raise invalid(option, expected="a range with whole numbers in it", got=repr(value))
    return numbers[0] if len(numbers) == 1 else Categorical(numbers)
