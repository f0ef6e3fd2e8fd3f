"""How a project is doing: cycle times, throughput, rework, and how its columns filled over time."""

import math
from collections import Counter
from dataclasses import dataclass

from ringfence.board import store
from ringfence.board.model import Status
from ringfence.kernel.clock import DAY, MINUTE, SECOND, iso
from ringfence.kernel.database import Transaction

DAYS = 366


@dataclass(frozen=True, slots=True)
class Summary:
    """`average` and `per_agent` are of the tasks that are done now; the rest counts every completion, so that a task
    which was reopened and done again counts twice."""

    by_status: dict[str, int]
    average_minutes: float
    done_per_agent: dict[str, int]
    cycle_minutes: list[float]
    completions: int
    reworked: int


def summary(tx: Transaction, project_id: str, since: int) -> Summary:
    counts: dict[str, int] = {str(status): 0 for status in Status}
    counts.update({row[0]: row[1] for row in tx.rows(store.COUNT_BY_STATUS, project=project_id)})
    cycles = [row[0] for row in tx.rows(store.CYCLES_OF_DONE, project=project_id)]
    completions = tx.rows(store.COMPLETIONS, project=project_id, since=since)
    return Summary(
        by_status=counts,
        average_minutes=round(sum(cycles) / len(cycles) / MINUTE, 1) if cycles else 0.0,
        done_per_agent={row[0]: row[1] for row in sorted(tx.rows(store.DONE_BY_AGENT, project=project_id))},
        cycle_minutes=[round((done - start) / MINUTE, 2) for _, start, done, _ in completions if start is not None],
        completions=len(completions),
        reworked=sum(1 for row in completions if row[3]),
    )


def quantile(sorted_values: list[float], share: float) -> float | None:
    """The least value that at least `share` of them do not exceed."""
    if not sorted_values:
        return None
    return sorted_values[max(0, math.ceil(share * len(sorted_values) - 1e-9) - 1)]


def per_agent(tx: Transaction, project_id: str, since: int) -> list[dict[str, object]]:
    cycles: dict[str, list[float]] = {}
    for agent, start, done, _ in tx.rows(store.COMPLETIONS, project=project_id, since=since):
        cycles.setdefault(agent or "", []).append((done - (start if start is not None else done)) / MINUTE)
    return [
        {
            "agent": agent or None,
            "completed": len(times),
            "avg_cycle_time_minutes": round(sum(times) / len(times), 1),
            "median_cycle_time_minutes": round(quantile(sorted(times), 0.5) or 0.0, 1),
        }
        for agent, times in sorted(cycles.items())
    ]


def throughput(tx: Transaction, project_id: str, now: int, days: int) -> list[dict[str, object]]:
    """Tasks completed on each of the last `days` days, today last."""
    today = now // DAY
    done = Counter(
        row[2] // DAY for row in tx.rows(store.COMPLETIONS, project=project_id, since=(today - days + 1) * DAY)
    )
    return [{"day": _day(day), "completed": done[day]} for day in range(today - days + 1, today + 1)]


def flow(tx: Transaction, project_id: str, now: int, days: int) -> list[dict[str, object]]:
    """How many tasks stood in each column at the end of each of the last `days` days: the cumulative flow."""
    today = now // DAY
    standing: Counter[str] = Counter()
    ends: list[dict[str, object]] = []
    rows = tx.rows(store.MOVES_OF_PROJECT, project=project_id)
    at = 0
    for day in range(today - days + 1, today + 1):
        while at < len(rows) and rows[at][3] < (day + 1) * DAY:
            _, came, went, _ = rows[at]
            if came:
                standing[came] -= 1
            if went:
                standing[went] += 1
            at += 1
        ends.append({"day": _day(day), **{str(status): standing[status.value] for status in Status}})
    return ends


def _day(day: int) -> str:
    return iso(day * DAY // SECOND * SECOND)[:10]
