"""Stop a descriptor's training when it has collapsed, and say why.

Owns: the test for a collapse, and the message that explains it.
Must not: change the training; it only looks at the loss and at detached descriptors.
Read next: ``../losses/triplet.py``.
"""

import math
from typing import Any, final

import torch
from jaxtyping import Float
from torch import Tensor

from pellucid.core.arguments import is_number, whole_number
from pellucid.errors import StoppedRun, invalid

__all__ = ["CollapseError", "CollapseGuard", "mean_off_diagonal_distance"]


class CollapseError(StoppedRun):
    """Training cannot recover: the descriptors no longer tell points apart, or the loss is not finite."""


def mean_off_diagonal_distance(descriptors: Float[Tensor, "n d"]) -> Float[Tensor, ""]:
    """Return the root mean squared distance between rows: sqrt(2) for unit vectors all over the sphere, 0 when all are equal.

    It takes one pass over the rows, because the squared distances of all pairs sum to ``2 n sum |x - mean|^2``.

    Gradient:
        none: it is a measurement.

    Example:
        >>> mean_off_diagonal_distance(torch.eye(5))
        tensor(1.4142)
    """
    x = descriptors.detach().to(torch.promote_types(descriptors.dtype, torch.float32))
    n = x.shape[0]
    if n < 2:
        raise invalid("descriptors", expected="at least two rows", got=n)
    return torch.sqrt(2 * (x - x.mean(0)).square().sum() / (n - 1))


@final
class CollapseGuard:
    """Watch a triplet loss and the spread of the descriptors; raise :class:`CollapseError` when training is lost.

    A collapsed network maps every patch to one vector: positives and negatives are at the same distance, the triplet loss is
    exactly the margin, and its gradient vanishes. Two signs are required together, at ``patience`` checks in a row, so that a slow
    start is no collapse: a running mean of the loss that is above the margin or within ``closeness`` of it, and descriptors closer
    to each other than ``spread``. A loss that is not finite stops the training at once.

    Args:
        margin: the margin of the triplet loss, to its power (1 for both powers of margin 1).
        spread: root mean squared distance between different descriptors below which they count as one; random unit vectors have
            1.41.
        closeness: share of the margin by which the loss must have fallen below it to count as learning.
        patience: checks in a row that must show both signs.
        warmup: checks at the beginning that are not judged.

    Errors:
        CollapseError, with the step, both numbers and what to try.

    Example:
        >>> guard = CollapseGuard(patience=2, warmup=0)
        >>> same = torch.ones(8, 4) / 2
        >>> guard.update(1.0, same, step=10)
        >>> guard.update(1.0, same, step=20)
        Traceback (most recent call last):
        ...
        pellucid.features.collapse.CollapseError: The descriptor collapsed at step 20: ...
    """

    def __init__(
        self, *, margin: float = 1.0, spread: float = 0.2, closeness: float = 0.02, patience: int = 20, warmup: int = 20
    ) -> None:
        if not margin > 0 or patience < 1:
            raise invalid("margin, patience", expected="a positive margin and at least 1 look", got=f"{margin}, {patience}")
        self.margin, self.spread, self.closeness, self.patience, self.warmup = margin, spread, closeness, patience, warmup
        self._looks = 0
        self._suspicious = 0
        self._mean_loss = math.nan

    def update(self, loss: float | Tensor, descriptors: Float[Tensor, "n d"], *, step: int) -> None:
        """Check one step's loss and descriptors. It reads values on the host: call it every ten steps or so, not in the graph.

        Args:
            loss: mean triplet loss of the step.
            descriptors: descriptors of different points, from the same step.
            step: the step's number, for the message.

        Errors:
            CollapseError if the loss or a descriptor is not finite, and if the descriptors have collapsed.
        """
        value = float(loss)
        distance = float(mean_off_diagonal_distance(descriptors))
        if not (math.isfinite(value) and math.isfinite(distance)):
            raise CollapseError(
                f"Training stopped at step {step}: the loss is {value} and the descriptors' mean distance {distance}. "
                "Look at the last checkpoint before it; a smaller learning rate, float32 instead of half precision, or gradient "
                "clipping usually help. If one image does it every time, audit the loss there (pellucid audit)."
            )
        self._looks += 1
        self._mean_loss = value if math.isnan(self._mean_loss) else 0.8 * self._mean_loss + 0.2 * value
        stuck = self._mean_loss >= self.margin * (1 - self.closeness)
        self._suspicious = self._suspicious + 1 if stuck and distance < self.spread and self._looks > self.warmup else 0
        if self._suspicious >= self.patience:
            raise CollapseError(
                f"The descriptor collapsed at step {step}: the loss has stayed at {self._mean_loss:.3f} (margin {self.margin:g}) "
                f"and different patches lie {distance:.3f} apart on average (random unit vectors: 1.41). All patches map to nearly "
                "one vector, where the triplet loss has no slope. Start again with a smaller learning rate, a larger batch, "
                "or easier pairs first; check that rows of anchors and positives correspond, and that patches are not flat."
            )

    def state_dict(self) -> dict[str, Any]:
        """Return the state, with which a resumed run continues exactly.

        Example:
            >>> CollapseGuard(margin=1.0).state_dict()
            {'looks': 0, 'suspicious': 0, 'mean_loss': nan}
        """
        return {"looks": self._looks, "suspicious": self._suspicious, "mean_loss": self._mean_loss}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from :meth:`state_dict`.

        Args:
            state: the result of :meth:`state_dict`.

        Errors:
            InvalidArgument for anything but such a state.

        Example:
            >>> guard = CollapseGuard(margin=1.0)
            >>> guard.load_state_dict({"looks": 3, "suspicious": 1, "mean_loss": 0.9})
            >>> guard.state_dict()["looks"]
            3
        """
        names = ("looks", "suspicious", "mean_loss")
        if not isinstance(state, dict) or not all(is_number(state.get(name)) for name in names):
            raise invalid("state", expected=f"numbers for {', '.join(names)}, as state_dict() gives them", got=repr(state))
        self._looks, self._suspicious = (whole_number(name, state[name], 0, 1 << 62) for name in names[:2])
        self._mean_loss = float(state["mean_loss"])
