"""Cases that are known to end badly, with the reason; each must go on failing, or leave this list."""

PENDING: dict[str, str] = {}
