"""The reader of other libraries' pipelines, which all importers share.

Owns: reading options by name, and the list of operations that cannot be imported.
Must not: import another library, or run anything that it reads.
Read next: ``torchvision.py``.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, get_args

from pellucid import transforms
from pellucid.core.arguments import check_choice, is_number, plain
from pellucid.errors import InvalidArgument, InvalidType, invalid, wrong_type
from pellucid.pipeline import Pipeline
from pellucid.random import Categorical
from pellucid.transforms.base import Transform

__all__ = [
    "NEAR", "TARGETS", "Cannot", "Given", "Imported", "Match", "Missing", "Reader", "Table", "Unknown", "Unread", "Unsupported",
    "arguments_of", "fractions", "gated", "integers", "mask_fill_of", "pair", "whole", "wraps",
]  # fmt: skip

TARGETS = "Targets: "
"""The beginning of notes on differences in masks, boxes or points; such notes also become warnings."""

NEAR = "Nearest: "
"""The beginning of notes that name a substitute for an operation or an option, and how it differs."""

Match = Literal["nearest", "exact"]

Unknown = Literal["refuse", "wrap"]

ASSUMED = (256, 256)
"""The size of pictures that is assumed if none is given."""

LOST = object()
"""The value of an argument that an object does not keep: reading it is an error."""

Made = Transform | Sequence[Transform] | None


@dataclass(frozen=True)
class Unread:
    """An expression in a file whose value cannot be read."""

    text: str

    def __str__(self) -> str:
        return self.text


class Missing(NamedTuple):
    """An operation that could not be imported.

    Args:
        where: its place, such as ``transforms[2].transforms[0]``.
        name: the name of the library's transform.
        option: the option that is the cause, with its value; empty if it is the whole transform.
        reason: why it cannot be imported.
        nearest: the nearest operation here; empty if there is none.

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
    """A part of a pipeline cannot be imported; `missing` lists every such operation."""

    def __init__(self, missing: Sequence[Missing]) -> None:
        self.missing = tuple(missing)
        lines = "\n".join(f"  {one}" for one in self.missing)
        have = "has" if len(self.missing) == 1 else "have"
        super().__init__(f"{len(self.missing)} of the pipeline's transforms {have} no equal here:\n{lines}")


class Imported(NamedTuple):
    """An imported pipeline, and how it differs from the original.

    Args:
        pipeline: the operations that could be imported.
        notes: differences in words. Most concern draws or rounding and hardly show in results. Notes that begin with "Targets:"
            are about masks, boxes or points; notes that begin with "Nearest:" name the substitute for an operation or option
            without an equal. Importers that return only a pipeline warn of these two.
        missing: the operations that could not be imported.
        total: how many transforms the original has, not counting choices.

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
    """Raised while a transform is read that cannot be imported."""

    def __init__(self, option: str, reason: str, nearest: str = "") -> None:
        super().__init__(reason)
        self.option, self.reason, self.nearest = option, reason, nearest


class Given:
    """The options of one transform of the other library, by name.

    A builder must handle each option: read it, refuse it, note it, or declare it idle with a reason; others are refused at the end.
    """

    def __init__(self, name: str, options: Mapping[str, Any], reader: Reader) -> None:
        self.name, self.options = name, dict(options)
        self.unused = set(options)
        self._reader = reader

    def __call__(self, option: str, default: Any = None) -> Any:
        """Return an option's value, with sequences as tuples; ``"a|b"`` names alternatives, which also match as ``a_range``."""
        for name in (name for one in option.split("|") for name in (one, f"{one.removesuffix('_limit')}_range")):
            if name in self.options:
                self.unused.discard(name)
                if self.options[name] is LOST:
                    raise Cannot(name, "the object does not keep this argument", "its description as plain data")
                if unread := _unread(self.options[name]):
                    nearest = f"names={{{str(unread)!r}: ...}}, or --set {unread}=... on the command line"
                    raise Cannot(f"{name}={unread}", "the file does not spell out its value", nearest)
                return plain(self.options[name])
        return default

    def near(self, option: str, reason: str, nearest: str = "") -> None:
        """Note that an option has no equal and what replaces it; under ``match="exact"``, refuse it."""
        if self._reader.match == "exact":
            raise Cannot(option, reason, nearest)
        called = f"{self.name}({option})" if option else self.name
        self._reader.note(f"{NEAR}{called}: {reason}" + (f"; taken as {nearest}" if nearest else ""))
        self._reader.noted |= {(self.name, option.partition("=")[0])}

    def rest(self) -> None:
        """Note the options of a substituted operation that were not read."""
        if self.unused:
            self._reader.note(f"{NEAR}{self.name}: {', '.join(sorted(self.unused))} are not read")
            self._reader.noted |= {(self.name, option) for option in self.unused}
            self.unused = set()

    def first(self, option: str) -> str:
        """Return the first of the alternative names ``"a|b"`` that the transform has."""
        return next((name for name in option.split("|") if name in self.options), option.partition("|")[0])

    def has(self, option: str) -> bool:
        """Whether the option is given and not None."""
        return self.options.get(option) is not None

    def idle(self, reason: str, *options: str) -> None:
        """Declare options that change no picture, mask, box, point or label; tests check this in the other library."""
        self._reader.idle |= {(self.name, option): reason for option in options}
        self.unused -= set(options)

    def only(self, option: str, *allowed: Any, default: Any, reason: str, nearest: str = "") -> Any:
        """Return an option's value if it is one of ``allowed``; otherwise note or refuse it, and return the first of them."""
        value = self(option, default)
        if value not in allowed:
            self.near(f"{self.first(option)}={value!r}", reason, nearest)
            value = allowed[0]
        return value

    def noted(self, option: str, *same: Any, default: Any, text: str) -> None:
        """Note that an option is not imported, unless its value means the same here."""
        if self(option, default) not in same:
            self._reader.note(text)
            self._reader.noted |= {(self.name, option)}


Table = Mapping[str, Callable[[Given, "Reader", str], Made]]


@dataclass
class Reader:
    """One import: the tables of a library, and the results so far.

    Args:
        table: by name of a transform, a function of (options, reader, place) that returns Pellucid's transform.
        nearest: for transforms that are not in ``table``, (reason, nearest operation).
        version: the library's major version, which decides the options' defaults.
        match: whether operations without an equal are replaced by the nearest, or refused.
        near: like `table`, for substitutes.
        size: (height, width) of the pictures, if known.
        wraps: the library whose original transforms become steps if there is no substitute; empty for none.
    """

    table: Table
    nearest: Mapping[str, tuple[str, str]]
    version: int = 0
    match: Match = "exact"
    near: Table = field(default_factory=dict)
    size: tuple[int, int] | None = None
    wraps: str = ""
    settings: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    missing: list[Missing] = field(default_factory=list)
    idle: dict[tuple[str, str], str] = field(default_factory=dict)
    noted: set[tuple[str, str]] = field(default_factory=set)
    count: int = 0
    later: tuple[int, int] | None = None
    steps: list[tuple[int, int] | None] = field(default_factory=list)

    def __post_init__(self) -> None:
        check_choice("match", self.match, get_args(Match))

    def pixels(self, given: Given, option: str) -> tuple[int, int]:
        """Return the (height, width) by which an option in pixels is divided; note it if the size is only assumed."""
        if self.size is None:
            reason = "it is in pixels there, and a fraction of the unknown size here"
            given.near(option, reason, f"a fraction of {ASSUMED}; pass size=")
        return self.size or ASSUMED

    def at_times(self, made: Sequence[Transform], p: Any, given: Given) -> Made:
        """Import a step that changes the size with probability p: a batch needs one size, so both cases end in a known size."""
        if p == 1 or self.match == "exact":
            return gated(made, p)
        known = self.size or self.later
        given.near(f"p={p}", "it changes the size at times", f"a resize to {known} either way" if known else "for certain")
        if known is None:
            return made
        back = transforms.Resize(known, antialias=False)
        return transforms.OneOf(((*made, back), (back,)), weights=(p, 1.0 - p))

    def comes(self, steps: Any) -> None:
        """Find the size that each step of a list sets, and the first of these sizes."""
        self.steps = [_ends_in(step) for step in steps] if isinstance(steps, list | tuple) else []
        self.later = next(filter(None, self.steps), None)

    def follows(self, where: str) -> tuple[int, int] | None:
        """Return the first size that a later step sets, or None."""
        place = where.partition(".transforms[")[2].partition("]")[0]
        return next(filter(None, self.steps[int(place) + 1 :]), None) if place else None

    def ends(self, where: str, size: Any) -> None:
        """Set the size that pictures have from here on; None if it is unknown, as it is after a step inside a choice."""
        certain = where.count(".transforms[") <= 1 and isinstance(size, tuple) and len(size) == 2
        self.size = (int(size[0]), int(size[1])) if certain else None

    def note(self, text: str) -> None:
        """Add a note, unless it was added before."""
        if text not in self.notes:
            self.notes.append(text)

    def set(self, **settings: Any) -> None:
        """Set options of the pipeline."""
        self.settings |= settings

    def one(self, described: Any, where: str) -> tuple[Transform, ...]:
        """Import one transform; return no steps, and list it as missing, if that is not possible."""
        if isinstance(described, Unread):
            self.count += 1
            self.missing.append(Missing(where, str(described), "", "the file does not spell it out", ""))
            return ()
        if not isinstance(described, Mapping) or not isinstance(described.get("name"), str):
            raise wrong_type(where, expected="a table with the name of a transform", got=repr(described))
        name = described["name"]
        given = Given(name, {key: value for key, value in described.items() if key not in ("name", "always_apply")}, self)
        self.count += "transforms" not in described
        try:
            table = self.table if name in self.table or self.match == "exact" else self.near
            if name not in table and self.wraps:
                return self._original(given)
            if name not in table:
                raise Cannot("", *self.nearest.get(name, ("nothing here does what it does", "")))
            made = table[name](given, self, where)
            if given.unused:
                option = min(given.unused)
                raise Cannot(f"{option}={given.options[option]!r}", "this option is not known", "")
        except Cannot as error:
            self.missing.append(Missing(where, name, error.option, error.reason, error.nearest))
            return ()
        except (TypeError, ValueError, ArithmeticError, LookupError, AttributeError) as error:  # odd options raise any of these
            if "transforms" in described and isinstance(error, InvalidArgument | InvalidType):  # the description is malformed
                raise
            words = ", ".join(f"{key}={value!r}" for key, value in given.options.items())[:100]
            cause = error if isinstance(error, InvalidArgument | InvalidType) else words  # Python's own errors do not name options
            self.missing.append(Missing(where, name, "", f"its options have no meaning here ({cause})", ""))
            return ()
        return () if made is None else (made,) if isinstance(made, Transform) else tuple(made)

    def _original(self, given: Given) -> tuple[Transform, ...]:
        """Wrap the library's own transform as a step."""
        from pellucid.interop.wrapping import wrapped

        found = wrapped(self.wraps, given.name, {key: given(key) for key in given.options})
        if isinstance(found, str):
            raise Cannot("", f"nothing here does what it does, and {found}")
        self.note(f"{NEAR}{given.name}: the original of {self.wraps}, on pictures alone, with its own draws and no gradient")
        return (found,)

    def each(self, described: Any, where: str) -> list[tuple[Transform, ...]]:
        """Import each transform of a list."""
        if not isinstance(described, list | tuple):
            raise wrong_type(where, expected="a list of transforms", got=repr(described))
        return [self.one(one, f"{where}[{i}]") for i, one in enumerate(described)]

    def _sorted(self, steps: tuple[Transform, ...]) -> tuple[Transform, ...]:
        """Move steps that draw by the boxes or masks of the batch to the front."""
        first = tuple(one for one in steps if type(one).__name__ in ("RandomIoUCrop", "RandomBoxSafeCrop", "RandomMaskCrop"))
        rest = tuple(one for one in steps if one not in first)
        if first and (*first, *rest) != steps:
            self.note(f"{NEAR}{type(first[0]).__name__}: it draws by the boxes or masks of the batch; taken before all else")
        return (*first, *rest)

    def imported(self, described: Any) -> Imported:
        """Import a whole pipeline."""
        steps = self._sorted(self.one(described, "pipeline"))
        return Imported(Pipeline(steps, **self.settings), tuple(self.notes), tuple(self.missing), self.count)


def wraps(unknown: str, library: str) -> str:
    """Return the library if ``unknown`` is ``wrap``, and an empty text if it is ``refuse``."""
    check_choice("unknown", unknown, get_args(Unknown))
    return library if unknown == "wrap" else ""


def whole(imported: Imported) -> Pipeline:
    """Return the pipeline, or raise `Unsupported`; warn of substitutes and of differences in targets."""
    if imported.missing:
        raise Unsupported(imported.missing)
    for note in imported.notes:
        if note.startswith(TARGETS):
            warnings.warn(note, UserWarning, stacklevel=3)
    if near := [note for note in imported.notes if note.startswith(NEAR)]:
        warnings.warn("\n".join([*near, "match='exact' refuses these."]), UserWarning, stacklevel=3)
    return imported.pipeline


def _unread(value: Any) -> Unread | None:
    """Return the first part of a value that the file does not spell out; nested transforms are checked on their own."""
    if isinstance(value, Unread):
        return value
    parts = (
        value.values() if isinstance(value, Mapping) and "name" not in value else value if isinstance(value, list | tuple) else ()
    )
    return next(filter(None, map(_unread, parts)), None) if not any(isinstance(one, Mapping) for one in parts) else None


def arguments_of(value: object, lookup: Callable[[object, str], Any] = getattr) -> dict[str, Any]:
    """Return the name of an object's class, and its constructor's arguments as the object keeps them."""
    names = [name for name in inspect.signature(type(value).__init__).parameters if name not in ("self", "args", "kwargs")]
    found: dict[str, Any] = {"name": type(value).__name__}
    for name in names:
        try:
            found[name] = lookup(value, name)
        except AttributeError:
            found[name] = LOST
    return found


def fractions(value: Any) -> Any:
    """Convert a fill, or a tuple of fills, to [0, 1]; if one is above 1, all are bytes and divided by 255."""
    numbers = value if isinstance(value, tuple) else (value,)
    if not all(map(is_number, numbers)) or max(numbers) <= 1:
        return value
    parts = tuple(number / 255.0 for number in numbers)
    return parts if isinstance(value, tuple) else parts[0]


def mask_fill_of(fill: Any, reader: Reader) -> float | None:
    """Return the fill of masks, from a fill of pictures and masks; None for 0 and for several numbers, which fit no mask."""
    number = fill[0] if isinstance(fill, tuple) and len(fill) == 1 else fill
    cut = int(number) if is_number(number) else 0
    if is_number(number) and cut != number:
        reader.note(f"fill={number}: masks are filled with {cut} here, as those of whole numbers are there")
    return float(cut) if cut else None


def _ends_in(step: Any) -> tuple[int, int] | None:
    """Return the size that a step sets for all pictures, or None."""
    if not isinstance(step, Mapping) or step.get("p", 1) != 1:
        return None
    size = step.get("size", step.get("target_size", (step.get("height"), step.get("width"))))
    size = (size, size) if isinstance(size, int) else size
    two = isinstance(size, list | tuple) and len(size) == 2 and all(isinstance(side, int) for side in size)
    return (size[0], size[1]) if two else None


def gated(made: Made, p: Any) -> Made:
    """Apply several transforms together with a probability."""
    several = (made,) if isinstance(made, Transform) else tuple(made or ())
    if p == 1 or not several:
        return several
    return transforms.Apply(several, p=p)


def pair(value: Any, option: str, *, around: float | None = None) -> tuple[float, float]:
    """Return a range: two numbers, or one number m as (around - m, around + m)."""
    if is_number(value) and around is not None:
        return (around - value, around + value)
    if isinstance(value, tuple) and len(value) == 2 and all(map(is_number, value)):
        return (float(value[0]), float(value[1]))
    raise invalid(option, expected="a range of two numbers", got=repr(value))


def integers(value: Any, option: str, step: int = 1) -> Categorical | float:
    """Return a choice among the whole numbers of a range, all equally likely."""
    low, high = (value, value) if is_number(value) else pair(value, option)
    numbers = tuple(float(n) for n in range(int(low), int(high) + 1, step))
    if not numbers:
        raise invalid(option, expected="a range with whole numbers in it", got=repr(value))
    return numbers[0] if len(numbers) == 1 else Categorical(numbers)
