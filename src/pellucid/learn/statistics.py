"""Batch normalisation under estimators that compare losses of one draw with those of another.

Owns: `HeldStatistics`.
Must not: change what a network computes where a gradient is asked for.
Read next: ``augerino.py``.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

__all__ = ["HeldStatistics"]


class HeldStatistics:
    """A network in training mode that, without gradient, normalises with the batch statistics of its last call with gradient.

    An estimator that evaluates the loss of a batch with its gates the other way would otherwise also change the statistics, by
    which every sample's loss hears of every other sample's gate. Held, each loss depends on its own draw alone, both sides of a
    comparison are normalised alike, and the running statistics see one batch per step.

    Args:
        net: with or without batch normalisation; hooks are put on its layers.

    Gradient:
        with gradient: the network's own. Of an expected loss to gates: that of the loss with the statistics held constant.
    """

    def __init__(self, net: nn.Module) -> None:
        self._net = net
        self._held: dict[str, Tensor] = {}
        for name, module in net.named_modules():
            if isinstance(module, nn.modules.batchnorm._BatchNorm):
                module.register_forward_pre_hook(partial(self._hold, name))

    def __call__(self, images: Tensor) -> Any:
        """What the network makes of the images."""
        if torch.is_grad_enabled() or not self._net.training:
            return self._net(images)
        self._net.eval()
        try:
            return functional_call(self._net, self._held, (images,))
        finally:
            self._net.train()

    def _hold(self, name: str, module: nn.Module, inputs: tuple[Tensor]) -> None:
        if module.training and torch.is_grad_enabled():
            over = [0, *range(2, inputs[0].dim())]
            var, mean = torch.var_mean(inputs[0].detach(), over, correction=0)
            self._held |= {f"{name}.running_mean": mean, f"{name}.running_var": var}
