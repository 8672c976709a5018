"""The detach study: what holding a patch's mean and standard deviation constant does to gradients, and what it does not.

Owns: the list of its parts and their order.
Must not: be imported by the library itself.
Read next: ``subject.py``, then ``../studies.py``.
"""

from pellucid_bench.detach.run import StudyResult, run_study

__all__ = ["StudyResult", "run_study"]
