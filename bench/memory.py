"""Resident memory of a server that has just started, and after messages that nobody has read."""

import asyncio
import itertools
from dataclasses import dataclass

from bench import board
from bench.connection import post_all
from bench.subjects import Subject


@dataclass(frozen=True, slots=True)
class Memory:
    messages: int
    before_mib: float
    after_mib: float


def memory(subject: Subject, messages: int) -> Memory:
    before = subject.resident_mib()
    board.register(subject)
    bodies = itertools.islice(itertools.cycle(board.messages()), messages)
    asyncio.run(post_all(subject, (("/messages/send", body) for body in bodies)))
    return Memory(messages, before, subject.resident_mib())
