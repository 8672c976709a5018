"""The gradient audit: where the gradients of any PyTorch callable live, lie and die.

Owns: the public names ``audit``, ``assert_clean``, ``audited``, ``watch_training``, their reports and vocabulary.
Must not: import the rest of the library (errors apart; ``reachable.py`` to know its warps again); it audits anybody's code.
Read next: ``run.py``.
"""

from pellucid.audit.finding import Category, Finding, Measure, Severity
from pellucid.audit.plugin import audited
from pellucid.audit.report import AuditReport
from pellucid.audit.run import assert_clean, audit
from pellucid.audit.settings import Settings
from pellucid.audit.watch import TrainingReport, watch_training

__all__ = [
    "AuditReport", "Category", "Finding", "Measure", "Settings", "Severity", "TrainingReport", "assert_clean", "audit", "audited",
    "watch_training",
]  # fmt: skip
