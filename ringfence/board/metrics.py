"""How a project is doing: cycle times, throughput, rework, and how its columns filled and its agents were loaded over
time, by days of UTC."""

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

from ringfence.board import store
from ringfence.board.model import Status
from ringfence.kernel.clock import DAY, MINUTE, SECOND, iso
from ringfence.kernel.database import Row, Transaction

IN_WORK = (Status.IN_PROGRESS, Status.IN_REVIEW)


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

    @property
    def names(self) -> list[str]:
        return [_day(day) for day in self.days]


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


# Columns over time ----------------------------------------------------------------------------------------------------

_Whose = tuple[str, str | None]  # a column, and an agent in it; None: everybody together


@dataclass(frozen=True, slots=True)
class Load:
    """What was in work, of one agent or of everybody: for each column the most that stood there on each day, the limit
    at the end of the day, and what stands there now."""

    agent: str | None
    most: dict[Status, list[int]]
    limits: dict[Status, list[int | None]]
    now: dict[Status, int]


@dataclass(frozen=True, slots=True)
class Course:
    """`flow` is what stood in each column at the end of each day."""

    flow: list[tuple[str, dict[Status, int]]]
    load: Load
    agents: list[Load]
    of: Callable[[str], Load]


def course(tx: Transaction, project_id: str, period: Period) -> Course:
    rows = tx.rows(store.MOVES_OF_PROJECT, project=project_id)
    columns = _Columns()
    flow, most = [], []
    split = bisect_left(rows, period.since, key=_at)
    for row in rows[:split]:
        columns.move(row)
    for day in period.days:
        columns.begin_day()
        end = bisect_left(rows, (day + 1) * DAY, lo=split, key=_at)
        # What moved at one moment moved together: what stood between was never there.
        for _, together in groupby(rows[split:end], key=_at):
            for row in together:
                columns.move(row)
            columns.settle()
        split = end
        flow.append((_day(day), {status: columns.standing[status.value] for status in Status}))
        most.append(columns.most)
    limits = list(_limits(tx.rows(store.LIMIT_CHANGES, project=project_id), period))
    agents = sorted({whose for day in most for (_, whose), number in day.items() if whose is not None and number})

    def load(agent: str | None) -> Load:
        return Load(
            agent=agent,
            most={status: [day.get((status.value, agent), 0) for day in most] for status in IN_WORK},
            limits={status: [_limit_of(held, status.value, agent) for held in limits] for status in IN_WORK},
            now={status: columns.in_work[status.value, agent] for status in IN_WORK},
        )

    return Course(flow, load(None), [load(agent) for agent in agents], of=load)


def _at(move: Row) -> int:
    at: int = move[3]
    return at


class _Columns:
    """What stands where, and how much was in work at most since the day began."""

    def __init__(self) -> None:
        self.standing: Counter[str] = Counter()
        self.in_work: Counter[_Whose] = Counter()
        self.most: dict[_Whose, int] = {}
        self._worked_on: dict[str, list[_Whose]] = {}  # by task

    def begin_day(self) -> None:
        self.most = dict(self.in_work)

    def move(self, move: Row) -> None:
        task, came, went, _, agent = move
        if came:
            self.standing[came] -= 1
        self.standing[went] += 1
        for whose in self._worked_on.pop(task, ()):
            self.in_work[whose] -= 1
        if went in IN_WORK:
            self._worked_on[task] = [(went, whose) for whose in {None, agent}]
            self.in_work.update(self._worked_on[task])

    def settle(self) -> None:
        for whose, number in self.in_work.items():
            self.most[whose] = max(number, self.most.get(whose, 0))


def _limits(changes: list[Row], period: Period) -> Iterator[dict[tuple[str, str], int | None]]:
    """The limits at the end of each day, by column and whose."""
    held: dict[tuple[str, str], int | None] = {}
    at = 0
    for day in period.days:
        while at < len(changes) and changes[at][3] < (day + 1) * DAY:
            status, who, limit, _ = changes[at]
            held[status, who] = limit
            at += 1
        yield dict(held)


def _limit_of(held: dict[tuple[str, str], int | None], status: str, agent: str | None) -> int | None:
    if agent is None:
        return held.get((status, store.COLUMN))
    own = held.get((status, agent))
    return held.get((status, store.ANY)) if own is None else own


def _day(day: int) -> str:
    return iso(day * DAY // SECOND * SECOND)[:10]
