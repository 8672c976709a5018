"""The settings of an audit.

Owns: their defaults and the words a declaration may use.
Must not: hold anything measured.
Read next: ``run.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pellucid.errors import invalid

__all__ = ["DECLARATIONS", "Settings"]

DECLARATIONS = ("exact", "almost_everywhere", "surrogate", "none")


@dataclass(frozen=True)
class Settings:
    """How thorough an audit is.

    Args:
        seed: Every generator starts from it in each run.
        declared: The author's promise per leaf name (``"*"`` for all): one of :data:`DECLARATIONS`. Findings that match a promise
            become notes; a broken promise is a finding.
        degenerate: Also run on black, white, grey, constant, tied and saturated inputs, in half precision, and with NaN.
        quick: Leave out other layouts, shapes, signs, single outputs, a second call, the other mode of a module, and further
            conditions.
        modes: Also try forward mode, double backward, vmap and checkpointing.
        compile: Also compile. Slow: seconds per callable.
        backend: The compiler backend; ``"inductor"`` compiles for real and takes longer.
        isolate: Run in a forked child, so that a crash is reported and the caller's state stays untouched.
        timeout: Seconds a single check may take in the child.
        limit: Seconds that all checks in children may take; then the audit is stopped, which is an error.
        budget: Processor seconds for further conditions: lower precisions, gradients to some leaves only, larger sizes, values
            beyond the given ones. The report counts the conditions tried, and a note names those left out; 0 tries none.

    Errors:
        InvalidArgument for declarations that do not exist.

    Example:
        >>> from pellucid.audit import Settings
        >>> Settings(declared={"*": "exact", "mask": "none"}).promise("mask")
        'none'
    """

    seed: int = 0
    declared: Mapping[str, str] = field(default_factory=dict)
    degenerate: bool = True
    quick: bool = False
    modes: bool = True
    compile: bool = False
    backend: str = "aot_eager"
    isolate: bool = True
    timeout: float = 300.0
    limit: float = 1800.0
    budget: float = 10.0

    def __post_init__(self) -> None:
        for name, word in self.declared.items():
            if word not in DECLARATIONS:
                raise invalid(f"declared[{name!r}]", expected=f"one of {', '.join(DECLARATIONS)}", got=repr(word))
        if not self.budget >= 0:
            raise invalid("budget", expected="seconds, 0 or more", got=repr(self.budget))

    def promise(self, name: str) -> str | None:
        """Return the declaration for a leaf.

        Args:
            name: the leaf's name.
        """
        return self.declared.get(name, self.declared.get("*"))
