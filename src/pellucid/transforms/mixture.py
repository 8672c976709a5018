"""Several lists of transforms of one picture, mixed.

Owns: `Mixture`, and `rounds`, of any step.
Must not: apply or plan its chains; each is a pipeline's plan of its own.
Read next: ``choices.py``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass

from torch import Tensor

from pellucid.errors import invalid
from pellucid.random.arguments import finite_number
from pellucid.random.distributions import Beta, Dirichlet, Distribution
from pellucid.random.fields import Chance
from pellucid.segments import CallSpec, WarpSpec
from pellucid.segments import Mixture as Mixed
from pellucid.transforms.base import Params, Transform, by_options, gated
from pellucid.transforms.choices import Branch, Choice, Step, branches_of, steps_of
from pellucid.types import ImageSpec

__all__ = ["Mixture"]


@dataclass(frozen=True)
class Mixture(Transform):
    """Send each picture through several chains of transforms, and mix their results with the picture itself.

    The result is share * picture + (1 - share) * sum of weight * chain(picture). The share is drawn from Beta(alpha, alpha),
    the weights of the chains from Dirichlet(alpha, ..., alpha).

    Args:
        transforms: the chains: transforms, or lists of them, which may hold choices; each keeps the picture's size.
        alpha: from 0.05 to 16; 1 draws all mixtures alike, below 1 most are nearly one chain.

    Gradient:
        share, weights: exact. gate: almost everywhere. The image's and that of the chains' values are as the chains'.
    Errors:
        InvalidArgument for no chain, for one that changes the size, and for `Normalize` inside.
    Source:
        Hendrycks, Mu, Cubuk, Zoph, Gilmer, Lakshminarayanan: "AugMix: a simple data processing method to improve robustness and
        uncertainty", ICLR 2020.

    Example:
        >>> import torch, pellucid
        >>> mix = pellucid.Pipeline([pellucid.Mixture([pellucid.RandomInvert(p=1.0)])], seed=0)
        >>> out, record = mix(torch.zeros(1, 1, 1, 1), return_record=True)
        >>> bool(torch.isclose(out.double().squeeze(), 1.0 - record.params[0]["share"]))
        True
    """

    transforms: tuple[Branch, ...]
    alpha: float = 1.0
    _: KW_ONLY
    p: Chance = 1.0
    same_on_batch: bool = False

    @by_options
    def gradients(self) -> Mapping[str, str]:
        found = {"image": "almost_everywhere", "share": "exact", "weights": "exact", "gate": "almost_everywhere"}
        chains = self.chains if isinstance(self, Mixture) else ()
        steps = [(k, i, transform) for k, chain in enumerate(chains) for i, (transform, *_) in enumerate(steps_of(chain))]
        worst = [step.gradients["image"] for *_, step in steps if step.gradients["image"] not in ("exact", "almost_everywhere")]
        drawn = {f"{k}_{i}_{name}": how for k, i, step in steps for name, how in step.gradients.items() if name != "image"}
        return {**found, "image": min(worst, default="almost_everywhere"), **drawn}

    def check(self) -> None:
        object.__setattr__(self, "transforms", branches_of("Mixture", self.transforms))
        if not 0.05 <= finite_number("Mixture.alpha", self.alpha) <= 16.0:
            raise invalid("Mixture.alpha", expected="a number from 0.05 to 16", got=self.alpha)
        mixed = {"share": Beta(self.alpha), "weights": Dirichlet(len(self.transforms), self.alpha)}
        object.__setattr__(self, "_fixed", {**self._fixed, **mixed})
        if any(step.transform.units is not None for chain in self.chains for step in steps_of(chain)):
            raise invalid("Mixture.transforms", expected="chains without Normalize", got="one with it", fix="Put it after them.")

    @property
    def chains(self) -> tuple[tuple[Transform, ...], ...]:
        """Each as several in a row.

        Example:
            >>> import pellucid
            >>> mixture = pellucid.Mixture([pellucid.RandomInvert(), [pellucid.RandomGamma(), pellucid.RandomHue()]])
            >>> [len(chain) for chain in mixture.chains]
            [1, 2]
        """
        return tuple(chain if isinstance(chain, tuple) else (chain,) for chain in self.transforms)

    @property
    def rounded(self) -> bool:
        """Whether some step of its chains ends in bytes where pictures are bytes, as in `OneOf`; then so does the mixture.

        Example:
            >>> import pellucid
            >>> inverted = [pellucid.OneOf([pellucid.RandomInvert()], rounded=rounded) for rounded in (False, True)]
            >>> [pellucid.Mixture([one]).rounded for one in inverted]
            [False, True]
        """
        return any(rounds(steps, i) for steps in map(steps_of, self.chains) for i in range(len(steps)))

    def segment(self, spec: ImageSpec) -> CallSpec:
        for chain in self.chains:
            for step in steps_of(chain):
                lowered = None if isinstance(step.transform, Choice) else step.transform.segment(spec)
                if isinstance(lowered, WarpSpec) and lowered.size != spec.size:
                    name = type(step.transform).__name__
                    raise invalid("Mixture.transforms", expected=f"chains that keep {spec.height}x{spec.width}", got=name)
        return CallSpec()

    def draws(self, spec: ImageSpec) -> dict[str, Distribution]:
        found = super().draws(spec)
        for k, chain in enumerate(self.chains):
            for i, (transform, *_) in enumerate(steps_of(chain)):
                found |= {f"{k}_{i}_{name}": distribution for name, distribution in transform.draws(spec).items()}
        return found

    def lower(self, values: Params, spec: ImageSpec, like: Tensor) -> Mixed:
        own: list[list[dict[str, Tensor]]] = [[{} for _ in steps_of(chain)] for chain in self.chains]
        for name, value in values.items():
            k, _, rest = name.partition("_")
            if rest:
                i, _, drawn = rest.partition("_")
                own[int(k)][int(i)][drawn] = value
        chains = tuple(map(tuple, own))
        return Mixed(chains, gated(values, values["share"], 1.0), values["weights"])


def rounds(steps: Sequence[Step], index: int) -> bool:
    """Whether what a step makes of pictures of bytes is bytes again: choices above it say so, or those in a mixture's chains."""
    around = (steps[i].transform for i in (index, *(gate.choice for gate in steps[index].gates)))
    return any(isinstance(one, Choice | Mixture) and one.rounded for one in around)
