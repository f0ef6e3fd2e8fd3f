"""Sizes as people write them: 1073741824, 1024M, 1G. Units are of 1024."""

import re

SIZE = r"^[0-9]{1,12}(\.[0-9]{1,3})?[KMGTkmgt]?$"
_SIZE = re.compile(SIZE)
_POWERS = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4}
MOST = 1 << 62


def in_bytes(given: int | str) -> int:
    """The size in bytes; a `ValueError` whose message says what is possible."""
    if isinstance(given, str):
        if not _SIZE.fullmatch(given):
            raise ValueError(f"{given[:40]!r} is not a size: write bytes, or a number with K, M, G or T, as in 512M")
        unit = given[-1].upper() if given[-1].isalpha() else ""
        size = int(float(given.rstrip("KMGTkmgt")) * 1024 ** _POWERS[unit])
    else:
        size = given
    if not 0 <= size <= MOST:
        raise ValueError(f"{given!r:.40} is no possible size")
    return size


def written(size: int) -> str:
    """As short as it can be said: 512M, 1.5G."""
    value, unit = float(size), ""
    for name in ("K", "M", "G", "T"):
        if value < 1024:
            break
        value, unit = value / 1024, name
    return f"{value:.1f}".removesuffix(".0") + unit
