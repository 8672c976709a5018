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
from typing import Any, Literal, NamedTuple, get_args

from pellucid import transforms
from pellucid.errors import InvalidArgument, InvalidType, invalid, wrong_type
from pellucid.pipeline import Pipeline
from pellucid.random import Categorical
from pellucid.random.arguments import check_choice, is_number, plain
from pellucid.transforms.base import Transform

__all__ = [
    "NEAR", "TARGETS", "Cannot", "Given", "Imported", "Match", "Missing", "Reader", "Table", "Unknown", "Unread", "Unsupported",
    "arguments_of", "fractions", "gated", "integers", "mask_fill_of", "pair", "whole", "wraps",
]  # fmt: skip

TARGETS = "Targets: "
"""How notes begin that say what becomes of masks, boxes or points in another way, for all to see."""

NEAR = "Nearest: "
"""How notes begin that name what stands in for an operation or an option, and how it differs."""

Match = Literal["nearest", "exact"]

Unknown = Literal["refuse", "wrap"]

ASSUMED = (256, 256)
"""The size of pictures that nobody tells."""

LOST = object()
"""An argument that an object does not keep: reading it is an error, and not its default."""

Made = Transform | Sequence[Transform] | None


@dataclass(frozen=True)
class Unread:
    """An expression of a file that spells out no value."""

    text: str

    def __str__(self) -> str:
        return self.text


class Missing(NamedTuple):
    """An operation that could not be imported.

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
    """Some of a pipeline cannot be imported; `missing` lists all of it."""

    def __init__(self, missing: Sequence[Missing]) -> None:
        self.missing = tuple(missing)
        lines = "\n".join(f"  {one}" for one in self.missing)
        super().__init__(f"{len(self.missing)} of the pipeline's transforms have no equal here:\n{lines}")


class Imported(NamedTuple):
    """A pipeline, and how far it is the other library's.

    Args:
        pipeline: of what could be imported.
        notes: where draws or roundings differ in a way that results hardly show, in words. Those that begin with "Targets:" say
            what becomes of masks, boxes or points in another way, and those that begin with "Nearest:" what stands in for an
            operation or option that is not here; importers that give a pipeline alone warn of both.
        missing: the operations that could not be imported.
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
        """The option's value, with sequences as tuples; of names given as ``"a|b"``, the one that is there, if only as a range."""
        for name in (name for one in option.split("|") for name in (one, f"{one.removesuffix('_limit')}_range")):
            if name in self.options:
                self.unused.discard(name)
                if self.options[name] is LOST:
                    raise Cannot(name, "the object does not keep this argument", "its description as plain data")
                if unread := _unread(self.options[name]):
                    raise Cannot(f"{name}={unread}", "the file does not spell out its value", f"names={{{str(unread)!r}: ...}}")
                return plain(self.options[name])
        return default

    def near(self, option: str, reason: str, nearest: str = "") -> None:
        """What has no equal: a note where the nearest will do, and a refusal otherwise."""
        if self._reader.match == "exact":
            raise Cannot(option, reason, nearest)
        called = f"{self.name}({option})" if option else self.name
        self._reader.note(f"{NEAR}{called}: {reason}" + (f"; taken as {nearest}" if nearest else ""))
        self._reader.noted |= {(self.name, option.partition("=")[0])}

    def rest(self) -> None:
        """Options of an operation that is only near are named where nothing has asked for them."""
        if self.unused:
            self._reader.note(f"{NEAR}{self.name}: {', '.join(sorted(self.unused))} are not read")
            self._reader.noted |= {(self.name, option) for option in self.unused}
            self.unused = set()

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
        """The option's value, one of a few; the first of them where the nearest will do."""
        value = self(option, default)
        if value not in allowed:
            self.near(f"{self.first(option)}={value!r}", reason, nearest)
            value = allowed[0]
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
        match: whether what has no equal is taken as the nearest, or refused.
        near: as `table`, of what is only near.
        size: (height, width) of the pictures, where that is known.
        wraps: the library whose originals are steps where nothing else is; empty for none.
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
        """(height, width) that an option in pixels becomes a fraction of."""
        if self.size is None:
            given.near(option, "it is in pixels, and fractions of the size here, which is not known", f"of {ASSUMED}; say size=")
        return self.size or ASSUMED

    def at_times(self, made: Sequence[Transform], p: Any, given: Given) -> Made:
        """What changes the size with a probability, where a batch keeps one: brought to the next size that is known, either way."""
        if p == 1 or self.match == "exact":
            return gated(made, p)
        known = self.size or self.later
        given.near(f"p={p}", "it changes the size at times", f"a resize to {known} either way" if known else "for certain")
        if known is None:
            return made
        back = transforms.Resize(known, antialias=False)
        return transforms.OneOf(((*made, back), (back,)), weights=(p, 1.0 - p))

    def comes(self, steps: Any) -> None:
        """Look for the first size that a row of steps brings pictures to."""
        self.steps = [_ends_in(step) for step in steps] if isinstance(steps, list | tuple) else []
        self.later = next(filter(None, self.steps), None)

    def follows(self, where: str) -> tuple[int, int] | None:
        """The first size that a step after this one brings pictures to."""
        place = where.partition(".transforms[")[2].partition("]")[0]
        return next(filter(None, self.steps[int(place) + 1 :]), None) if place else None

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
        except (TypeError, ValueError, ArithmeticError, LookupError, AttributeError) as error:  # of odd options, of any kind
            if "transforms" in described and isinstance(error, InvalidArgument | InvalidType):  # a description that is none
                raise
            words = ", ".join(f"{key}={value!r}" for key, value in given.options.items())[:100]
            said = error if isinstance(error, InvalidArgument | InvalidType) else words  # Python's own say nothing of them
            self.missing.append(Missing(where, name, "", f"its options have no meaning here ({said})", ""))
            return ()
        return () if made is None else (made,) if isinstance(made, Transform) else tuple(made)

    def _original(self, given: Given) -> tuple[Transform, ...]:
        """The original as a step."""
        from pellucid.interop.wrapping import wrapped

        found = wrapped(self.wraps, given.name, {key: given(key) for key in given.options})
        if isinstance(found, str):
            raise Cannot("", f"nothing here does what it does, and {found}")
        self.note(f"{NEAR}{given.name}: the original of {self.wraps}, on pictures alone, with its own draws and no gradient")
        return (found,)

    def each(self, described: Any, where: str) -> list[tuple[Transform, ...]]:
        """Ours for each of several."""
        if not isinstance(described, list | tuple):
            raise wrong_type(where, expected="a list of transforms", got=repr(described))
        return [self.one(one, f"{where}[{i}]") for i, one in enumerate(described)]

    def _sorted(self, steps: tuple[Transform, ...]) -> tuple[Transform, ...]:
        """What draws by the boxes or masks of the batch stands first."""
        first = tuple(one for one in steps if type(one).__name__ in ("RandomIoUCrop", "RandomBoxSafeCrop", "RandomMaskCrop"))
        rest = tuple(one for one in steps if one not in first)
        if first and (*first, *rest) != steps:
            self.note(f"{NEAR}{type(first[0]).__name__}: it draws by the boxes or masks of the batch; taken before all else")
        return (*first, *rest)

    def imported(self, described: Any) -> Imported:
        """A whole pipeline."""
        steps = self._sorted(self.one(described, "pipeline"))
        return Imported(Pipeline(steps, **self.settings), tuple(self.notes), tuple(self.missing), self.count)


def wraps(unknown: str, library: str) -> str:
    """The library whose originals are steps, by the word that callers say."""
    check_choice("unknown", unknown, get_args(Unknown))
    return library if unknown == "wrap" else ""


def whole(imported: Imported) -> Pipeline:
    """The pipeline, or the list of what it lacks; a warning says what is only near, and what becomes of targets in another way."""
    if imported.missing:
        raise Unsupported(imported.missing)
    for note in imported.notes:
        if note.startswith(TARGETS):
            warnings.warn(note, UserWarning, stacklevel=3)
    if near := [note for note in imported.notes if note.startswith(NEAR)]:
        warnings.warn("\n".join([*near, "match='exact' refuses these."]), UserWarning, stacklevel=3)
    return imported.pipeline


def _unread(value: Any) -> Unread | None:
    """The first part of a value that a file does not spell out; transforms look after themselves."""
    if isinstance(value, Unread):
        return value
    parts = (
        value.values() if isinstance(value, Mapping) and "name" not in value else value if isinstance(value, list | tuple) else ()
    )
    return next(filter(None, map(_unread, parts)), None) if not any(isinstance(one, Mapping) for one in parts) else None


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


def _ends_in(step: Any) -> tuple[int, int] | None:
    """The size that a resize or crop brings pictures to for certain."""
    if not isinstance(step, Mapping) or step.get("p", 1) != 1:
        return None
    size = step.get("size", step.get("target_size", (step.get("height"), step.get("width"))))
    size = (size, size) if isinstance(size, int) else size
    two = isinstance(size, list | tuple) and len(size) == 2 and all(isinstance(side, int) for side in size)
    return (size[0], size[1]) if two else None


def gated(made: Made, p: Any) -> Made:
    """All of several transforms with a probability."""
    several = (made,) if isinstance(made, Transform) else tuple(made or ())
    if p == 1 or not several:
        return several
    return transforms.Apply(several, p=p)


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
