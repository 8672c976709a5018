"""Cases that are known to end badly, with the reason; each must go on failing, or leave this list."""

import pellucid
from tests.abuse.hostile import pool

_ALL = tuple(kind.__name__ for kind in pellucid.ALL)
_BEYOND = "translate is a fraction of the size, and more than all of it shows nothing of the picture"
_LISTS = ("[1, 2]", "[2, 1]", "[3, 5]", "[1099511627776, 1099511627776]", "[[1, 2], [3, 4]]")
_FAR = ("(1, 2)", "(2, 1)", "(3, 5)", "(1099511627776, 1099511627776)", "((1, 2), (3, 4))", "size", *_LISTS)
_MOVING = ("RandomAffine", "RandomTranslate")
_KEY = "a call does not check its key"
_KEYS = ("None", "Key")
_UNKNOWN = "a call refuses what it does not know with a bare TypeError"
_LAST = "the last axis is read as columns, whatever its length"
_CHANNELS = (
    "channels at the end",
    "one sample with channels at the end",
    "one large sample with channels at the end",
    "one grey sample with channels at the end",
    "four channels at the end",
)
_FLOAT8 = "numbers of 8 bits that torch only stores are taken for floating point"
_NONE = "nothing is divided into samples"

PENDING: dict[str, str] = {
    **{f"{owner}.translate={label}": _BEYOND for owner in _MOVING for label in _FAR},
    **{f"file {owner}.translate={label}": _BEYOND for owner in _MOVING for label in _LISTS},
    **{f"{call}={label}": _KEY for call in ("Pipeline.key", "Pipeline.draw key") for label in pool() if label not in _KEYS},
    **{f"{o} call {a}": _UNKNOWN for o in ("Pipeline", "transform") for a in ("params", "generator", "p", "return_records")},
    **{f"{name} on {label}": _LAST for name in _ALL for label in _CHANNELS},
    **{f"{name} on float8": _FLOAT8 for name in _ALL},
    **{f"ColorJitter recorded on {label}": _NONE for label in ("no samples", "no frames")},
    **{f"{name} on no frames": _NONE for name in ("ColorJitter", "RandomContrast", "RandomChannelShuffle")},
}
