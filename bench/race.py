"""Eight agents claim the same tasks, each task by all of them at once: how many of them are told it is theirs."""

import asyncio
from contextlib import AsyncExitStack
from dataclasses import dataclass

from bench import board
from bench.connection import Connection
from bench.subjects import Subject


@dataclass(frozen=True, slots=True)
class Race:
    agents: int
    tasks: int
    won: int
    one_winner: int
    most_winners: int


async def _race(subject: Subject, paths: list[str]) -> Race:
    async with AsyncExitStack() as stack:
        lanes = [await stack.enter_async_context(Connection(subject)) for _ in range(board.AGENTS)]
        winners = []
        for path in paths:
            await asyncio.gather(*(lane.ready() for lane in lanes))
            claims = (lane.post(f"{path}/claim", {"agent": f"agent-{n}"}) for n, lane in enumerate(lanes))
            winners.append((await asyncio.gather(*claims)).count(200))
    return Race(board.AGENTS, len(paths), sum(winners), winners.count(1), max(winners))


def race(subject: Subject, tasks: int) -> Race:
    project = board.project(subject)
    paths = [f"/projects/{project}/tasks/{task}" for task in board.tasks(subject, project, tasks)]
    return asyncio.run(_race(subject, paths))
