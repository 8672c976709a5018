"""Give an existing model's batch norms a gradient policy.

Owns: ``convert_batchnorm`` and the table of replacements.
Must not: touch a class it does not know; a subclass's own forward pass would be lost.
Read next: ``batchnorm.py``.
"""

from typing import TypeAlias

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from pellucid.errors import invalid
from pellucid.nn.bags import BagNorm
from pellucid.nn.batchnorm import BatchNorm1d, BatchNorm2d, BatchNorm3d
from pellucid.nn.dropout_batchnorm import DropoutBatchNorm
from pellucid.nn.ghost import GhostBatchNorm
from pellucid.nn.policy import StatisticsGrad, check_policy
from pellucid.nn.renorm import BatchRenorm
from pellucid.nn.sync import SyncBatchNorm

__all__ = ["convert_batchnorm"]

_Ours: TypeAlias = (
    BatchNorm1d | BatchNorm2d | BatchNorm3d | SyncBatchNorm | BagNorm | BatchRenorm | DropoutBatchNorm | GhostBatchNorm
)

_BECOMES: dict[type[nn.Module], type[BatchNorm1d | BatchNorm2d | BatchNorm3d | SyncBatchNorm]] = {
    nn.BatchNorm1d: BatchNorm1d,
    nn.BatchNorm2d: BatchNorm2d,
    nn.BatchNorm3d: BatchNorm3d,
    nn.SyncBatchNorm: SyncBatchNorm,
}


def convert_batchnorm(
    module: nn.Module, *, statistics_grad: StatisticsGrad = "detached", skip: tuple[type[nn.Module], ...] = ()
) -> nn.Module:
    """Replace every torch batch norm in a model by ours, with this gradient policy.

    Parameters and buffers are shared with the modules replaced, so optimisers stay valid and nothing is copied. Containers are
    changed in place, as by ``torch.nn.SyncBatchNorm.convert_sync_batchnorm``; hooks on the norms themselves are not carried over.
    For statistics over processes call torch's ``convert_sync_batchnorm`` first and this on its result; the other way round raises.

    Args:
        module: the model; may itself be a batch norm.
        statistics_grad: the policy. Norms that are ours already get it, too.
        skip: batch norm classes to leave alone.

    Returns:
        The model, or the new norm if the model was one.

    Errors:
        InvalidArgument for a batch norm of an unknown class (a lazy one, somebody's subclass) that ``skip`` does not name.

    Example:
        >>> model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU())
        >>> convert_batchnorm(model, statistics_grad="detached")[1].statistics_grad
        'detached'
    """
    check_policy("statistics_grad", statistics_grad)
    for name, child in module.named_modules():
        _check_known(name or type(module).__name__, child, skip)
    return _converted(module, statistics_grad, skip, {})


def _converted(
    module: nn.Module, policy: StatisticsGrad, skip: tuple[type[nn.Module], ...], done: dict[nn.Module, nn.Module]
) -> nn.Module:
    if module in done:  # a norm used in two places stays one norm
        return done[module]
    done[module] = module
    if type(module) in skip:
        return module
    if type(module) in _BECOMES:
        assert isinstance(module, _BatchNorm)
        done[module] = _rebuilt(module, policy)
        return done[module]
    if isinstance(module, _Ours):
        module.statistics_grad = policy
    for name, child in list(module._modules.items()):  # named_children() leaves out the second name of a shared module
        if child is not None:
            setattr(module, name, _converted(child, policy, skip, done))
    return module


def _rebuilt(old: _BatchNorm, policy: StatisticsGrad) -> nn.Module:
    # On the meta device nothing is allocated; every tensor is then the old module's own.
    new = _BECOMES[type(old)](
        old.num_features, old.eps, old.momentum, old.affine, old.track_running_stats, device="meta", statistics_grad=policy
    )
    new.weight, new.bias = old.weight, old.bias
    new.running_mean, new.running_var, new.num_batches_tracked = old.running_mean, old.running_var, old.num_batches_tracked
    if isinstance(new, SyncBatchNorm):
        new.process_group = getattr(old, "process_group", None)
    return new.train(old.training)


def _check_known(name: str, module: nn.Module, skip: tuple[type[nn.Module], ...]) -> None:
    if isinstance(module, _BatchNorm) and not isinstance(module, _Ours) and type(module) not in (*_BECOMES, *skip):
        got, fix = type(module).__name__, "Run a lazy norm once first, or name the class in skip=(...,)."
        raise invalid(f"module {name!r}", expected="a batch norm of torch.nn or pellucid.nn", got=got, fix=fix)
