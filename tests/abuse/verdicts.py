"""The verdict on one abuse: a right result, a Pellucid error that names the argument, or bad (and why)."""

import re
import warnings
from collections.abc import Callable, Iterable
from typing import Any

from pellucid.errors import ImplementationError, InvalidArgument, InvalidType
from tests.abuse.pending import PENDING

ERRORS = (InvalidArgument, InvalidType, ImplementationError)
LONGEST = 1500
"""Characters of an error that somebody reads."""


def complaint(error: Exception, *names: str) -> str | None:
    """What is wrong with an error that should name one of ``names``; None for a good one."""
    if not isinstance(error, ERRORS):
        return f"raw {type(error).__name__}: {str(error)[:90]}"
    text = str(error)
    said = text.split(": expected")[0]
    if not any(re.search(rf"(?<!\w){re.escape(name)}(?!\w)", said) for name in names):
        return f"does not name {names[0]}: {text[:90]}"
    if "expected" not in text or "got" not in text or len(text) > LONGEST:
        return f"unclear or long error ({len(text)} characters): {text[:90]}"
    return None


def attempt(action: Callable[[], Any], *names: str) -> tuple[Any, str | None, bool]:
    """(result, fault, refused) of doing something with a hostile argument of one of those names."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return action(), None, False
    except Exception as error:
        return None, complaint(error, *names), True


def sample(cases: Iterable[str], every: int) -> list[str]:
    """Every so many of the cases, the same ones each time, evenly spread."""
    return list(cases)[::every]


def pending(case: str) -> str | None:
    """Why a case is known to be bad, if it is."""
    return PENDING.get(case)


def settle(faults: dict[str, str | None]) -> None:
    """Fail on what is bad and not known to be, and on what is known to be bad and no longer is."""
    bad = {case: fault for case, fault in faults.items() if fault and not pending(case)}
    mended = [case for case, fault in faults.items() if not fault and pending(case)]
    lines = [f"{case}  ->  {fault}" for case, fault in bad.items()]
    assert not bad, f"{len(bad)} of {len(faults)} are bad:\n" + "\n".join(lines[:60])
    assert not mended, "no longer bad, take them out of tests/abuse/pending.py:\n" + "\n".join(mended)
