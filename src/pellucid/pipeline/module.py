"""The pipeline: a thin module that draws, applies, replays, inverts, saves and loads.

Owns: state (seed, step, learned parameters) and the public calls.
Must not: compute on pixels or decide what is fused.
Read next: ``transform_calls.py``.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from pellucid.core.arguments import whole_number
from pellucid.core.compilers import numba_works
from pellucid.core.compilers.ahead import compiled_ahead
from pellucid.core.constants import pinned
from pellucid.core.formerly import formerly
from pellucid.engine.drawing import draw_params
from pellucid.engine.plan import Plan, Plans
from pellucid.errors import invalid, wrong_type
from pellucid.pipeline.applying import apply_targets, invert_targets, targets_seen
from pellucid.pipeline.blocks import blocks
from pellucid.pipeline.estimators import LearnedParameters, LossesSeen, Site, evaluations, expected_loss, frozen_tree, sites_of
from pellucid.pipeline.explanation import explain, lacking
from pellucid.pipeline.figures import show
from pellucid.pipeline.first_look import Look
from pellucid.pipeline.graphs import to_onnx
from pellucid.pipeline.notebook import pipeline_html
from pellucid.pipeline.ragged import (
    RaggedRecord,
    apply_lists,
    draw_lists,
    forward_lists,
    invert_lists,
    is_ragged,
    key_of_list,
    valid_masks,
)
from pellucid.pipeline.recipes import DictRecipe, Recipe, Recipes, SettledRecipes, any_shared, kind_of_call
from pellucid.pipeline.records import Record, read_record, record_agrees, record_is_of
from pellucid.pipeline.scenes import Scene, settings_of
from pellucid.pipeline.serialization import (
    VERSION,
    read_file,
    settings_from_dict,
    transforms_from_list,
    transforms_to_list,
    write_file,
)
from pellucid.pipeline.settling import decides, settle_each
from pellucid.pipeline.stickers import check_nothing_over, read_sticker
from pellucid.pipeline.trials import Trial
from pellucid.pipeline.view_draws import View, draw_several, steps_named
from pellucid.pipeline.worst_draws import worst_draw
from pellucid.random.distributions import Distribution
from pellucid.random.key import Key, default_index, key_for
from pellucid.random.stream import claim, own_seed
from pellucid.targets.kinds import IMAGE, IMAGES, VOLUME
from pellucid.targets.options import Options, check_no_scale, dtype_named, named_targets, told
from pellucid.targets.parsing import Parsed, batch_of, parse
from pellucid.transforms.base import Transform, as_size, as_transforms, check_flag
from pellucid.transforms.choices import places_of, steps_of
from pellucid.types import ImageSpec

__all__ = ["Pipeline"]

_BESIDE = 0x5851F42D4C957F2D
"""XORed with the seed, it gives an independent draw, the baseline of `expected` under ``reinforce``."""


class Pipeline(nn.Module):
    """Transforms as one differentiable, batched, reproducible step.

    Args:
        transforms: the steps, in order; a pipeline among them stands for its transforms.
        seed: with the step counter and the sample's index, decides every draw: equal pipelines with one seed draw the same. None
            (default): a stream of its own, whose seed comes from torch's, so ``torch.manual_seed`` at the start makes a run
            repeatable; the global generator is never advanced. Ranks, and workers of a ``DataLoader``, draw different values.
        same_on_batch: share every draw across the batch.
        fuse: compose runs of geometry and colour into one resample; off resamples step by step.
        canvas: ``each``: what a step cuts off stays cut off, and what a pad adds stays, as if each step rendered its own picture;
            ``image``: a composed run sees the whole of its source, so that fewer corners are empty.
        impl: ``auto``, ``reference``, ``cpu`` or ``triton``; an explicit choice is used or raises.
        out: the form of the result: ``tensor``; ``same`` for the form of the input: an array (H, W, C), a PIL image or lists of
            rows; ``numpy`` for arrays of everything. Arrays have no gradient.
        like: ``albumentations`` for the results of its ``Compose``: ``augment(image=array, mask=, masks=, bboxes=, keypoints=,
            class_labels=)`` gives arrays of the same layout and dtype, without rows that left the picture and their labels. It
            sets the defaults ``out="same"``, ``drop_invalid=True`` and ``targets={"masks": "mask"}``.
        dtype: of the images returned, floating or uint8; default that of the input (8-bit results are rounded), but float32 for
            images of bytes or 16 bits that end up normalised. Images of uint16 and int16 are computed in float32, with 65535 or
            32767 as 1.0, and rounded once.
        targets: kinds of dict keys that are not named after their kind, such as ``{"left": "image"}``.
        passthrough: keys that are returned unchanged.
        box_format: ``xyxy`` (or ``pascal_voc``), ``xywh`` (``coco``), ``cxcywh`` or ``cxcywhr`` (radians), in pixels; or in
            fractions of the picture's size ``yolo`` (cxcywh) or ``albumentations`` (xyxy). A dict such as
            ``{"boxes_ship": "cxcywhr"}`` sets it by key; other keys are ``xyxy``.
            torchvision's boxes carry their format, and their degrees stay degrees.
        channels_last: images are tensors (H, W, C), (B, H, W, C) or (B, T, H, W, C), and results have the same layout; masks and
            heatmaps keep channels first. By default channels come first, and shapes that look like channels last raise (except
            for shapes such as (64, 4, 4), which can be a feature map); False accepts any shape.
        min_area, min_visibility, min_size: boxes with a smaller visible area (square pixels), visible fraction (0 to 1) or visible
            side (pixels, or (height, width)) become invalid.
        mask_fill: the masks' value outside the image; a number that the masks' dtype holds.
        interpolation: per kind, such as ``{"mask": "bilinear"}``; masks are nearest, heatmaps and depth bilinear by default.
            ``{"labelmap": "majority"}``: each label's share is interpolated linearly, and the label with the largest share wins;
            where a ``Resize3`` shrinks, of all labels that a voxel covers.
        pairs: by key, pairs of indices of keypoints, or of a heatmap's or mask's channels, that are left and right of the same
            thing, such as ``{"keypoints": [(1, 2), (3, 4)]}``: they are swapped in every sample whose map mirrors.
        return_valid: add ``valid``, the share of every output pixel that shows the image, to dict results.
        pad_targets: boxes and keypoints of a list of pictures come back as one batch, padded with zeros, which ``boxes_valid`` and
            ``keypoints_valid`` mark as False; off, they come back as lists.
        drop_invalid: drop boxes and keypoints that are no longer valid, with their rows of ``labels``, ``iscrowd`` and ``masks``
            (boxes) or of ``keypoint_labels`` (keypoints); for one picture or a list. By default they stay and are flagged, so that
            batches keep their shapes.
        share: which pictures of a sample share draws, such as ``{"colour": ["left", "right"]}``; other draws are made for each
            picture by its name, and pictures may differ in size. ``geometry`` names all transforms that move points, ``colour``
            all others, and a part of a class's name names those transforms. A list of lists makes several groups. Records are
            dicts then, with a `Record` for each picture. Without ``share``, the pictures of a sample have one size and one draw.
        only: with ``share``, the pictures to which some transforms apply, named as in ``share`` or by place:
            ``{"geometry": ["left", "right"], 3: ["wrist"]}``. Other pictures skip these; their other draws stay the same.
        of: with ``share``, the pictures that targets belong to, such as ``{"boxes": "left"}``; by default the picture in their key,
            as in ``boxes_left``, or else ``image``, or the only one. Flow and disparity from one picture to another name both,
            ``{"flow": ("left", "right")}``; ``flow_valid`` then marks the points that both pictures show.
        per_frame: transforms that draw anew for each frame of a clip, by a part of their class's name, such as ``("noise",)``.
            Other draws are the same in all frames of a clip, or change as `Smooth` says.
        cameras: where a picture's rotation goes. ``matrix``: into the camera's matrix. ``pose``: the matrix stays upper triangular,
            and ``extrinsics``, ``lens``, ``boxes3d``, ``rays``, ``pointmap`` and ``normals`` turn. ``residual``: as ``matrix``, and
            displacement fields, which raise otherwise, add ``residual`` (B, 2, H, W): from each pixel to where the matrix puts the
            point that it shows.

    Gradient:
        To images, learned ranges and the record's values, as each transform declares. Nothing is done in place.

    Errors:
        InvalidArgument or InvalidType for an option outside of its range, InvalidType for anything but a transform.

    Example:
        >>> augment = pellucid.Pipeline([pellucid.RandomHorizontalFlip(p=1.0)], seed=0)
        >>> augment(torch.tensor([[[[1.0, 2.0, 3.0]]]]))
        tensor([[[[3., 2., 1.]]]])
        >>> augment.fuse, augment.canvas, augment.same_on_batch
        (True, 'each', False)
    """

    _seed: Tensor
    _step: Tensor

    same_on_batch = property(lambda self: self.options.same_on_batch, doc="Whether every draw is shared across the batch.")
    fuse = property(lambda self: self.options.fuse, doc="Whether runs are composed into one resample.")
    canvas = property(lambda self: self.options.canvas, doc="The part of its source that a run sees: ``each`` or ``image``.")
    blocks, show, _repr_html_, to_onnx = blocks, show, pipeline_html, to_onnx

    @formerly()
    def __init__(
        self,
        transforms: Sequence[Transform],
        *,
        seed: int | None = None,
        same_on_batch: bool = False,
        fuse: bool = True,
        canvas: str = "each",
        impl: str = "auto",
        out: str | None = None,
        like: str | None = None,
        dtype: torch.dtype | None = None,
        targets: Mapping[str, str] | None = None,
        passthrough: Sequence[str] = (),
        box_format: str | Mapping[str, str] = "xyxy",
        channels_last: bool | None = None,
        min_area: float = 0.0,
        min_visibility: float = 0.0,
        min_size: float | Sequence[float] = 0.0,
        mask_fill: float = 0.0,
        interpolation: Mapping[str, str] | None = None,
        pairs: Mapping[str, Sequence[tuple[int, int]]] | None = None,
        return_valid: bool = False,
        pad_targets: bool = True,
        drop_invalid: bool | None = None,
        share: Mapping[str, Sequence[str] | Sequence[Sequence[str]]] | None = None,
        only: Mapping[str | int, Sequence[str]] | None = None,
        of: Mapping[str, str | Sequence[str]] | None = None,
        per_frame: Sequence[str] = (),
        cameras: str = "matrix",
    ) -> None:
        given = told(like, {name: value for name, value in locals().items() if name in Options.__dataclass_fields__})
        super().__init__()
        self.transforms = as_transforms(transforms)
        self.steps = steps_of(self.transforms)
        Key(seed=0 if seed is None else seed)
        if any(step.transform.dimensions == (3,) for step in self.steps):  # then the batch's images are volumes
            given["targets"] = {"image": VOLUME.name, **given["targets"]}
        self.options = Options(**given)
        self._named = seed is not None
        with torch.inference_mode(False):  # tensors made in inference mode cannot be changed or trained outside of it
            self.register_buffer("_seed", torch.tensor(own_seed() if seed is None else seed, dtype=torch.int64, device="cpu"))
            self.register_buffer("_step", torch.tensor(0, dtype=torch.int64, device="cpu"))
            self.learned = LearnedParameters(self.steps)
        self._losses = LossesSeen()
        options = {"fuse": self.fuse, "canvas": self.canvas, "same_on_batch": self.same_on_batch}
        self._plans = Plans(self.transforms, **options, per_frame=steps_named(self.transforms, per_frame, option="per_frame"))
        self._look, self._recipes = Look(), Recipes()
        self._settles = any(type(one).decides is not Transform.decides for one in self.transforms)
        self._scene = Scene(self) if self.options.share else None

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        """Copy the step: the stream counts in place, and a state that is kept in memory must not change with it."""
        super()._save_to_state_dict(destination, prefix, keep_vars)
        if not keep_vars:
            destination[f"{prefix}_step"] = destination[f"{prefix}_step"].clone()

    @pinned
    def forward(
        self,
        batch: Any = None,
        *others: Any,
        key: Key | None = None,
        return_record: bool = False,
        gradient_scale: Any = 0.0,
        **targets: Any,
    ) -> Any:
        """Augment a batch, in evaluation mode as in training mode.

        Args:
            batch: an image tensor (B, C, H, W), (C, H, W) or a video (B, T, C, H, W); an array (H, W, C) or a PIL image; a list of
                pictures of any sizes; or a dict of targets, all of them batches or all of them lists. The targets may be a dict
                of their own, under ``target`` or as (image, target); a target of class numbers is returned unchanged.
            others: not accepted: there is one positional argument.
            key: decides the draw; default the pipeline's seed and step, which then advances.
            return_record: also return the record of the draw.
            gradient_scale: in pixels, from 0 to 16, a number or a tensor () or (B,): gradients to drawn values are computed from
                images blurred by a Gaussian of this standard deviation (a declared surrogate, which reaches further); results stay
                sharp.
            targets: the entries of a dict by name, instead of a batch: ``augment(image=image, bboxes=boxes)``.

        Returns:
            The same structure, augmented; with ``return_record`` a pair (result, record). Dicts gain ``boxes_valid`` and
            ``keypoints_valid``. Lists of pictures come back as one batch (B, C, H, W) if the transforms end in the same size for
            all inputs, else as lists; each sample equals the result of a call with it alone under the same key.

        Errors:
            InvalidType or InvalidArgument for any other batch, for targets that do not fit the images, for a key with another
            number of indices than samples, and for images that a transform cannot take.
        """
        if others:
            got = ", ".join(type(one).__name__ for one in (batch, *others))
            fix = "Pass targets by name, augment(image=image, mask=mask), or as a dict."
            raise wrong_type("batch", expected="one value by place", got=got, fix=fix)
        if targets:
            batch = named_targets(batch, targets, self.options)
        if return_record is not False:
            check_flag("return_record", return_record)
        if self._scene is not None:
            return self._scene.forward(batch, key, return_record, gradient_scale)
        kind = kind_of_call(batch, return_record) if gradient_scale.__class__ is float and gradient_scale == 0.0 else None
        recipe = None if kind is None else self._recipes.get(kind)
        if recipe.__class__ is SettledRecipes:
            recipe, key = recipe.chosen(self._buffers, key)
        if recipe is not None:
            drawn, out = recipe(batch, self._buffers, key)
            return (out, Record(recipe.plan, tuple(drawn), recipe.samples, recipe.lead)) if return_record else out
        parsed, key = self._apart(batch, key)
        self.learned.hint()
        if parsed is None:
            check_no_scale(gradient_scale)
            return forward_lists(self, batch, key, return_record, kind)
        record = self._draw(parsed, key, unpacked=return_record)  # without the record, the drawn values may not be needed
        out = apply_targets(record, parsed, self.options, gradient_scale)
        if kind is not None and not self.learned.distributions and self._look.saw(parsed):
            spec = self._spec(parsed) if self._decides(parsed) else None
            if spec is None or record.samples == 1:
                kept = (Recipe if parsed.form.bare else DictRecipe).of(record.plan, parsed, self.options)
                settled = None if spec is None else SettledRecipes(self.transforms, spec, self.options, self._plans.streams)
                self._recipes.keep(kind, kept, settled)
        return (out, record) if return_record else out

    @pinned
    def draw(self, batch: Any, *, key: Key | None = None) -> Any:
        """Draw for a batch without applying; ``apply(batch, record)`` finishes. The safe form under gradient checkpointing.

        Args:
            batch: as in the call.
            key: as in the call.

        Returns:
            A `Record`, or a `RaggedRecord` for a list of pictures.

        Gradient:
            batch: none, because only its sizes are read. The record's values have a gradient to learned numbers.

        Errors:
            As the call.

        Example:
            >>> augment = pellucid.Pipeline([pellucid.RandomHorizontalFlip()], seed=0)
            >>> record = augment.draw(torch.zeros(4, 3, 8, 8))
            >>> record.params[0]["gate"].shape
            torch.Size([4])
        """
        if self._scene is not None:
            return self._scene.draw(batch, key)
        parsed, key = self._apart(batch, key)
        return draw_lists(self, batch, key) if parsed is None else self._draw(parsed, key)

    def warmup(self, batch: Any, *, gradients: bool = True) -> int:
        """Compile the kernels that batches like this one need, and keep them on disk, for example before a ``DataLoader`` starts.

        It calls the pipeline a few times, so that gates and choices have most likely been open and closed. The stream of draws
        does not advance, and the batch stays unchanged.

        Args:
            batch: as in the call, with the dtype, channels and targets of later batches; its size may be small.
            gradients: compile the backward pass to floating-point images, too.

        Returns:
            The number of kernels that were compiled; 0 if all had been compiled before.

        Errors:
            As the call.

        Example:
            >>> augment = pellucid.Pipeline([pellucid.RandomHorizontalFlip()], seed=0)
            >>> _ = augment.warmup(torch.zeros(1, 3, 8, 8))
            >>> augment.warmup(torch.zeros(1, 3, 8, 8)), augment.step
            (0, 0)
        """
        check_flag("gradients", gradients)
        if not numba_works():
            return 0
        learned = tuple(self.learned.parameters())
        return compiled_ahead(lambda one, step: self(one, key=Key(0, step=step)), batch, learned=learned, gradients=gradients)

    def views(self, batch: Any, n: int = 2, *, same: Sequence[str | type | int] = (), key: Key | None = None) -> tuple[View, ...]:
        """Return several views of one batch, each with its record: ``(x, a), (y, b) = pipeline.views(images)``.

        Args:
            batch: as in the call.
            n: the number of views; the first is the result of a call with this key.
            same: transforms that draw once for all views: places, classes, or parts of the names of classes, such as ``"crop"``.
            key: as in the call; by default all views take one step of the stream.

        ``a.map_to(b)`` is then the map from one view's pixels to the other's.

        Returns:
            n pairs (result, record), each result as a call would give it.

        Errors:
            InvalidArgument for n below 1, and for a name in ``same`` that no transform has.

        Example:
            >>> augment = pellucid.Pipeline([pellucid.RandomCrop(4), pellucid.RandomHorizontalFlip()], seed=0)
            >>> (x, a), (y, b) = augment.views(torch.rand(8, 3, 6, 6), same=("crop",))
            >>> torch.equal(a.params[0]["left"], b.params[0]["left"]), torch.equal(a.params[1]["gate"], b.params[1]["gate"])
            (True, False)
        """
        n, shared = whole_number("n", n, 1, 1 << 16), steps_named(self.transforms, same)
        if self._scene is not None or self._is_ragged(batch):
            return Trial(self, batch, key).views(n, shared)
        parsed = parse(batch, self.options)
        at = self._at(parsed, key)
        records = draw_several(n, shared, parsed.lead, *at, self._raw(parsed, at[0]))
        return tuple(View(apply_targets(record, parsed, self.options), record) for record in records)

    @pinned
    def apply(
        self,
        batch: Any,
        record: Record | RaggedRecord | Mapping[str, Any] | None = None,
        *,
        gradient_scale: Any = 0.0,
        over: tuple[Tensor, Tensor] | None = None,
    ) -> Any:
        """Replay a record: on the same images bit for bit, or on other images, targets and devices.

        With a function instead of a batch this is ``nn.Module.apply``, so a pipeline may be part of a model.

        Args:
            batch: as in the call, of size ``size_in``, with the record's number of samples, or any number if that is 1.
            record: of an earlier call, of :meth:`draw`, or made from one.
            gradient_scale: as in the call.
            over: (picture, maps): a picture over floating-point images, (C, H, W) or one for each, and the maps from the images'
                pixels to its own, (B, 3, 3). If the pipeline begins with a warp, that resamples both once, and antialiases the
                picture. If it begins with another pass, with a displacement field, or with a warp that repeats images at their
                borders, the picture is pasted first.

        Returns:
            The structure of the batch, augmented.

        Gradient:
            batch, record.params, over: as each transform declares.

        Errors:
            InvalidType for anything but a record; InvalidArgument for a record of other transforms (an empty pipeline takes any
            record), for sizes or numbers of samples that differ from the record's, and for an ``over`` that does not fit.

        Example:
            >>> augment, images = pellucid.Pipeline([pellucid.RandomAffine(degrees=15)], seed=0), torch.rand(2, 3, 8, 8)
            >>> out, record = augment(images, return_record=True)
            >>> torch.equal(augment.apply(images, record), out)
            True
        """
        if record is None and callable(batch) and not isinstance(batch, Tensor):
            return super().apply(batch)
        if self._scene is not None and isinstance(record, Mapping):
            check_nothing_over(over)
            return self._scene.replayed(batch, record, lambda one, part, own: one.apply(part, own, gradient_scale=gradient_scale))
        if isinstance(record, RaggedRecord):
            check_no_scale(gradient_scale)
            check_nothing_over(over)
            return apply_lists(self, batch, record)
        record = read_record(record)
        record_is_of(record.plan, self.transforms)
        parsed = self._parse(batch, record)
        images = [entry.tensor for entry in parsed.entries if entry.kind is IMAGE]
        return apply_targets(record, parsed, self.options, gradient_scale, None if over is None else read_sticker(over, images))

    @pinned
    def inverse(self, batch: Any, record: Record | RaggedRecord | Mapping[str, Any], *, return_valid: bool = False) -> Any:
        """Undo the geometry: images are resampled back, boxes and keypoints mapped back without loss of precision.

        Colours stay unchanged, and parts that the forward pass cut off are zeros. Boxes come back as the hull of their mapped
        corners, so a box that was rotated grows; keypoints come back up to rounding.

        Args:
            batch: the result of a call, or other targets of its size, such as predictions.
            record: of that call.
            return_valid: also return the share of each pixel that comes from the batch, (B, 1, H, W): as ``valid`` in dicts, else
                as the second of a pair. Not for lists of pictures.

        Returns:
            The structure of the batch, in the size of the call's input.

        Gradient:
            batch, record.params: as of a resample.

        Errors:
            InvalidType for anything but a record; InvalidArgument for a record of other transforms, for sizes that differ from the
            record's, and for samples that were mixed.

        Example:
            >>> augment, images = pellucid.Pipeline([pellucid.RandomHorizontalFlip(p=1.0)]), torch.rand(2, 3, 8, 8)
            >>> out, record = augment(images, return_record=True)
            >>> torch.equal(augment.inverse(out, record), images)
            True
        """
        check_flag("return_valid", return_valid)
        if self._scene is not None and isinstance(record, Mapping):
            return self._scene.replayed(
                batch, record, lambda one, part, own: one.inverse(part, own, return_valid=return_valid), inverse=True
            )
        if isinstance(record, RaggedRecord):
            if return_valid:
                raise invalid("return_valid", expected="False for a list of pictures", got=True, fix="Call with one at a time.")
            return invert_lists(self, batch, record)
        record = read_record(record)
        record_is_of(record.plan, self.transforms)
        return invert_targets(record, self._parse(batch, record, inverse=True), self.options, return_valid=return_valid)

    @pinned
    def valid_mask(self, record: Record | RaggedRecord | Mapping[str, Any]) -> Any:
        """Return the share of each output pixel that shows the input image.

        Args:
            record: of a call.

        Returns:
            (B, 1, H, W) in [0, 1], float32; for the record of a list, one (1, H, W) for each picture; a dict for a dict.

        Gradient:
            record.params: as each transform declares.

        Errors:
            InvalidType for anything but a record.

        Example:
            >>> augment = pellucid.Pipeline([pellucid.Pad(1)])
            >>> augment.valid_mask(augment.draw(torch.zeros(1, 3, 2, 2)))[0, 0, 1]
            tensor([0., 1., 1., 0.])
        """
        if self._scene is not None and isinstance(record, Mapping):
            return {name: self._scene.of(name).valid_mask(one) for name, one in record.items()}
        if isinstance(record, RaggedRecord):
            return valid_masks(record, self.valid_mask)
        record = read_record(record)
        record._check_still()
        spec = record.plan.specs[0]
        ones = torch.ones((record.samples, 1, spec.height, spec.width), device=record.device)
        options = Options(return_valid=True)
        valid: Tensor = apply_targets(record, parse({"depth": ones}, options, lead=1), options)["valid"]
        return valid

    def explain(self, batch: Any | None = None, *, size: tuple[int, ...] = (224, 224), channels: int = 3) -> str:
        """Return the plan as text: which transforms fuse, which implementation runs, and which values are drawn.

        Args:
            batch: images to explain the plan for; the other arguments are then ignored.
            size: (height, width) of the images, a number for squares, or (depth, height, width) of volumes.
            channels: their number of channels.

        Errors:
            InvalidType or InvalidArgument for a wrong size or number of channels, and for images that a transform cannot take.

        Example:
            >>> print(pellucid.Pipeline([pellucid.RandomAffine(degrees=15), pellucid.RandomInvert()]).explain().splitlines()[0])
            Warp[0] + Color[1]
        """
        device = "cpu"
        if batch is None:
            if not isinstance(channels, int) or isinstance(channels, bool) or channels < 1:
                raise wrong_type("channels", expected="a number of channels, an integer >= 1", got=repr(channels))
            deep = isinstance(size, tuple) and len(size) == 3
            flat = next((type(one).__name__ for one in self.transforms if deep and 3 not in one.dimensions), None)
            if flat is not None:
                raise invalid("size", expected=f"(height, width), as {flat} takes pictures alone", got=size)
            extent = tuple(whole_number("size", length, 1, 1 << 24) for length in size) if deep else as_size("size", size)
            spec = ImageSpec.of(channels, extent)
        elif self._scene is not None:
            return self._scene.explain(batch)
        else:
            parsed = self._parse(batch)
            spec = self._spec(parsed)
            device = parsed.entries[0].tensor.device.type
        return explain(self.plan(spec), impl=self.options.impl, device=device)

    def plan(self, spec: ImageSpec) -> Plan:
        """Return the plan for one kind of image: which transforms fuse; hashable and without tensors.

        Args:
            spec: channels, height, width.

        Errors:
            InvalidArgument for images that a transform cannot take.

        Example:
            >>> from pellucid.types import ImageSpec
            >>> print(pellucid.Pipeline([pellucid.RandomAffine(degrees=15), pellucid.RandomInvert()]).plan(ImageSpec(3, 32, 32)))
            Warp[0] + Color[1]
        """
        return self._plans.of(spec)

    def expected(self, loss_fn: Callable[[Any], Tensor], batch: Any, *, key: Key | None = None) -> Tensor:
        """Return the loss of one draw, with a backward pass that is unbiased for the expected loss over draws.

        Estimators that need the loss itself work here: those of gates (``exact``, ``arm``, ``reinforce``), of choices, and of
        ranges under ``boundary``. Reparameterised ranges learn here as in a plain call.

        Args:
            loss_fn: takes the augmented batch, returns (B,) losses, one per sample. A scalar that mixes the samples is allowed
                if no learned draw is ``exact`` or ``boundary`` (unless the samples share it); (B,) losses that mix samples
                raise. It is called :meth:`evaluations` times (once more under ``reinforce`` if a scalar, a shared draw or a
                single sample leaves no other samples as a baseline), the first time with gradient and then without. It must
                depend on the draw alone: dropout adds variance, and batch statistics of a model in training mode mix the
                samples.
            batch: as in the call.
            key: as in the call. Indices must differ for ``reinforce``, whose baseline is the rest of the batch.

        Returns:
            A scalar: the mean loss of the drawn sample.

        Gradient:
            model and images: as of an ordinary draw. learned numbers: unbiased, except through draws whose estimator is
            ``relaxed`` or ``straight_through`` and through declared surrogates.

        Errors:
            InvalidArgument if the losses of some samples change with the draws of others, and an estimator needs one loss per
            sample. The first call with a loss tests this with two further evaluations, without gradient, from a fixed state of
            torch's generator (which is restored); a compiled call does not.

        Example:
            >>> augment = pellucid.Pipeline([pellucid.RandomInvert(p=pellucid.Learnable(0.3))])
            >>> loss = augment.expected(lambda out: out.mean((1, 2, 3)), torch.zeros(4, 3, 2, 2))
            >>> loss.backward()  # dE/dp = 1 exactly, times the slope p (1 - p) of the bounded parameter
            >>> round(augment.learned.get_parameter("0_gate_p").grad.item(), 4)
            0.21
        """
        if not callable(loss_fn):
            raise wrong_type("loss_fn", expected="a function of the augmented batch to (B,) losses", got=repr(loss_fn))
        trial = Trial(self, batch, key)
        u = trial.uniforms()
        values = trial.values(u)

        def evaluate(changed: Mapping[Any, Tensor]) -> Tensor:
            return loss_fn(trial.call(values, changed)[0])

        scored = any(one.estimator == "reinforce" for one in self.learned.distributions.values())
        other = trial.uniforms(_BESIDE) if scored else None
        return expected_loss(evaluate, sites_of(trial.drawn, u, other), check=self._losses.new(loss_fn))

    def worst(self, loss_fn: Callable[[Any], Tensor], batch: Any, *, key: Key | None = None, **search: Any) -> Any:
        """Return, for each sample, the draw with the largest loss that a search in the distributions finds.

        Args:
            loss_fn: takes the augmented batch, returns (B,) losses, one per sample.
            batch: as in the call.
            key: as in the call.
            search: options of the search: ``draws``, ``steps``, ``search``, ``restarts``, ``return_found``.

        Returns:
            A pair (result, record), as of a call.

        Gradient:
            As of an ordinary draw, at the worst one; the search itself has none.

        Errors:
            InvalidType for a ``loss_fn`` that cannot be called; InvalidArgument for losses of another shape, and for an unknown
            search.

        Example:
            >>> augment = pellucid.Pipeline([pellucid.RandomBrightness((0.5, 1.5))], seed=0)
            >>> out, _ = augment.worst(lambda out: -out.mean((1, 2, 3)), torch.full((2, 3, 4, 4), 0.5), draws=8)
            >>> bool((out < 0.5).all())  # dark is where this loss is large
            True
        """
        return worst_draw(self, loss_fn, batch, key=key, **search)

    def evaluations(self) -> int:
        """Return how often :meth:`expected` evaluates the loss: once with gradient, the rest without. The first call adds two
        evaluations, and ``reinforce`` one if the loss is a scalar, the draw is shared or there is one sample.

        Example:
            >>> pellucid.Pipeline([pellucid.RandomInvert(p=pellucid.Learnable(0.3))]).evaluations()
            2
        """
        none = torch.zeros(0)
        return evaluations([Site(at, distribution, {}, none) for at, distribution in self.learned.distributions.items()])

    def ranges(self, batch: Any | None = None) -> dict[str, dict[str, Tensor]]:
        """Return the current numbers of the learned distributions.

        Args:
            batch: images, from which modules predict their numbers.

        Returns:
            ``{"0.degrees": {"low": ..., "high": ...}}``, part of the graph; predicted numbers are (B,).

        Gradient:
            To the learned numbers: exact.

        Errors:
            InvalidArgument if numbers are predicted and the batch is missing or has no image.

        Example:
            >>> pellucid.Pipeline([pellucid.RandomAffine(degrees=pellucid.Learnable(10.0))]).ranges()
            {'0.degrees': {'center': tensor(0.), 'half_width': tensor(10., grad_fn=<AddBackward0>)}}
        """
        return self.learned.ranges(None if batch is None else self._pictures(self._parse(batch)))

    def numbers(self, batch: Any | None = None) -> dict[str, float]:
        """Return :meth:`ranges` as plain numbers, for a log; predicted numbers and arrays as their mean.

        Args:
            batch: as in :meth:`ranges`.

        Errors:
            As :meth:`ranges`.

        Example:
            >>> pellucid.Pipeline([pellucid.RandomAffine(degrees=pellucid.Learnable(10.0))]).numbers()
            {'0.degrees.center': 0.0, '0.degrees.half_width': 10.0}
        """
        with torch.no_grad():
            ranges = self.ranges(batch)
        return {f"{label}.{name}": float(value.detach().mean()) for label, now in ranges.items() for name, value in now.items()}

    def ranges_text(self, batch: Any | None = None) -> str:
        """Return :meth:`ranges` as text: one line per learned distribution.

        Args:
            batch: as in :meth:`ranges`.

        Errors:
            As :meth:`ranges`.

        Example:
            >>> print(pellucid.Pipeline([pellucid.RandomAffine(degrees=pellucid.Learnable(10.0))]).ranges_text())
            0.degrees  center 0  half_width 10
        """
        lines: dict[str, list[str]] = {}
        for full, value in self.numbers(batch).items():
            label, name = full.rsplit(".", 1)
            lines.setdefault(label, []).append(f"{name} {value:.4g}")
        return "\n".join(f"{label}  {'  '.join(parts)}" for label, parts in lines.items())

    def entropy(self, batch: Any | None = None) -> dict[str, Tensor]:
        """Return the entropy of every learned distribution: subtract some from a loss to keep draws diverse.

        Args:
            batch: as in :meth:`ranges`.

        Returns:
            By name, in nats: (), or (B,) where it is predicted.

        Gradient:
            To the learned numbers: exact.

        Errors:
            As :meth:`ranges`.

        Example:
            >>> augment = pellucid.Pipeline([pellucid.RandomAffine(degrees=pellucid.Learnable(10.0))])
            >>> {name: round(value.item(), 3) for name, value in augment.entropy().items()}  # log(20)
            {'0.degrees': 2.996}
        """
        return self.learned.entropy(None if batch is None else self._pictures(self._parse(batch)))

    def kl(self, priors: Mapping[str, Distribution], batch: Any | None = None) -> dict[str, Tensor]:
        """Return KL(learned || prior) for some of the learned distributions.

        Args:
            priors: by name, such as ``{"0.degrees": Uniform(-180.0, 180.0)}``.
            batch: as in :meth:`ranges`.

        Returns:
            By name, in nats: (), or (B,) where it is predicted.

        Gradient:
            To the learned numbers: exact.

        Errors:
            InvalidArgument for names of no learned distribution.

        Example:
            >>> augment = pellucid.Pipeline([pellucid.RandomAffine(degrees=pellucid.Learnable(10.0))])
            >>> round(augment.kl({"0.degrees": pellucid.Uniform(-20.0, 20.0)})["0.degrees"].item(), 3)  # log(40 / 20)
            0.693
        """
        return self.learned.kl(priors, None if batch is None else self._pictures(self._parse(batch)))

    def frozen(self) -> Pipeline:
        """Return the same pipeline with the current values of learned numbers as plain numbers: nothing is trained any more, and
        everything can be saved to a file.

        Errors:
            InvalidArgument for numbers that a module predicts from images.

        Example:
            >>> pellucid.Pipeline([pellucid.RandomAffine(degrees=pellucid.Learnable(10.0))]).frozen()[0].degrees
            10.0
        """
        numbers: dict[int, dict[str, dict[str, Any]]] = {}
        for label, now in self.learned.ranges().items() if not self.learned.predicts else ():
            index, name = label.split(".", 1)
            numbers.setdefault(int(index), {})[name] = {field: value.detach().tolist() for field, value in now.items()}
        plain = Pipeline(
            frozen_tree(self.transforms, numbers), seed=int(self._seed) if self._named else None, **self.options.settings()
        )
        plain.load_state_dict({"_seed": self._seed, "_step": self._step})
        return plain.train(self.training)

    @property
    def step(self) -> int:
        """The step the next draw uses (reads the counter's value).

        Example:
            >>> augment = pellucid.Pipeline([pellucid.RandomHorizontalFlip()], seed=0)
            >>> _ = augment(torch.zeros(1, 3, 4, 4))
            >>> augment.step
            1
        """
        return int(self._step)

    def _parse(self, batch: Any, record: Record | None = None, *, inverse: bool = False) -> Parsed:
        if inverse or record is not None:
            read_record(record)
        if self._is_ragged(batch):
            raise invalid("batch", expected="pictures of one size here", got="a list of pictures", fix="Call with one at a time.")
        parsed = parse(batch, self.options, lead=None if record is None else record.lead)
        if record is not None:
            record_agrees(parsed, record, inverse=inverse)
        return parsed

    def _is_ragged(self, batch: Any) -> bool:
        return not isinstance(batch, Tensor) and is_ragged(batch, self.options)

    def _apart(self, batch: Any, key: Key | None) -> tuple[Parsed | None, Key | None]:
        """Return the parsed batch, and the key. The batch is None if its samples need separate passes: for a list, and if draws
        decide on several sizes; deciding takes a key from the stream.
        """
        if self._is_ragged(batch):
            return None, key
        parsed = parse(batch, self.options)
        if (samples := batch_of(parsed)[0]) == 1 or not self._decides(parsed):
            return parsed, key
        seed, step, index = self._key_parts(parsed, key, samples)
        several = len(set(self._settled([self._spec(parsed)] * len(index), seed, step, index) or ())) > 1
        if several and parsed.lead == 2:
            raise invalid("batch", expected="clips of one final size", got="several", fix="Give one clip, or same_on_batch=True.")
        return None if several else parsed, Key(seed, step, index)

    def _decides(self, parsed: Parsed) -> bool:
        """Return whether a draw decides the size of a result."""
        return self._settles and decides(self.transforms, self._spec(parsed))

    def _settled(self, specs: Sequence[ImageSpec], seed: Tensor, step: Tensor, index: Tensor) -> list[tuple[Transform, ...]] | None:
        """Return for each sample the transforms with the draws that decide sizes filled in; None if no draw decides a size."""
        if not self._settles or not any(decides(self.transforms, spec) for spec in set(specs)):
            return None
        return settle_each(self.transforms, specs, seed, step, index, same_on_batch=self.same_on_batch, streams=self._plans.streams)

    def _spec(self, parsed: Parsed) -> ImageSpec:
        pictures = [entry for entry in parsed.entries if not entry.kind.move]
        images = [entry for entry in pictures if entry.kind in IMAGES] or pictures
        if not images:
            expected = "at least one image (or another picture, which tells the size)"
            raise invalid("batch", expected=expected, got=[e.key for e in parsed.entries])
        first = images[0]
        assert first.size is not None
        return ImageSpec.of(first.tensor.shape[-1 - len(first.size)] if first.kind in IMAGES else 3, first.size)

    def _pictures(self, parsed: Parsed) -> Tensor:
        """Return the images that modules predict from: floating point, with one batch axis."""
        entry = next((entry for entry in parsed.entries if entry.kind in IMAGES), None)
        if entry is None:
            raise invalid("batch", expected="an image, from which numbers are predicted", got=[e.key for e in parsed.entries])
        image = entry.tensor if parsed.lead else entry.tensor[None]
        return image if image.is_floating_point() else image.to(torch.float32) / 255.0

    def _raw(self, parsed: Parsed, plan: Plan) -> dict[tuple[int, str], dict[str, Tensor]]:
        """Return the inputs of draws besides random words: learned numbers, and the boxes and masks of the batch."""
        raw = self.learned.raw(self._pictures(parsed) if self.learned.predicts else None)
        return raw | targets_seen(plan, parsed) if plan.looking else raw

    def _draw(self, parsed: Parsed, key: Key | None, *, unpacked: bool = True) -> Record:
        plan, seed, step, index = self._at(parsed, key)
        params = draw_params(plan, seed, step, index, self._raw(parsed, plan))
        return Record(plan, tuple(params) if unpacked else params, index.shape[0], parsed.lead)

    @pinned
    def key_of(self, batch: Any, key: Key | None = None) -> Key:
        """Return the complete key (seed, step and index) that a call would draw with; without ``key``, take a step of the stream.

        Args:
            batch: as in the call.
            key: as in the call.

        Errors:
            As the call.

        Example:
            >>> augment, images = pellucid.Pipeline([pellucid.RandomHorizontalFlip()]), torch.rand(4, 3, 8, 8)
            >>> key = augment.key_of(images)
            >>> torch.equal(augment(images, key=key), augment(images, key=key))
            True
        """
        if self._scene is not None:
            return self._scene.key_of(batch, key)
        if self._is_ragged(batch):
            return key_of_list(self, batch, key)
        parsed = parse(batch, self.options)
        return Key(*self._key_parts(parsed, key, batch_of(parsed)[0]))

    def _planned(self, parsed: Parsed, settled: tuple[Transform, ...] | None = None) -> Plan:
        """Return the plan of a call, and check the first pictures."""
        plans = self._plans if settled is None else self._plans.settled(settled)
        plan, device = plans.of(self._spec(parsed)), parsed.entries[0].tensor.device.type
        if device not in ("cpu", "cuda") and (operators := lacking(plan, device)):
            raise invalid("batch", expected=f"a device that has {operators}", got=device, fix="Move the batch to the CPU.")
        if not torch.compiler.is_compiling() and not self._look.done:
            self._look.at(plan, parsed)
        return plan

    def _at(self, parsed: Parsed, key: Key | None) -> tuple[Plan, Tensor, Tensor, Tensor]:
        """Return the plan of a call, and the (seed, step, index) to draw with; without a key, take a step of the stream."""
        samples = batch_of(parsed)[0]
        if not self._decides(parsed):
            plan = self._planned(parsed)
            return plan, *self._key_parts(parsed, key, samples, plan)
        parts = self._key_parts(parsed, key, samples)
        settled = set(self._settled([self._spec(parsed)] * samples, *parts) or ())
        if len(settled) > 1:
            fix = "Give the transforms same_on_batch=True, or call with one picture at a time."
            expected = "samples that end in one size here"
            raise invalid("batch", expected=expected, got=f"draws that decide on {len(settled)} sizes", fix=fix)
        return self._planned(parsed, settled.pop()), *parts

    def _key_parts(self, parsed: Parsed, key: Key | None, samples: int, plan: Plan | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """Return the (seed, step, index) to draw with; without a key, take a step of the stream."""
        device = parsed.entries[0].tensor.device
        if key is None:
            plan = self._planned(parsed) if plan is None and not self._settles else plan
            if torch.compiler.is_exporting() and plan is not None and not plan.draws:  # exports use standard operators only
                return torch.zeros_like(self._seed), torch.zeros_like(self._step), default_index(samples, device)
            shared = any_shared(self.transforms, self.options) if plan is None else self.same_on_batch or any(plan.shared)
            return *claim(self._seed, self._step, shared=shared), default_index(samples, device)
        return key_for(key, samples, device)

    def __len__(self) -> int:
        """Return the number of transforms; a choice counts as one."""
        return len(self.transforms)

    def __iter__(self) -> Iterator[Transform]:
        """Iterate over the transforms."""
        return iter(self.transforms)

    def __getitem__(self, item: int | slice) -> Any:
        """Return a transform, or for a slice a pipeline of these transforms, with these options and the current learned numbers."""
        if not isinstance(item, slice):
            return self.transforms[item]
        return self._of([(self, i) for i in range(len(self))[item]])

    def __add__(self, other: Pipeline | Sequence[Transform]) -> Pipeline:
        """Return one pipeline of this one's transforms and then the other's, with these options and the current learned numbers."""
        if isinstance(other, Pipeline) and other.options != self.options:
            raise invalid("pipelines", expected="the same options on both sides of +", got=f"{self.options} and {other.options}")
        if not isinstance(other, Pipeline):
            other = Pipeline(other, **settings_of(self.options, as_transforms(other)))
        return self._of([(one, i) for one in (self, other) for i in range(len(one))])

    def _of(self, parts: Sequence[tuple[Pipeline, int]]) -> Pipeline:
        """Make a pipeline of transforms of other pipelines."""
        seed = int(self._seed) if self._named else None
        transforms = tuple(one.transforms[i] for one, i in parts)
        settings = settings_of(self.options, transforms)
        settings["only"] |= {at: one.options.only[i] for at, (one, i) in enumerate(parts) if i in one.options.only}
        new = Pipeline(transforms, seed=seed, **settings)
        new.learned.take([(one.learned, place) for one, i in parts for place in places_of(one.transforms, i)])
        return new

    def to_dict(self) -> dict[str, Any]:
        """Return the pipeline as plain, versioned data; learned numbers have their starting values (see :meth:`frozen`).

        Errors:
            InvalidArgument for steps that no file can hold, such as a function or a module.

        Example:
            >>> pellucid.Pipeline([pellucid.RandomHorizontalFlip(p=0.3)], seed=7).to_dict()["transforms"]
            [{'name': 'RandomHorizontalFlip', 'p': 0.3}]
        """
        seed = {"seed": int(self._seed)} if self._named else {}
        return {"pellucid": VERSION, **seed, **self.options.to_dict(), "transforms": transforms_to_list(self.transforms)}

    @staticmethod
    def from_dict(spec: Mapping[str, Any], *, allow: Sequence[str] = ()) -> Pipeline:
        """Build the pipeline that :meth:`to_dict` described.

        Args:
            spec: the description.
            allow: modules that may be imported for transforms of your own, by their dotted names. No others are imported.

        Returns:
            The pipeline. It draws the same as the one described, if that had a seed.

        Errors:
            InvalidArgument or InvalidType for a description of another version, names that no transform has, and modules not
            allowed.

        Example:
            >>> pellucid.Pipeline.from_dict({"pellucid": 1, "transforms": [{"name": "RandomInvert", "p": 1.0}]})[0]
            RandomInvert(p=1.0, same_on_batch=False)
        """
        settings = settings_from_dict(spec, inspect.unwrap(Pipeline.__init__).__kwdefaults__ or {})
        if "dtype" in settings:
            settings["dtype"] = dtype_named(settings["dtype"])
        return Pipeline(transforms_from_list(spec.get("transforms", ()), allow=allow), **settings)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write :meth:`to_dict` to a ``.toml`` or ``.json`` file.

        Args:
            path: of the file; the suffix decides the format.

        Errors:
            InvalidArgument for another suffix, and as :meth:`to_dict`.

        Example:
            >>> import tempfile, pellucid
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     pellucid.Pipeline([pellucid.RandomInvert(p=0.3)]).save(f"{folder}/augment.toml")
            ...     pellucid.Pipeline.load(f"{folder}/augment.toml")[0]
            RandomInvert(p=0.3, same_on_batch=False)
        """
        write_file(path, self.to_dict())

    @staticmethod
    def load(path: str | os.PathLike[str], *, allow: Sequence[str] = ()) -> Pipeline:
        """Read a pipeline from a ``.toml`` or ``.json`` file; nothing in it is executed.

        Args:
            path: of a file that :meth:`save` wrote, or that was written by hand.
            allow: as in :meth:`from_dict`.

        Returns:
            As :meth:`from_dict`.

        Errors:
            InvalidArgument for another suffix and for text that is not of its format, and as :meth:`from_dict`.

        Example:
            >>> import pathlib, tempfile, pellucid
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     path = pathlib.Path(folder, "augment.json")
            ...     _ = path.write_text('{"pellucid": 1, "transforms": [{"name": "CenterCrop", "size": 4}]}')
            ...     pellucid.Pipeline.load(path)[0]
            CenterCrop(size=4, fill=0.0, mask_fill=None)
        """
        return Pipeline.from_dict(read_file(path), allow=allow)

    def extra_repr(self) -> str:
        """One line per transform."""
        return "\n".join(f"({i}): {transform}" for i, transform in enumerate(self.transforms))
