"""The gradient audit: where the gradients of a PyTorch callable are right, wrong or lost.

Owns: the public names ``audit``, ``assert_clean``, ``audited``, ``watch_training``, their reports and vocabulary.
Must not: import the rest of the library, except errors, and its warps in ``reachable.py``; it audits anybody's code.
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
