"""A word against ``torch.nn.SyncBatchNorm.convert_sync_batchnorm``, which would replace our norms by torch's without one.

Owns: the class attribute that raises when that function reads it from one of our norms, and for no other reader.
Must not: run in a forward pass.
Read next: ``convert.py``.
"""

import sys
from typing import Any, Final, NoReturn

from pellucid.errors import invalid

__all__ = ["RAISES_IN_TORCH_SYNC"]


class _RaisesInTorchSync:
    # The one attribute the conversion reads of a norm that torch's layers do not have is qconfig, which quantisation puts there.
    def __get__(self, norm: Any, owner: type) -> NoReturn:
        if norm is not None and sys._getframe(1).f_code.co_name == "convert_sync_batchnorm":
            raise invalid(
                "convert_sync_batchnorm",
                expected="batch norms of torch.nn",
                got=f"a pellucid.nn.{owner.__name__}, whose statistics_grad and options would be lost",
                fix="Call it on torch's norms, then pellucid.nn.convert_batchnorm on its result; or use pellucid.nn.SyncBatchNorm.",
            )
        raise AttributeError("qconfig")


RAISES_IN_TORCH_SYNC: Final = _RaisesInTorchSync()
"""To be the class attribute ``qconfig`` of a norm; one that is set on an instance goes before it."""
