"""What a transform is: a frozen value that names its draws and lowers to one segment.

Owns: the `Transform` interface, gating by probability, and what each declared type of a constructor argument may hold.
Must not: draw, touch pixels, or keep per-call state.
Read next: ``flip.py``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import Field, fields
from functools import partial
from typing import Any, ClassVar, Literal, get_args

import torch
from torch import Tensor, nn

from pellucid import types
from pellucid.core.arguments import (
    check_choice,
    check_flag,
    finite_number,
    finite_numbers,
    items,
    numbers_of,
    padding_named,
    plain,
)
from pellucid.errors import InvalidArgument, invalid, wrong_type
from pellucid.random.distributions import Bits, Constant, Distribution
from pellucid.random.fields import Chance, Range, Ranges, probability
from pellucid.random.numbers import is_number
from pellucid.segments import Segment, SegmentSpec
from pellucid.types import Fill, ImageSpec, Padding, PaddingMode, Point, RandomNoise, Size

__all__ = [
    "ANY_IMAGE", "Names", "Params", "Transform", "as_padding", "as_size", "as_transforms", "by_options", "check_choice",
    "check_flag", "check_kind", "drawn", "drawn_names", "gated", "gated_matrix", "keep_learned", "moved_by", "ordered",
    "padding_named", "set_runner", "slopes", "undecided",
]  # fmt: skip

Params = Mapping[str, Tensor]
"""Drawn values of one transform, one row per sample."""

Names = Mapping[str, str | tuple[str, ...]]
"""By library: the names that a transform of ours has there, where they differ from ours."""

_MOST_PIXELS = (1 << 24) - 1
"""The most pixels along an axis: coordinates are computed in float32, which counts no further."""

ANY_IMAGE = ImageSpec(3, _MOST_PIXELS, _MOST_PIXELS)
"""The images that `draws` is asked about while there are none yet."""

_DRAWN = "pellucid.drawn"
"""The key of a field's metadata that says how it is drawn."""

_runner: Callable[..., Any] | None = None


def set_runner(runner: Callable[..., Any]) -> None:
    """Tell transforms how to run on their own; called once by the pipeline layer, which they must not import."""
    global _runner
    _runner = runner


class Transform:
    """An interface nobody instantiates; final classes, frozen dataclasses, implement its three methods and declare their gradients.

    ``segment`` and ``draws`` see only shapes, so that planning needs no tensor; ``lower`` turns drawn values into the segment's
    tensors, differentiably, without looking at any value.

    Errors:
        InvalidType or InvalidArgument, where it is made, for fields that hold what their types do not allow.

    Example:
        A gain of its own for each sample:

        >>> from dataclasses import dataclass, field
        >>> import torch, pellucid
        >>> from pellucid.random.fields import Range, factor
        >>> from pellucid.segments import Color, ColorSpec
        >>> from pellucid.transforms.base import drawn
        >>> @dataclass(frozen=True)
        ... class Gain(pellucid.Transform):
        ...     gain: Range = field(default=(0.5, 1.5), metadata=drawn(factor))
        ...     gradients = {"image": "exact", "gain": "exact"}
        ...     def segment(self, spec):
        ...         return ColorSpec()
        ...     def lower(self, values, spec, like):
        ...         return Color(values["gain"][:, None, None] * torch.eye(spec.channels))
        >>> Gain((0.5, 0.5))(torch.ones(1, 3, 1, 1)).flatten()
        tensor([0.5000, 0.5000, 0.5000])
    """

    gradients: ClassVar[Mapping[str, str]] = {"image": "exact"}
    """For the image and each drawn value: ``exact``, ``almost_everywhere``, ``surrogate: <name>`` or ``none``.

    Of this transform on its own. Where an option decides, it is a method under `by_options`.
    """

    like: ClassVar[Names] = {}
    """Other libraries' names for this transform, such as ``{"albumentations": "CLAHE"}``; coverage.md and errors for unknown names
    read them.
    """

    tied: ClassVar[tuple[str, ...]] = ()
    """Drawn values that come from one distribution, and so share its learned numbers."""

    units: ClassVar[Literal["picture", "normalised"] | None] = None
    """The units of the result, where the transform changes them: 1 is white (``picture``), or standardised (``normalised``)."""

    keyed: ClassVar[bool] = False
    """Whether two random words are drawn for each sample as well: the key of a random field."""

    white: ClassVar[bool] = False
    """Whether the transform takes 1 as white; tone curves, and transforms with a ``clip``, need not say so."""

    channels: ClassVar[tuple[int, ...]] = ()
    """The numbers of channels that images may have; empty allows all."""

    absent: ClassVar[Mapping[str, str]] = {}
    """By device, or `narrow` for all without float64: what the transform needs of torch and the device lacks."""

    dimensions: ClassVar[tuple[int, ...]] = (2,)
    """What the transform takes: 2 for pictures, 3 for volumes, whose slices it sees as one picture of many rows."""

    lowers_to: ClassVar[SegmentSpec | None] = None
    """What `segment` returns, where it is the same for all images."""

    _fixed: ClassVar[Mapping[str, Distribution]] = {}  # set on each instance: the distributions of its fields

    def __post_init__(self) -> None:
        """Read every field by its declared type, and its distributions; try `draws` on images so large that every crop fits."""
        found: dict[str, Distribution] = {}
        for field in fields(self):  # type: ignore[arg-type] # every instance is of a dataclass
            name, value = f"{type(self).__name__}.{field.name}", getattr(self, field.name)
            if value is None and field.default is None:
                continue
            read = _reader(field.type)
            if read is not None:
                value = read(name, value)
                object.__setattr__(self, field.name, value)
            how = _drawn_as(field)
            if how is not None:
                distributions = how[0](name, value)
                found |= distributions if isinstance(distributions, dict) else {how[1][0]: distributions}
        # Whether a sample is changed at all comes before how.
        object.__setattr__(self, "_fixed", {name: found[name] for name in sorted(found, key="gate".__ne__)})
        self.check()
        self.draws(ANY_IMAGE)

    def check(self) -> None:
        """Raise for fields that are right by type, but not together or for this transform.

        Example:
            >>> import pellucid
            >>> try:
            ...     pellucid.CutMix(edge=-1.0)
            ... except pellucid.InvalidArgument as error:
            ...     print(error)
            CutMix.edge: expected a number of pixels >= 0, got -1.0.
        """

    def segment(self, spec: ImageSpec) -> SegmentSpec:
        """Return the static description of this transform's segment, for images of one kind.

        Args:
            spec: channels, height, width of the images.

        Errors:
            InvalidArgument for images it cannot handle.

        Example:
            >>> import pellucid
            >>> from pellucid.types import ImageSpec
            >>> pellucid.RandomGaussianBlur(3).segment(ImageSpec(3, 32, 32))
            ConvolveSpec(how='separable')
        """
        self._check_channels(spec)
        if self.lowers_to is None:
            raise NotImplementedError
        return self.lowers_to

    def _check_channels(self, spec: ImageSpec) -> None:
        """Raise for images of a number of channels that is none of ``channels``."""
        if self.channels and spec.channels not in self.channels:
            expected = "3 channels (RGB)" + " or 1" * (1 in self.channels)
            raise invalid(type(self).__name__, expected=expected, got=f"{spec.channels} channels")

    def draws(self, spec: ImageSpec) -> dict[str, Distribution]:
        """Return each sample's distributions, by name, in a fixed order: those of the fields declared with `drawn`.

        It answers for images of any kind, however large; those the transform cannot handle are refused by `segment`. Learned
        distributions are the same for all of them.

        Args:
            spec: channels, height, width of the images.

        Example:
            >>> import pellucid
            >>> from pellucid.types import ImageSpec
            >>> pellucid.RandomInvert(p=0.3).draws(ImageSpec(3, 32, 32))
            {'gate': Bernoulli(p=0.3, temperature=None, estimator='exact')}
        """
        return {**self._fixed, "words": Bits()} if self.keyed else dict(self._fixed)

    many_sizes: ClassVar[bool] = False
    """Whether drawn sizes hardly ever repeat; then no tape is recorded for a size."""

    def decides(self, spec: ImageSpec) -> bool:
        """Return whether a draw decides the size of the result for images of one kind; then `segment` raises, before `settled`.

        Args:
            spec: channels, height, width of the images.

        Example:
            >>> import pellucid
            >>> from pellucid.types import ImageSpec
            >>> turn = pellucid.RandomRotation90()
            >>> turn.decides(ImageSpec(3, 4, 4)), turn.decides(ImageSpec(3, 4, 6))
            (False, True)
        """
        return False

    def settled(self, values: Mapping[str, float]) -> Transform:
        """Return this transform for a sample that drew these values: its size is fixed then, and it has no gate.

        Args:
            values: the drawn values, by name; a gate that is always open is not among them.

        Example:
            >>> import pellucid
            >>> pellucid.RandomRotation90().settled({"times": 3.0}).times
            (3,)
        """
        return self

    def lower(self, values: Params, spec: ImageSpec, like: Tensor) -> Segment:
        """Return the segment's tensors, with a gradient to the drawn values.

        Args:
            values: the drawn values, by name: (B,) or (B, n) each.
            spec: channels, height, width of the images.
            like: a scalar that gives dtype and device to transforms that draw nothing.

        Example:
            >>> import torch, pellucid
            >>> from pellucid.types import ImageSpec
            >>> pellucid.RandomHorizontalFlip().lower({"gate": torch.ones(1)}, ImageSpec(3, 4, 4), torch.zeros(())).src_from_dst
            tensor([[[-1.,  0.,  3.],
                     [ 0.,  1.,  0.],
                     [ 0.,  0.,  1.]]])
        """
        raise NotImplementedError

    def __call__(self, batch: Any = None, **options: Any) -> Any:
        """Run this transform on its own, as a pipeline of one; same arguments as `Pipeline`'s call."""
        if _runner is None:
            raise RuntimeError("Import pellucid (not pellucid.transforms alone) to call a transform on its own.")
        return _runner(self, batch, **options)


def drawn(read: Callable[..., Distribution | dict[str, Distribution]], *names: str, **bounds: float) -> dict[str, Any]:
    """Declare, in ``field(metadata=drawn(...))``, that a field's value is drawn; a `Chance` is the gate without a declaration.

    Args:
        read: from the field's name and value to a distribution, or to several by name; as those of ``pellucid.random.fields``.
        names: of the drawn values, unless there is one under the field's own name.
        bounds: further arguments of ``read``.
    """
    return {_DRAWN: (partial(read, **bounds), names)}


def drawn_names(transform: Transform | type[Transform]) -> tuple[str, ...]:
    """The names of all values that a transform's fields may draw, the gate first."""
    names = [name for field in fields(transform) for name in (_drawn_as(field) or ((), ()))[1]]  # type: ignore[arg-type]
    return tuple(sorted(names, key="gate".__ne__))


def _drawn_as(field: Field[Any]) -> tuple[Callable[..., Distribution | dict[str, Distribution]], tuple[str, ...]] | None:
    """How a field is drawn, and under which names."""
    if _DRAWN in field.metadata:
        read, names = field.metadata[_DRAWN]
        return read, names or (field.name,)
    return (probability, ("gate",)) if _declared(field.type) == "Chance" else None


class by_options:  # noqa: N801 - a decorator
    """Gradients that options decide: read on an instance they are that instance's, on the class those of the default options."""

    def __init__(self, declare: Callable[[Any], Mapping[str, str]]) -> None:
        self._declare = declare

    def __get__(self, instance: Transform | None, owner: type[Transform]) -> Mapping[str, str]:
        return self._declare(owner if instance is None else instance)  # a class holds the defaults of its fields


def slopes(image: str = "almost_everywhere", **others: str) -> by_options:
    """Declare ``almost_everywhere`` for the image and all drawn values, ``none`` for random words, except as ``others`` say."""

    def declare(owner: Transform | type[Transform]) -> Mapping[str, str]:
        drawn = dict.fromkeys(drawn_names(owner), "almost_everywhere") | ({"words": "none"} if owner.keyed else {})
        return {"image": image, **drawn, **others}

    return by_options(declare)


def moved_by(*names: str, interpolation: str) -> dict[str, str]:
    """The gradients of a resample whose map these values decide; nearest sampling jumps, and gets the bilinear warp's slope."""
    kind = "surrogate: bilinear" if interpolation == "nearest" else "almost_everywhere"
    return {"image": "exact", **dict.fromkeys(names, kind)}


def keep_learned(owner: Transform, *names: str) -> None:
    """Turn lone learned numbers into a `Constant`, which a frozen transform may hold where a lone number would raise."""
    for name in names:
        if isinstance(owner._fixed.get(name), Constant) and not is_number(getattr(owner, name)):
            object.__setattr__(owner, name, owner._fixed[name])


def gated(values: Params, value: Tensor, resting: Tensor | float) -> Tensor:
    """The drawn value where the sample's gate is open, the resting value elsewhere; exact at both ends."""
    if "gate" not in values:
        return value
    gate = values["gate"].reshape(-1, *([1] * (value.dim() - 1)))
    return gate * value + (1.0 - gate) * resting


def gated_matrix(values: Params, matrix: Tensor) -> Tensor:
    """The drawn matrix where the sample's gate is open, the identity elsewhere."""
    if "gate" not in values:
        return matrix
    return gated(values, matrix, torch.eye(matrix.shape[-1], dtype=matrix.dtype, device=matrix.device))


def undecided(name: str, spec: ImageSpec, fix: str) -> InvalidArgument:
    """The error of a ``segment`` that is asked for one size, where sizes are drawn for each sample."""
    got = f"sizes that are drawn for each sample, from {spec.height}x{spec.width}"
    return invalid(name, expected="one size for all samples here", got=got, fix=fix)


def as_size(name: str, size: object) -> Size:
    """Read an int as a square, and check (height, width)."""
    parts = _counts(name, size, "an int or (height, width)", lengths=(1, 2), least=1)
    return (parts[0], parts[-1])


def as_padding(name: str, padding: object) -> tuple[int, int, int, int]:
    """Read padding as (left, top, right, bottom)."""
    expected = "an int, (left-right, top-bottom) or (left, top, right, bottom)"
    parts = _counts(name, padding, expected, lengths=(1, 2, 4), least=0, fix="Use a crop to cut pixels off.")
    left, top, right, bottom = parts * (4 // len(parts))
    return left, top, right, bottom


def check_kind(name: str, kind: object) -> None:
    """Check that a class is what transforms are: a frozen dataclass that compares by value."""
    if not (isinstance(kind, type) and issubclass(kind, Transform) and kind is not Transform):
        raise wrong_type(name, expected="a subclass of pellucid.Transform", got=repr(kind))
    settings = getattr(kind, "__dataclass_params__", None)
    if settings is None or not settings.frozen or kind.__hash__ is None:
        fix = "Put @dataclass(frozen=True) directly above the class."
        raise wrong_type(name, expected="a frozen dataclass, whose values can be compared and hashed", got=repr(kind), fix=fix)


def as_transforms(value: object, name: str = "transforms") -> tuple[Transform, ...]:
    """Read the transforms of a pipeline or branch, from anything ordered."""
    given = ordered(name, value, "a list of transforms", "For example [RandomInvert()].")
    # A pipeline in the place of a transform stands for its transforms.
    transforms: tuple[Any, ...] = ()
    for one in given:
        inner = getattr(one, "transforms", None) if isinstance(one, nn.Module) else None
        transforms += inner if isinstance(inner, tuple) else (one,)
    for i, transform in enumerate(transforms):
        if not isinstance(transform, Transform):
            raise wrong_type(
                f"{name}[{i}]",
                expected="a Pellucid transform",
                got=repr(transform),
                fix=f"Call it: {transform.__name__}(...)."
                if isinstance(transform, type)
                else "For example RandomAffine(degrees=15).",
            )
        check_kind(f"{name}[{i}]", type(transform))
    return transforms


def ordered(name: str, value: object, expected: str, fix: str) -> tuple[Any, ...]:
    """Read a sequence or an iterator; raise for text, tables, sets and tensors."""
    if isinstance(value, Transform | str | bytes | Mapping | Set | Tensor) or not isinstance(value, Sequence | Iterator):
        raise wrong_type(name, expected=expected, got=repr(value), fix=fix)
    return tuple(value)


def _counts(name: str, value: object, expected: str, *, lengths: tuple[int, ...], least: int, fix: str = "") -> tuple[int, ...]:
    """Whole numbers: one (length 1), or a sequence of one of the other lengths."""
    read = plain(value)
    parts = read if isinstance(read, tuple) else (read,)
    if not {*map(type, parts)} <= {int} or len(parts) not in lengths or (len(parts) == 1) == isinstance(read, tuple):
        raise wrong_type(name, expected=expected, got=repr(value))
    if min(parts) < least or max(parts) > _MOST_PIXELS:
        raise invalid(name, expected=f"{expected}, from {least} to {_MOST_PIXELS}", got=repr(value), fix=fix)
    return parts


def _fill(name: str, value: object) -> object:
    read = plain(value)
    parts = read if isinstance(read, tuple) else (read,)
    if not parts:
        raise invalid(name, expected="a number, or one per channel", got=repr(value))
    for part in parts:
        finite_number(name, part, "a number, or one per channel")
    return read


def _point(name: str, value: object) -> tuple[float, ...]:
    point = finite_numbers(name, value)
    if len(point) != 2:
        raise invalid(name, expected="two numbers (x, y), in pixels", got=repr(value))
    return point


def _integers(name: str, value: object) -> tuple[int, ...]:
    read = items(name, value, "a sequence of at least one integer")
    if not all(isinstance(n, int) and not isinstance(n, bool) for n in read):
        raise wrong_type(name, expected="a sequence of at least one integer", got=repr(value), fix="For example (0, 2).")
    return read  # type: ignore[return-value]


def _paint(name: str, value: object) -> object:
    return _option(RandomNoise)(name, value) if isinstance(value, str) else _fill(name, value)


def _as_written(check: Callable[[str, object], object]) -> Callable[[str, object], object]:
    """A reader that checks a value and keeps it as written: one number may mean something else than a square."""

    def read(name: str, value: object) -> object:
        check(name, value)
        return plain(value)

    return read


def _drawn(name: str, value: object) -> object:
    """Keep a drawn field's value: the transform's own reader knows its bounds."""
    del name
    return plain(value)


def _option(literal: Any) -> Callable[[str, object], object]:
    def read(name: str, value: object) -> object:
        check_choice(name, value, get_args(literal))
        return str.__str__(value)  # also of enumerations that are text

    return read


def _padding_mode(name: str, value: object) -> object:
    return _option(PaddingMode)(name, padding_named(value))


_OPTIONS = (
    "Interpolation", "ClipRule", "EndClip", "ImageGradient", "Surrogate", "Magnitude", "CodecGradient", "Subsampling", "Pairing",
)  # fmt: skip
_BY_AXIS = (Range | tuple[float, float, float, float] | tuple[Range, Range], _drawn)
_TYPES: Mapping[str, tuple[Any, Callable[[str, object], object]]] = {
    "bool": (bool, check_flag),
    "float": (float, finite_number),
    "PaddingMode": (PaddingMode, _padding_mode),
    "tuple[int, ...]": (tuple[int, ...], _integers),
    "tuple[float, ...]": (tuple[float, ...], numbers_of),
    "Fill": (Fill, _fill),
    "Fill | RandomNoise": (Fill | RandomNoise, _paint),
    "Point": (Point, _point),
    "int | Size": (int | Size, _as_written(as_size)),
    "Padding": (Padding, _as_written(as_padding)),
    "Range": (Range, _drawn),
    "Chance": (Chance, _drawn),
    "Pair": (tuple[Range, Range], _drawn),
    "Ranges": (Ranges, _drawn),
    **dict.fromkeys(("Shear", "Scale"), _BY_AXIS),
    **{name: (getattr(types, name), _option(getattr(types, name))) for name in _OPTIONS},
}
"""By a field's declared type: the type, and the function that reads its value. A transform checks fields of other types itself."""

_WRITTEN = {declared: text for text, (kind, _) in _TYPES.items() for declared in (kind, kind | None)}
"""The text of each type, for modules without deferred annotations, whose fields hold the type itself."""


def _reader(declared: object) -> Callable[[str, object], object] | None:
    return _TYPES.get(_declared(declared), (None, None))[1]


def _declared(declared: object) -> str:
    """The type of a field as the tables have it."""
    text = declared if isinstance(declared, str) else _WRITTEN.get(declared, "")
    return re.sub(r"\b\w+\.(?=\w)", "", text).removesuffix(" | None")  # "types.Fill" is Fill
