"""Losses between views of the same pictures: agreement, matched cells, equivariance.

Owns: `consistency`, `dense_correspondence`, `equivariance`.
Must not: know records; where cells lie and which are valid are tensors here, as `Record.map_to` gives them.
Read next: ``docs/views.md``.
"""

from typing import Literal, get_args

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from pellucid.core.constants import constant
from pellucid.errors import invalid, wrong_type
from pellucid.losses.maps import Reduction, reduce, working_dtype

__all__ = ["consistency", "dense_correspondence", "equivariance"]

Agreement = Literal["label", "soft", "square"]
Distance = Literal["square", "cosine"]


def consistency(
    prediction: Float[Tensor, "b k *cells"],
    target: Float[Tensor, "b k *cells"],
    *,
    valid: Bool[Tensor, "b *cells"] | None = None,
    kind: Agreement = "label",
    threshold: float = 0.0,
    reduction: Reduction = "mean",
) -> Float[Tensor, "*reduced"]:
    """Ask the logits of one view to agree with those of another: FixMatch's loss, for classes or for every cell of a map.

    Args:
        prediction: logits, (B, K) or (B, K, h, w).
        target: logits of the other view, in the same cells. Compute them under ``torch.no_grad()`` to teach in one direction only.
        valid: cells that both views show, ``a.map_to(b).valid(size)``; all by default.
        kind: ``label`` (cross entropy with the target's most likely class), ``soft`` (with its probabilities) or ``square``
            (squared distance of the probabilities).
        threshold: probability, in [0, 1), that the target's most likely class must reach; other cells count as 0.
        reduction: ``mean``, ``sum``, or ``none`` for (B,). A sample's loss is the mean over its valid cells, 0 without any.

    Returns:
        (), or (B,) under ``none``, at least in float32.

    Gradient:
        prediction: exact. target: exact under ``soft`` and ``square``, none under ``label``. Second order: yes.
    Errors:
        InvalidArgument for shapes, options, and on the CPU where no cell of the batch is valid.
    Source:
        Sohn et al., "FixMatch", NeurIPS 2020. Equals ``F.cross_entropy`` in the tests.

    Example:
        >>> import torch
        >>> weak, strong = torch.tensor([[4.0, 0.0], [0.1, 0.0]]), torch.zeros(2, 2)
        >>> consistency(strong, weak, threshold=0.9, reduction="none")
        tensor([0.6931, 0.0000])
    """
    _check_pair("target", prediction, target, reduction)
    _choose("kind", kind, Agreement)
    if not isinstance(threshold, int | float) or not 0 <= threshold < 1:
        raise invalid("threshold", expected="a probability in [0, 1)", got=threshold)
    valid = _check_valid(valid, prediction)
    logs = F.log_softmax(prediction.to(working_dtype(prediction)), 1)
    shares = F.softmax(target.to(working_dtype(target)), 1)
    sure, label = shares.max(1)
    if kind == "label":
        cost = F.nll_loss(logs, label, reduction="none")
    elif kind == "soft":
        cost = -(shares * logs).sum(1)
    else:
        cost = (logs.exp() - shares).square().sum(1)
    return reduce(_over_cells(torch.where(sure >= threshold, cost, 0.0), valid), reduction)


def dense_correspondence(
    features: Float[Tensor, "b d h w"],
    others: Float[Tensor, "b d h2 w2"],
    positions: Float[Tensor, "b h w 2"],
    *,
    valid: Bool[Tensor, "b h w"] | None = None,
    temperature: float = 0.07,
    radius: float = 1.5,
    reduction: Reduction = "mean",
) -> Float[Tensor, "*reduced"]:
    """Ask each cell of one view to be most like the place in the other view that shows the same thing (InfoNCE).

    The positive of a cell is the other view's map, read bilinearly where the cell lies in it. Its negatives are that map's cells
    farther away than `radius`.

    Args:
        features: of view a; normalised here, so they may have any length.
        others: of view b.
        positions: where a's cells lie in b's cells, x before y: ``a.at(size).map_to(b.at(size2)).grid()``.
        valid: cells that both views show, ``.valid()`` of the same map; all by default.
        temperature: divides the similarities, > 0.
        radius: in b's cells, >= 0.
        reduction: ``mean``, ``sum``, or ``none`` for (B,). A sample's loss is the mean over its valid cells, 0 without any.

    Returns:
        (), or (B,) under ``none``, at least in float32.

    Gradient:
        features, others: exact. positions: almost everywhere, through the values read there. Second order: yes.
    Errors:
        InvalidArgument for shapes, options, and on the CPU where no cell of the batch is valid.
    Source:
        Wang et al., "Dense contrastive learning for self-supervised visual pre-training", CVPR 2021, with positions that are known
        instead of guessed. Equals a loop over cells in the tests.

    Example:
        >>> import torch
        >>> maps = torch.eye(4).reshape(1, 4, 2, 2)
        >>> places = torch.tensor([[[[0.0, 0.0], [1.0, 0.0]], [[0.0, 1.0], [1.0, 1.0]]]])
        >>> dense_correspondence(maps, maps, places, radius=0.5, temperature=0.1)
        tensor(0.0001)
    """
    for name, value in (("features", features), ("others", others)):
        if value.dim() != 4 or not value.is_floating_point() or value.shape[:2] != features.shape[:2]:
            raise invalid(name, expected="floating-point maps (B, D, h, w), B and D the same", got=tuple(value.shape))
    _choose("reduction", reduction, Reduction)
    if not isinstance(positions, Tensor):
        raise wrong_type("positions", expected="a tensor: `grid()` of the map between the views", got=type(positions).__name__)
    wanted = (features.shape[0], *features.shape[2:], 2)
    if tuple(positions.shape) != wanted:
        raise invalid("positions", expected=f"shape {wanted}: a place for each cell of features", got=tuple(positions.shape))
    for name, number, positive in (("temperature", temperature, True), ("radius", radius, False)):
        if not isinstance(number, int | float) or number < 0 or (positive and number == 0):
            raise invalid(name, expected=f"a number {'>' if positive else '>='} 0", got=number)
    valid = _check_valid(valid, features)
    dtype = torch.promote_types(working_dtype(features), working_dtype(others))
    usable = valid & torch.isfinite(positions).all(-1)
    at = torch.where(usable[..., None], positions, 0.0).to(dtype)  # b h w 2
    height, width = others.shape[2:]
    size = constant((width, height), dtype, at.device)
    queries, keys = F.normalize(features.to(dtype), dim=1), others.to(dtype)
    grid = (2.0 * at + 1.0) / size - 1.0
    read = F.normalize(F.grid_sample(keys, grid, padding_mode="border", align_corners=False), dim=1)  # b d h w
    matched = (queries * read).sum(1, keepdim=True).flatten(2).mT / temperature  # b hw 1
    similar = queries.flatten(2).mT @ F.normalize(keys, dim=1).flatten(2) / temperature  # b hw h2w2
    y, x = torch.meshgrid(torch.arange(height, device=at.device), torch.arange(width, device=at.device), indexing="ij")
    centres = torch.stack((x, y), -1).flatten(0, 1).to(dtype)  # h2w2 2
    near = (at.flatten(1, 2)[:, :, None] - centres).square().sum(-1) <= radius * radius
    table = torch.cat((matched, similar.masked_fill(near, -torch.inf)), -1)
    cost = (torch.logsumexp(table, -1) - matched[..., 0]).unflatten(1, features.shape[2:])
    return reduce(_over_cells(cost, usable), reduction)


def equivariance(
    of_view: Float[Tensor, "b d *cells"],
    view_of: Float[Tensor, "b d *cells"],
    *,
    valid: Bool[Tensor, "b *cells"] | None = None,
    kind: Distance = "square",
    reduction: Reduction = "mean",
) -> Float[Tensor, "*reduced"]:
    """Ask that features of a transformed picture are the transformed features of the picture: f(T x) = T f(x).

    Args:
        of_view: ``model(pipeline.apply(images, record))``.
        view_of: ``pipeline.apply({"heatmap": model(images)}, record.at(size, out=size))["heatmap"]``.
        valid: cells that show the picture; all by default.
        kind: ``square`` (mean of the squared differences over d) or ``cosine`` (1 - cosine).
        reduction: ``mean``, ``sum``, or ``none`` for (B,). A sample's loss is the mean over its valid cells, 0 without any.

    Returns:
        (), or (B,) under ``none``, at least in float32.

    Gradient:
        of_view, view_of: exact. Second order: yes.
    Errors:
        InvalidArgument for shapes, options, and on the CPU where no cell of the batch is valid.
    Source:
        Equals ``F.mse_loss`` and ``F.cosine_similarity`` in the tests.

    Example:
        >>> import torch
        >>> equivariance(torch.zeros(1, 2, 3, 3), torch.ones(1, 2, 3, 3))
        tensor(1.)
    """
    _check_pair("view_of", of_view, view_of, reduction)
    _choose("kind", kind, Distance)
    valid = _check_valid(valid, of_view)
    dtype = working_dtype(of_view)
    left, right = of_view.to(dtype), view_of.to(dtype)
    cost = (left - right).square().mean(1) if kind == "square" else 1.0 - F.cosine_similarity(left, right, dim=1)
    return reduce(_over_cells(cost, valid), reduction)


def _over_cells(cost: Tensor, valid: Tensor) -> Float[Tensor, "b"]:
    """The mean over the valid cells of each sample."""
    cost, valid = cost.flatten(1) if cost.dim() > 1 else cost[:, None], valid.flatten(1) if valid.dim() > 1 else valid[:, None]
    return torch.where(valid, cost, 0.0).sum(1) / valid.sum(1).clamp(min=1)


def _check_pair(name: str, first: Tensor, second: Tensor, reduction: str) -> None:
    if not first.is_floating_point() or first.dim() < 2:
        got = f"{first.dtype} {tuple(first.shape)}"
        raise wrong_type("the first argument", expected="floating-point (B, K) or (B, K, h, w)", got=got)
    if second.shape != first.shape:
        raise invalid(name, expected=f"shape {tuple(first.shape)}, as the first argument", got=tuple(second.shape))
    _choose("reduction", reduction, Reduction)


def _check_valid(valid: Tensor | None, like: Tensor) -> Tensor:
    shape = (like.shape[0], *like.shape[2:])
    if valid is None:
        return torch.ones(shape, dtype=torch.bool, device=like.device)
    if tuple(valid.shape) != shape or valid.dtype != torch.bool:
        raise invalid("valid", expected=f"a boolean {shape}", got=f"{valid.dtype} {tuple(valid.shape)}")
    seen = torch.compiler.is_compiling() or not valid.is_cpu or torch._C._functorch.is_functorch_wrapped_tensor(valid)
    if not seen and valid.numel() and not bool(valid.any()):
        fix = "The views do not overlap: draw them nearer to each other, or leave the batch out."
        raise invalid("valid", expected="a cell that both views show, in some sample", got="none", fix=fix)
    return valid


def _choose(name: str, value: str, literal: object) -> None:
    if value not in get_args(literal):
        raise invalid(name, expected=f"one of {get_args(literal)}", got=repr(value))
