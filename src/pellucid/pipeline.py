"""The pipeline: a thin module that draws, applies, replays, inverts, saves and loads.

Owns: state (seed, step, learned parameters) and the public calls.
Must not: compute on pixels or decide what is fused.
Read next: ``__init__.py``.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor, nn

from pellucid.apply import ApplyOptions, apply_targets, invert_targets
from pellucid.draw import draw_params, draw_uniforms, params_of
from pellucid.errors import invalid, wrong_type
from pellucid.estimators import LearnedParameters, Site, evaluations, expected_loss, frozen
from pellucid.explain import explain
from pellucid.plan import CANVAS_RULES, Plan, make_plan
from pellucid.random.distributions import Distribution
from pellucid.random.key import Key, default_index, on_device
from pellucid.record import Record
from pellucid.serialize import VERSION, read_file, transforms_from_list, transforms_to_list, write_file
from pellucid.targets import KINDS, Parsed, batch_of, parse
from pellucid.transforms.base import Transform, check_choice, set_runner
from pellucid.types import ImageSpec

__all__ = ["Pipeline"]


_CONTAINERS: dict[str, tuple[type, ...]] = {"targets": (Mapping,), "interpolation": (Mapping,), "passthrough": (list, tuple)}


class Pipeline(nn.Module):
    """Transforms as one differentiable, batched, reproducible step.

    Args:
        transforms: what may happen, in order.
        seed: with the step counter and the sample's index, decides every draw; the global generator is not touched.
        same_on_batch: share every draw across the batch.
        fuse: compose runs of geometry and colour into one resample; off resamples step by step.
        canvas: ``each``: what a crop, a pad or any other step cuts off stays cut off, and what a pad adds stays, as if every step
            were painted; ``image``: a composed run sees the whole of its source, so that fewer corners are empty.
        impl: ``auto``, ``reference``, ``cpu`` or ``triton``; an explicit choice is used or raises.
        dtype: of the images returned; default that of the input (8-bit results are rounded).
        targets: kinds of dict keys that are not named after their kind, such as ``{"left": "image"}``.
        passthrough: keys returned as they are.
        box_format: ``xyxy``, ``xywh``, ``cxcywh`` or ``cxcywhr``.
        min_area, min_visibility: boxes with a smaller visible area (square pixels) or visible fraction become invalid.
        mask_fill: what masks show outside the image.
        interpolation: per kind, such as ``{"mask": "bilinear"}``; masks are nearest, heatmaps and depth bilinear by default.
        return_valid: add ``valid``, the share of every output pixel that shows the image, to dict results.

    Gradient:
        To images, learned ranges and the record's values, as each transform declares. Nothing is done in place.

    Example:
        >>> import torch, pellucid
        >>> augment = pellucid.Pipeline([pellucid.RandomHorizontalFlip(p=1.0)], seed=0)
        >>> augment(torch.tensor([[[[1.0, 2.0, 3.0]]]]))
        tensor([[[[3., 2., 1.]]]])
    """

    _seed: Tensor
    _step: Tensor

    def __init__(
        self,
        transforms: Sequence[Transform],
        *,
        seed: int = 0,
        same_on_batch: bool = False,
        fuse: bool = True,
        canvas: str = "each",
        impl: str = "auto",
        dtype: torch.dtype | None = None,
        targets: Mapping[str, str] | None = None,
        passthrough: Sequence[str] = (),
        box_format: str = "xyxy",
        min_area: float = 0.0,
        min_visibility: float = 0.0,
        mask_fill: float = 0.0,
        interpolation: Mapping[str, str] | None = None,
        return_valid: bool = False,
    ) -> None:
        super().__init__()
        for i, transform in enumerate(transforms):
            if not isinstance(transform, Transform):
                raise wrong_type(
                    f"transforms[{i}]",
                    expected="a Pellucid transform",
                    got=repr(transform),
                    fix="For example RandomAffine(degrees=15).",
                )
        for key, kind in (targets or {}).items():
            check_choice(f"targets[{key!r}]", kind, KINDS)
        check_choice("canvas", canvas, CANVAS_RULES)
        check_choice("impl", impl, ("auto", "reference", "cpu", "triton"))
        check_choice("box_format", box_format, ("xyxy", "xywh", "cxcywh", "cxcywhr"))
        for kind, mode in (interpolation or {}).items():
            check_choice("interpolation", kind, ("mask", "heatmap", "depth"))
            check_choice(f"interpolation[{kind!r}]", mode, ("nearest", "bilinear", "bicubic"))
        Key(seed=seed)
        self.transforms = tuple(transforms)
        self.same_on_batch = same_on_batch
        self.fuse = fuse
        self.canvas = canvas
        self.options = ApplyOptions(
            impl=impl,
            dtype=dtype,
            targets=dict(targets or {}),
            passthrough=tuple(passthrough),
            box_format=box_format,
            min_area=min_area,
            min_visibility=min_visibility,
            mask_fill=mask_fill,
            interpolation={"mask": "nearest", "heatmap": "bilinear", "depth": "bilinear", **(interpolation or {})},
            return_valid=return_valid,
        )
        self.register_buffer("_seed", torch.tensor(seed, dtype=torch.int64))
        self.register_buffer("_step", torch.tensor(0, dtype=torch.int64))
        self.learned = LearnedParameters(self.transforms)
        self._plans: dict[tuple[int, int, int], Plan] = {}

    def forward(self, batch: Any, *, key: Key | None = None, return_record: bool = False) -> Any:
        """Augment a batch.

        Args:
            batch: an image tensor (B, C, H, W), (C, H, W) or a video (B, T, C, H, W), or a dict of targets.
            key: decides the draw; default the pipeline's seed and step, which then advances.
            return_record: also return what was drawn.

        Returns:
            The same structure, augmented; with ``return_record`` a pair (result, record). Dicts gain ``boxes_valid`` and
            ``keypoints_valid``.
        """
        parsed = self._parse(batch)
        if not return_record:  # nobody will look at the drawn values
            return apply_targets(self._draw(parsed, key, unpacked=False), parsed, self.options)
        record = self._draw(parsed, key)
        return apply_targets(record, parsed, self.options), record

    def draw(self, batch: Any, *, key: Key | None = None) -> Record:
        """Draw for a batch without applying; ``apply(batch, record)`` finishes. The safe form under gradient checkpointing."""
        return self._draw(self._parse(batch), key)

    def apply(self, batch: Any, record: Record | None = None) -> Any:
        """Replay a record: on the same images bit for bit, or on other images, targets and devices.

        With a function instead of a batch it is ``nn.Module.apply``, so a pipeline may sit inside a model.
        """
        if record is None:
            if callable(batch) and not isinstance(batch, Tensor):
                return super().apply(batch)
            raise wrong_type(
                "record",
                expected="the Record of an earlier call",
                got="nothing",
                fix="out, record = pipeline(batch, return_record=True).",
            )
        return apply_targets(record, self._parse(batch, record), self.options)

    def inverse(self, batch: Any, record: Record) -> Any:
        """Undo the geometry: images are resampled back, boxes and keypoints mapped back without loss of precision.

        Colours stay as they are, and what the forward pass cut away is filled with zeros. Boxes come back as the hull of their
        mapped corners, so a box that was rotated grows; keypoints come back to rounding.
        """
        return invert_targets(record, self._parse(batch, record, inverse=True), self.options)

    def valid_mask(self, record: Record) -> Tensor:
        """(B, 1, H, W): the share of each output pixel that shows the input image."""
        spec = record.plan.specs[0]
        ones = torch.ones((record.samples, 1, spec.height, spec.width), device=record.device)
        options = ApplyOptions(return_valid=True)
        valid: Tensor = apply_targets(record, parse({"depth": ones}, named={}, passthrough=(), lead=1), options)["valid"]
        return valid

    def explain(self, batch: Any | None = None, *, size: tuple[int, int] = (224, 224), channels: int = 3) -> str:
        """What is fused with what, which implementation runs, and what is drawn, as text."""
        device = "cpu"
        if batch is None:
            spec = ImageSpec(channels, size[0], size[1])
        else:
            parsed = self._parse(batch)
            spec = self._spec(parsed)
            device = parsed.entries[0].tensor.device.type
        return explain(self.plan(spec), impl=self.options.impl, device=device)

    def plan(self, spec: ImageSpec) -> Plan:
        """The plan for one kind of image."""
        if torch.compiler.is_compiling():
            return self._make_plan(spec)
        at = (spec.channels, spec.height, spec.width)
        if at not in self._plans:
            self._plans[at] = self._make_plan(spec)
        return self._plans[at]

    def _make_plan(self, spec: ImageSpec) -> Plan:
        return make_plan(self.transforms, spec, fuse=self.fuse, canvas=self.canvas, same_on_batch=self.same_on_batch)

    def expected(self, loss_fn: Callable[[Any], Tensor], batch: Any, *, key: Key | None = None) -> Tensor:
        """The loss of one draw, with a backward pass that is unbiased for the loss expected over draws.

        This is where the estimators act that need the loss itself: gates (``exact``, ``arm``, ``reinforce``), choices, and ranges
        under ``boundary``. Ranges that are reparameterised learn here as in a plain call.

        Args:
            loss_fn: takes the augmented batch, returns (B,) losses, one per sample. A scalar that mixes the samples is allowed
                where no learned draw is ``exact`` or ``boundary`` (unless the samples share it). It is called
                :meth:`evaluations` times, the first time with gradient and the others without, and must depend on the draw alone:
                a model in training mode whose batch statistics or dropout differ between calls adds variance, or a bias.
            batch: as in the call.
            key: as in the call. Indices must differ for ``reinforce``, whose baseline is the rest of the batch.

        Returns:
            A scalar: the mean loss of the drawn sample.

        Gradient:
            model and images: as of an ordinary draw. learned numbers: unbiased, except through draws whose estimator is
            ``relaxed`` or ``straight_through`` and through declared surrogates.

        Example:
            >>> import torch, pellucid
            >>> augment = pellucid.Pipeline([pellucid.RandomInvert(p=pellucid.Learnable(0.3))])
            >>> loss = augment.expected(lambda out: out.mean((1, 2, 3)), torch.zeros(4, 3, 2, 2))
            >>> loss.backward()  # dE/dp = 1 exactly, times the slope p (1 - p) of the bounded parameter
            >>> round(augment.learned.get_parameter("0_gate_p").grad.item(), 4)
            0.21
        """
        parsed = self._parse(batch)
        plan, seed, step, index = self._at(parsed, key)
        learned = self._raw(parsed)
        u = draw_uniforms(plan, seed, step, index)
        self._advance(key)
        params = params_of(plan, u, learned)
        samples = index.shape[0]

        def evaluate(changed: Mapping[Any, Tensor]) -> Tensor:
            values = tuple(dict(one) for one in params)
            for (transform, name), value in changed.items():
                values[transform][name] = value
            return loss_fn(apply_targets(Record(plan, values, samples, parsed.lead), parsed, self.options))

        return expected_loss(evaluate, _sites(plan, u, learned))

    def evaluations(self) -> int:
        """How often :meth:`expected` evaluates the loss: once with gradient, the rest without."""
        none = torch.zeros(0)
        return evaluations([Site(at, distribution, {}, none) for at, distribution in self.learned.distributions.items()])

    def ranges(self, batch: Any | None = None) -> dict[str, dict[str, Tensor]]:
        """The learned distributions as they are now: ``{"0.degrees": {"low": ..., "high": ...}}``; part of the graph.

        With ``batch``, also those that a module predicts from images: (B,) each.
        """
        return self.learned.ranges(None if batch is None else self._pictures(self._parse(batch)))

    def numbers(self, batch: Any | None = None) -> dict[str, float]:
        """The same as plain numbers for a log: ``{"0.degrees.low": -10.0, ...}``; predicted ones as their mean over the batch."""
        with torch.no_grad():
            ranges = self.ranges(batch)
        return {f"{label}.{name}": float(value.detach().mean()) for label, now in ranges.items() for name, value in now.items()}

    def ranges_text(self, batch: Any | None = None) -> str:
        """The same for people: one line per learned distribution, such as ``0.degrees  low -10  high 10``."""
        lines: dict[str, list[str]] = {}
        for full, value in self.numbers(batch).items():
            label, name = full.rsplit(".", 1)
            lines.setdefault(label, []).append(f"{name} {value:.4g}")
        return "\n".join(f"{label}  {'  '.join(parts)}" for label, parts in lines.items())

    def entropy(self, batch: Any | None = None) -> dict[str, Tensor]:
        """The entropy (nats) of every learned distribution, differentiable: subtract some from a loss to keep draws diverse."""
        return self.learned.entropy(None if batch is None else self._pictures(self._parse(batch)))

    def kl(self, priors: Mapping[str, Distribution], batch: Any | None = None) -> dict[str, Tensor]:
        """KL(learned || prior) in nats, differentiable, for priors by name: ``{"0.degrees": Uniform(-180.0, 180.0)}``."""
        return self.learned.kl(priors, None if batch is None else self._pictures(self._parse(batch)))

    def frozen(self) -> Pipeline:
        """The same pipeline with plain numbers where learned ones are now: nothing trains, everything can be saved to a file."""
        numbers: dict[int, dict[str, dict[str, float]]] = {}
        for label, now in self.learned.ranges().items() if not self.learned.predicts else ():
            index, name = label.split(".", 1)
            numbers.setdefault(int(index), {})[name] = {field: float(value.detach()) for field, value in now.items()}
        transforms = [frozen(transform, numbers.get(index, {})) for index, transform in enumerate(self.transforms)]
        plain = Pipeline(transforms, **self._settings())
        plain.load_state_dict({"_seed": self._seed, "_step": self._step})
        return plain.train(self.training)

    @property
    def step(self) -> int:
        """The step the next draw uses (reads the counter's value)."""
        return int(self._step)

    def _parse(self, batch: Any, record: Record | None = None, *, inverse: bool = False) -> Parsed:
        parsed = parse(
            batch, named=self.options.targets, passthrough=self.options.passthrough, lead=None if record is None else record.lead
        )
        if record is not None:
            record_agrees(parsed, record, inverse=inverse)
        return parsed

    def _spec(self, parsed: Parsed) -> ImageSpec:
        pictures = [entry for entry in parsed.entries if entry.kind not in ("boxes", "keypoints")]
        images = [entry for entry in pictures if entry.kind == "image"] or pictures
        if not images:
            raise invalid(
                "batch",
                expected="at least one image (or another picture, which tells the size)",
                got=[e.key for e in parsed.entries],
            )
        channels = images[0].tensor.shape[-3] if images[0].kind == "image" else 3
        return ImageSpec(channels, images[0].tensor.shape[-2], images[0].tensor.shape[-1])

    def _pictures(self, parsed: Parsed) -> Tensor:
        """What predictors see: the images in floating point, one leading axis more than a sample has."""
        entry = next((entry for entry in parsed.entries if entry.kind == "image"), None)
        if entry is None:
            raise invalid("batch", expected="an image, from which numbers are predicted", got=[e.key for e in parsed.entries])
        image = entry.tensor if parsed.lead else entry.tensor[None]
        return image if image.is_floating_point() else image.to(torch.float32) / 255.0

    def _raw(self, parsed: Parsed) -> dict[tuple[int, str], dict[str, Tensor]]:
        return self.learned.raw(self._pictures(parsed) if self.learned.predicts else None)

    def _draw(self, parsed: Parsed, key: Key | None, *, unpacked: bool = True) -> Record:
        plan, seed, step, index = self._at(parsed, key)
        params = draw_params(plan, seed, step, index, self._raw(parsed))
        self._advance(key)
        return Record(plan, tuple(params) if unpacked else params, index.shape[0], parsed.lead)

    def _at(self, parsed: Parsed, key: Key | None) -> tuple[Plan, Tensor, Tensor, Tensor]:
        """The plan and (seed, step, index) of a call, to draw with before the counter advances (:meth:`_advance`)."""
        plan = self.plan(self._spec(parsed))
        samples, _ = batch_of(parsed)
        device = parsed.entries[0].tensor.device
        if key is None:
            if not torch.compiler.is_compiling() and torch._C._current_graph_task_id() != -1:
                raise RuntimeError(
                    "This pipeline was called again during backward, as gradient checkpointing does, and would draw different "
                    "parameters than in forward: gradients would be silently wrong. Draw outside the checkpoint "
                    "(record = pipeline.draw(batch); checkpoint(pipeline.apply, batch, record)) or pass key=."
                )
            seed, step, index = self._seed, self._step, default_index(samples, device)
        else:
            seed, step = on_device(key.seed, device), on_device(key.step, device)
            index = default_index(samples, device) if key.index is None else key.index.to(device, torch.int64)
            if index.shape[0] != samples:
                raise invalid("Key.index", expected=f"one index per sample, ({samples},)", got=tuple(index.shape))
        return plan, seed, step, index

    def _advance(self, key: Key | None) -> None:
        """Count a draw, unless a key decided it."""
        if key is None:
            self._step.add_(1)

    def to_dict(self) -> dict[str, Any]:
        """The pipeline as plain, versioned data; learned numbers as where they started (see :meth:`frozen`)."""
        settings = self._settings()
        dtype = settings["dtype"]
        settings["dtype"] = None if dtype is None else str(dtype).removeprefix("torch.")
        settings["passthrough"] = list(settings["passthrough"])
        kept = {name: value for name, value in settings.items() if value not in (None, [], {})}
        return {"pellucid": VERSION, **kept, "transforms": transforms_to_list(self.transforms)}

    def _settings(self) -> dict[str, Any]:
        """The constructor's arguments beside the transforms."""
        options = self.options
        return {
            "seed": int(self._seed),
            "same_on_batch": self.same_on_batch,
            "fuse": self.fuse,
            "canvas": self.canvas,
            "impl": options.impl,
            "dtype": options.dtype,
            "targets": options.targets,
            "passthrough": options.passthrough,
            "box_format": options.box_format,
            "min_area": options.min_area,
            "min_visibility": options.min_visibility,
            "mask_fill": options.mask_fill,
            "interpolation": options.interpolation,
            "return_valid": options.return_valid,
        }

    @staticmethod
    def from_dict(spec: Mapping[str, Any]) -> Pipeline:
        """Build the pipeline that :meth:`to_dict` described."""
        if spec.get("pellucid") != VERSION:
            raise invalid(
                "pellucid",
                expected=f"a pipeline of format version {VERSION}",
                got=spec.get("pellucid"),
                fix=f"Write pellucid = {VERSION}.",
            )
        settings = {name: value for name, value in spec.items() if name not in ("pellucid", "transforms")}
        known = Pipeline.__init__.__kwdefaults__ or {}
        for name in settings:
            if name not in known:
                raise invalid(name, expected=f"one of {tuple(known)}", got=repr(name))
            kinds = _CONTAINERS.get(name)
            if kinds and not isinstance(settings[name], kinds):
                raise wrong_type(name, expected=f"a {'table' if Mapping in kinds else 'list'}", got=repr(settings[name]))
        if "dtype" in settings:
            settings["dtype"] = _dtype(settings["dtype"])
        return Pipeline(transforms_from_list(spec.get("transforms", ())), **settings)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write :meth:`to_dict` to a ``.toml`` or ``.json`` file."""
        write_file(path, self.to_dict())

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Pipeline:
        """Read a pipeline from a ``.toml`` or ``.json`` file."""
        return Pipeline.from_dict(read_file(path))

    def extra_repr(self) -> str:
        """One line per transform."""
        return "\n".join(f"({i}): {transform}" for i, transform in enumerate(self.transforms))


def record_agrees(parsed: Parsed, record: Record, *, inverse: bool) -> None:
    """Check that a batch fits the record it is replayed with."""
    samples, _ = batch_of(parsed)
    if parsed.entries and samples != record.samples:
        raise invalid(
            "batch", expected=f"{record.samples} samples, as in the record", got=samples, fix="Slice the record: record[i:j]."
        )
    size = record.size_out if inverse else record.size_in
    for entry in parsed.entries:
        if entry.kind not in ("boxes", "keypoints") and tuple(entry.tensor.shape[-2:]) != size:
            raise invalid(
                f"batch[{entry.key!r}]", expected=f"height and width {size}, as in the record", got=tuple(entry.tensor.shape[-2:])
            )


def _sites(plan: Plan, u: Tensor, learned: Mapping[tuple[int, str], Mapping[str, Tensor]]) -> list[Site]:
    """Every learned draw, with the uniforms it came from."""
    sites = []
    for draw in plan.draws:
        at = (draw.transform, draw.name)
        if at in learned:
            d = draw.distribution
            source = u[:, draw.word : draw.word + d.words] if d.vector else u[:, draw.word]
            raw = {name: tensor.to(u.dtype) for name, tensor in learned[at].items()}
            sites.append(Site(at, d, raw, source, plan.shared[draw.word // 4]))
    return sites


def _dtype(name: str) -> torch.dtype:
    dtype = getattr(torch, str(name), None)
    if not isinstance(dtype, torch.dtype):
        raise invalid("dtype", expected="the name of a torch dtype, such as 'float32'", got=repr(name))
    return dtype


@lru_cache(maxsize=256)
def _solo(transform: Transform) -> Pipeline:
    return Pipeline([transform])


def _run_alone(transform: Transform, batch: Any, **options: Any) -> Any:
    """A transform called on its own: a pipeline of one, kept per value, with its own step counter."""
    pipeline = _solo(transform)
    if pipeline.learned.distributions:
        raise invalid(
            type(transform).__name__,
            expected="numbers in a transform that is called on its own",
            got="a Learnable, whose parameter nobody would hold",
            fix=f"Write pipeline = Pipeline([{type(transform).__name__}(...)]) and call that.",
        )
    return pipeline(batch, **options)


set_runner(_run_alone)
