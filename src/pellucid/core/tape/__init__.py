"""Small tensor programs, recorded once for one sample and replayed for a whole batch in one compiled call.

Owns: `record`, which runs tensor code and writes down its scalar arithmetic, `Tape`, which replays it, and `Recording`, a tape
    with the structure of the result.
Must not: know what the code computes. The tensor code is the specification, and runs for gradients, tracing and other devices.
Read next: ``recorder.py``.
"""

from pellucid.core.tape.number import Number, settled
from pellucid.core.tape.recorder import Rows, Tape, TapeError, is_plain_eager, record
from pellucid.core.tape.recording import NumbersOf, Recording, cached_recording, plain

__all__ = [
    "Number", "NumbersOf", "Recording", "Rows", "Tape", "TapeError", "cached_recording", "is_plain_eager", "plain", "record",
    "settled",
]  # fmt: skip
