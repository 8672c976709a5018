"""Small tensor programs, recorded once for one sample and replayed for a whole batch in one compiled call.

Owns: `record`, which runs ordinary tensor code and writes down its scalar arithmetic, and `Tape`, which replays it.
Must not: know what the code computes; the code stays the specification, and the path for gradients, tracing and other devices.
Read next: ``recorder.py``.
"""

from pellucid.tape.recorder import Tape, TapeError, record, undisturbed

__all__ = ["Tape", "TapeError", "record", "undisturbed"]
