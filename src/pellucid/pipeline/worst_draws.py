"""The worst draw of a pipeline for each sample of a batch.

Owns: the function that a search evaluates: the losses of a batch at given uniforms.
Must not: search (``worst_search.py`` does) or draw by itself.
Read next: ``worst_search.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor

from pellucid.core.arguments import check_flag
from pellucid.errors import invalid, wrong_type
from pellucid.pipeline.interface import PipelineLike
from pellucid.pipeline.records import Record
from pellucid.pipeline.trials import Trial
from pellucid.pipeline.worst_search import Found, Search, search_cube, untouched
from pellucid.random.key import Key
from pellucid.random.stream import fold_in

__all__ = ["worst_draw"]


def worst_draw(
    pipeline: PipelineLike,
    loss_fn: Callable[[Any], Tensor],
    batch: Any,
    *,
    draws: int | Mapping[str, int] = 16,
    steps: int = 8,
    search: str = "gradient",
    restarts: int = 2,
    key: Key | None = None,
    return_found: bool = False,
) -> tuple[Any, Record] | tuple[Any, Record, Found]:
    """Search for the draw of each sample with the largest loss; this is `Pipeline.worst`.

    Args:
        pipeline: whose distributions are searched.
        loss_fn: takes the augmented batch, returns (B,) losses, one per sample. The model behind it stays unchanged: no gradient is
            left in its parameters, its buffers and torch's generator are restored.
        batch: as in the pipeline's call. For a list, ``loss_fn`` gets the list that a call returns; for several pictures in a
            sample, the dict of them, and pictures that share a draw share the worst one.
        draws: the number of starts, including the plain draw of this key; or the number of grid points for each number, such as
            ``{"degrees": 31, "translate_x": 5, "translate_y": 5}``.
        steps: the number of signed gradient steps from a start; their length shrinks.
        search: ``random`` (the starts are random draws), ``grid`` (the starts are a grid with the ends of every range; gates,
            choices and other draws without a scale are random at each point), ``gradient`` (that grid, then the steps).
        restarts: how many of a sample's best starts the steps begin from.
        key: as in the pipeline's call.
        return_found: also return a `Found`: the losses, those of the plain draw, and the number of evaluations of the batch.

    Returns:
        (result, record), or (result, record, found). A sample's loss is never smaller than under the plain draw.

    If the batch shares all draws, the mean loss is maximised. The search may miss the worst draw: `docs/worst-case.md` has
    figures.

    Gradient:
        result: to images and learned ranges, at the worst draw.
    Errors:
        InvalidArgument if there is not one loss per sample, if losses change with the draws of other samples (tested by one
        evaluation at the first call with a loss), and if only some of the transforms share a draw.
    Source:
        Engstrom et al., "Exploring the landscape of spatial robustness", ICML 2019: grids, random and first-order search.

    Example:
        >>> import torch, pellucid
        >>> shine = pellucid.Pipeline([pellucid.RandomBrightness((0.5, 1.5))], seed=0)
        >>> out, record = shine.worst(lambda x: x.mean((1, 2, 3)), torch.full((2, 3, 4, 4), 0.4))
        >>> record.params[0]["brightness"].round(decimals=3)
        tensor([1.5000, 1.5000], dtype=torch.float64)
    """
    how = Search(draws, steps, search, restarts)
    check_flag("return_found", return_found)
    if not callable(loss_fn):
        raise wrong_type("loss_fn", expected="a function of the augmented batch to (B,) losses", got=repr(loss_fn))
    trial = Trial(pipeline, batch, key)
    shared = {one.shared for one in trial.drawn}
    if len(shared) > 1:
        fix = "Say same_on_batch=True of the pipeline, or of none of its transforms."
        raise invalid("worst", expected="draws that all samples share, or none", got="some of each", fix=fix)

    def losses(u: Tensor) -> Tensor:
        return loss_fn(trial.call(trial.values(u, still=True))[0])

    def drawn(k: int) -> Tensor:
        return trial.uniforms(fold_in(0, "worst", k) if k else 0)

    check = pipeline._losses.new(loss_fn)
    with untouched(trial.device):
        found = search_cube(trial.draws, losses, drawn, how, whole=True in shared, check=check)
    result, record = trial.call(trial.values(found.at))
    return (result, record, found) if return_found else (result, record)
