"""How a project is doing: cycle times, throughput, rework, and how its columns filled over time, by days of UTC."""

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from ringfence.board import store
from ringfence.board.model import Status
from ringfence.kernel.clock import DAY, MINUTE, SECOND, iso
from ringfence.kernel.database import Transaction

DAYS = 366


class Completion(NamedTuple):
    """A task came to done; one that was reopened and done again has two."""

    task: str
    title: str
    agent: str | None
    started_at: int | None
    completed_at: int
    reworked: int

    @property
    def minutes(self) -> float | None:
        """The cycle, from the first start to done; nothing for what was never started."""
        return None if self.started_at is None else (self.completed_at - self.started_at) / MINUTE


@dataclass(frozen=True, slots=True)
class Period:
    """Some days up to and with today."""

    first: int
    last: int

    @classmethod
    def ending(cls, now: int, days: int) -> "Period":
        return cls(now // DAY - days + 1, now // DAY)

    @property
    def since(self) -> int:
        return self.first * DAY

    @property
    def days(self) -> range:
        return range(self.first, self.last + 1)


@dataclass(frozen=True, slots=True)
class Standing:
    """The tasks there are now; the average and the agents are of those that are done now."""

    by_status: dict[str, int]
    average_minutes: float
    done_per_agent: dict[str, int]


@dataclass(frozen=True, slots=True)
class AgentSummary:
    agent: str | None
    completed: int
    reworked: int
    average_minutes: float
    median_minutes: float
    daily: list[int]


def standing(tx: Transaction, project_id: str) -> Standing:
    counts: dict[str, int] = {str(status): 0 for status in Status}
    counts.update({row[0]: row[1] for row in tx.rows(store.COUNT_BY_STATUS, project=project_id)})
    cycles = [row[0] for row in tx.rows(store.CYCLES_OF_DONE, project=project_id)]
    return Standing(
        by_status=counts,
        average_minutes=round(sum(cycles) / len(cycles) / MINUTE, 1) if cycles else 0.0,
        done_per_agent={row[0]: row[1] for row in sorted(tx.rows(store.DONE_BY_AGENT, project=project_id))},
    )


def completions(tx: Transaction, project_id: str, period: Period) -> list[Completion]:
    """Every completion of the period, oldest first."""
    return [Completion(*row) for row in tx.rows(store.COMPLETIONS, project=project_id, since=period.since)]


def cycle_minutes(done: Iterable[Completion]) -> list[float]:
    return [round(minutes, 2) for each in done if (minutes := each.minutes) is not None]


def quantile(sorted_values: list[float], share: float) -> float | None:
    """The least value that at least `share` of them do not exceed."""
    if not sorted_values:
        return None
    return sorted_values[max(0, math.ceil(share * len(sorted_values) - 1e-9) - 1)]


def per_agent(done: Iterable[Completion], period: Period) -> list[AgentSummary]:
    found: dict[str, list[Completion]] = {}
    for each in done:
        found.setdefault(each.agent or "", []).append(each)
    return [_agent_summary(agent or None, theirs, period) for agent, theirs in sorted(found.items())]


def _agent_summary(agent: str | None, done: list[Completion], period: Period) -> AgentSummary:
    times = [each.minutes or 0.0 for each in done]
    return AgentSummary(
        agent=agent,
        completed=len(done),
        reworked=sum(1 for each in done if each.reworked),
        average_minutes=round(sum(times) / len(times), 1),
        median_minutes=round(quantile(sorted(times), 0.5) or 0.0, 1),
        daily=[number for _, number in throughput(done, period)],
    )


def throughput(done: Iterable[Completion], period: Period) -> list[tuple[str, int]]:
    """Tasks completed on each day, today last."""
    counts = Counter(each.completed_at // DAY for each in done)
    return [(_day(day), counts[day]) for day in period.days]


def flow(tx: Transaction, project_id: str, period: Period) -> list[tuple[str, dict[Status, int]]]:
    """How many tasks stood in each column at the end of each day: the cumulative flow."""
    standing: Counter[str] = Counter()
    ends: list[tuple[str, dict[Status, int]]] = []
    rows = tx.rows(store.MOVES_OF_PROJECT, project=project_id)
    at = 0
    for day in period.days:
        while at < len(rows) and rows[at][3] < (day + 1) * DAY:
            _, came, went, _ = rows[at]
            if came:
                standing[came] -= 1
            if went:
                standing[went] += 1
            at += 1
        ends.append((_day(day), {status: standing[status.value] for status in Status}))
    return ends


def _day(day: int) -> str:
    return iso(day * DAY // SECOND * SECOND)[:10]
