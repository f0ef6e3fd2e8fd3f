"""Ids that sort as they were made."""

import re
import threading
import time

from ringfence.kernel.ids import new

FORM = re.compile(r"tsk_[0-9a-hjkmnp-tv-z]{26}")
ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"


def uuid_of(identity: str) -> int:
    value = 0
    for letter in identity.partition("_")[2]:
        value = value * 32 + ALPHABET.index(letter)
    return value


def test_ids_sort_in_the_order_they_were_made_across_threads() -> None:
    newest, wrong, made = [""], [], []

    def make() -> None:
        mine = []
        for _ in range(3000):
            before = newest[0]
            identity = new("tsk")
            if identity <= before:
                wrong.append((before, identity))
            newest[0] = identity
            mine.append(identity)
        made.append(mine)

    threads = [threading.Thread(target=make) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert all(mine == sorted(mine) for mine in made)
    assert len({identity for mine in made for identity in mine}) == 8 * 3000


def test_an_id_is_a_uuid_of_version_7_made_now() -> None:
    identity = new("tsk")
    assert FORM.fullmatch(identity)
    value = uuid_of(identity)
    assert value >> 128 == 0
    assert (value >> 76) & 0xF == 7
    assert (value >> 62) & 0b11 == 0b10
    assert abs((value >> 80) - time.time() * 1000) < 60_000


def test_ids_of_the_same_millisecond_cannot_be_guessed_from_each_other() -> None:
    randoms = {uuid_of(new("tsk")) & ((1 << 62) - 1) for _ in range(10_000)}
    assert len(randoms) == 10_000
