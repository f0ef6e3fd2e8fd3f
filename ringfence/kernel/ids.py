"""Prefixed, sortable ids: `tsk_` and a UUIDv7 written in 26 characters of Crockford's base 32."""

import os
import threading
import time

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_lock = threading.Lock()
_last = 0


def new(prefix: str) -> str:
    """A new id, greater than every id this process made before."""
    global _last  # noqa: PLW0603  the order of ids within a process is process-wide by nature
    with _lock:
        # 48 bits of milliseconds; version, 12 bits of order, variant, 62 random bits.
        stamp = max(time.time_ns() * 4096 // 1_000_000, _last + 1)
        _last = stamp
    milliseconds, order = divmod(stamp, 4096)
    random = int.from_bytes(os.urandom(8), "big") & ((1 << 62) - 1)
    value = (milliseconds << 80) | (7 << 76) | (order << 64) | (2 << 62) | random
    return f"{prefix}_{_written(value)}"


def raw(ident: str) -> bytes:
    """The 16 bytes that an id writes out; a ValueError for what is none."""
    letters = ident.rpartition("_")[2]
    if len(letters) != 26:
        raise ValueError(f"{ident!r:.80} is no id")
    value = 0
    for letter in letters:
        value = value << 5 | _ALPHABET.index(letter)
    return value.to_bytes(17, "big")[1:]


def from_raw(prefix: str, sixteen: bytes) -> str:
    return f"{prefix}_{_written(int.from_bytes(sixteen, 'big'))}"


def _written(value: int) -> str:
    return "".join([_ALPHABET[(value >> shift) & 31] for shift in range(125, -5, -5)])
