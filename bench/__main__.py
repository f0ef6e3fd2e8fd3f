"""`script/bench`: a table for people, JSON for machines (bench/results/)."""

import argparse
import json
import os
import platform
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from bench import board, stream
from bench.memory import memory
from bench.race import race
from bench.subjects import Subject, hub, ringfence

PORT = 18_100
# Subscribers, events, and whether one of them reads only afterwards: for what the kernel does not hold for it.
BURSTS = [(1, 400, False), (200, 400, False), (200, 1000, True)]
# The hub's figures from reference runs on two contended cores, shown where no copy of it is given.
PUBLISHED = {
    "GET /ping": (900, 649),
    "create a task": (539, None),
    "claim a task": (780, 939),
    "send a message": (995, 945),
}


@contextmanager
def fresh(rival: Path | None) -> Iterator[list[Subject]]:
    """New servers, side by side; each is idle while the other is measured."""
    with ExitStack() as stack:
        subjects = [stack.enter_context(ringfence(PORT))]
        if rival is not None:
            subjects.append(stack.enter_context(hub(rival, PORT + 1)))
        yield subjects


def measure(rival: Path | None, *, quick: bool) -> dict[str, dict[str, Any]]:
    """Each measurement of the one right after that of the other: what else a machine does changes within minutes."""
    seconds = 1 if quick else 5
    names = ["ringfence", "hub"] if rival else ["ringfence"]
    results: dict[str, dict[str, Any]] = {name: {"board": {}, "stream": [], "burst": []} for name in names}
    with fresh(rival) as subjects:
        for subject in subjects:
            board.register(subject)
        for name, case in board.CASES.items():
            for subject in subjects:
                results[subject.name]["board"][name] = asdict(case(subject, seconds))
        for subject in subjects:
            results[subject.name]["race"] = asdict(race(subject, 100))
            results[subject.name]["resident_mib"] = subject.resident_mib()
    # The hub keeps the queues of subscribers that are gone, so what is measured of streams begins with new servers.
    for count, rate in [(100, 20)] if quick else [(1, 20), (100, 20), (1000, 20), (1000, 100)]:
        with fresh(rival if count <= 100 else None) as subjects:  # a thread for each is what the hub has
            for subject in subjects:
                results[subject.name]["stream"].append(asdict(stream.fan_out(subject, count, rate, seconds)))
    for count, events, stalled in BURSTS:
        with fresh(rival) as subjects:
            for subject in subjects:
                results[subject.name]["burst"].append(asdict(stream.burst(subject, count, events, stalled=stalled)))
    with fresh(rival) as subjects:
        for subject in subjects:
            results[subject.name]["memory"] = asdict(memory(subject, 2_000 if quick else 20_000))
    return results


def tabled(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left")
    for column in ("", *columns):
        table.add_column(column, justify="right" if column else "left", no_wrap=not column)
    return table


def of_board(results: dict[str, Any]) -> Table:
    ours, theirs = results["ringfence"], results.get("hub")
    table = tabled(
        "Board: 16 connections, durable here, in memory there",
        "ringfence /s", "p50 ms", "p99 ms", "CPU µs", "hub /s", "p50 ms", "p99 ms", "CPU µs", "times", "CPU",
    )  # fmt: skip
    for name, mine in ours["board"].items():
        if theirs:
            other = theirs["board"][name]
        else:
            per_second, cpu = PUBLISHED.get(name, (None, None))
            other = {"per_second": per_second, "cpu_us": cpu, "p50_ms": None, "p99_ms": None}
        per_second, cpu = other["per_second"], other["cpu_us"]
        table.add_row(
            name, f"{mine['per_second']:,.0f}", f"{mine['p50_ms']:.1f}", f"{mine['p99_ms']:.1f}",
            f"{mine['cpu_us']:,.0f}",
            f"{per_second:,.0f}" if per_second else "–",
            f"{other['p50_ms']:.1f}" if other["p50_ms"] else "–",
            f"{other['p99_ms']:.1f}" if other["p99_ms"] else "–",
            f"{cpu:,.0f}" if cpu else "–",
            f"{mine['per_second'] / per_second:.1f}×" if per_second else "–",
            f"{mine['cpu_us'] / cpu:.2f}×" if cpu else "–",
        )  # fmt: skip
    return table


def of_streams(results: dict[str, Any]) -> Table:
    table = tabled("Event stream", "subscribers", "events/s", "p50 ms", "p99 ms", "max ms", "lost of", "CPU")
    for name, found in results.items():
        for seen in found["stream"]:
            table.add_row(
                name, f"{seen['subscribers']:,}", str(seen["events_per_second"]), f"{seen['p50_ms']:.1f}",
                f"{seen['p99_ms']:.1f}", f"{seen['max_ms']:.1f}", f"{seen['lost']:,} / {seen['expected']:,}",
                f"{seen['cpu_share']:.0%}",
            )  # fmt: skip
    return table


def of_bursts(results: dict[str, Any]) -> Table:
    table = tabled(
        "A burst of events; where one subscriber is stalled, the others' losses, and what it got when it read again",
        "subscribers", "events", "took s", "lost of", "fewest", "stalled one got",
    )  # fmt: skip
    for name, found in results.items():
        for seen in found["burst"]:
            late = seen["stalled"]
            table.add_row(
                name, str(seen["subscribers"]), f"{seen['events']:,}", f"{seen['seconds']:.1f}",
                f"{seen['lost']:,} / {seen['expected']:,}", f"{seen['fewest']:,}",
                "–" if late is None else f"{late:,}",
            )  # fmt: skip
    return table


def of_rest(results: dict[str, Any]) -> Table:
    table = tabled(
        f"{board.AGENTS} agents claim the same tasks at once; MiB resident",
        "tasks", "claims won", "with one winner", "most winners", "at start", "messages", "then",
    )  # fmt: skip
    for name, found in results.items():
        seen, held = found["race"], found["memory"]
        table.add_row(
            name, str(seen["tasks"]), str(seen["won"]), str(seen["one_winner"]), str(seen["most_winners"]),
            f"{held['before_mib']:.0f}", f"{held['messages']:,}", f"{held['after_mib']:.0f}",
        )  # fmt: skip
    return table


def main() -> None:
    parser = argparse.ArgumentParser(prog="script/bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a second each: whether it runs, not how fast")
    parser.add_argument(
        "--hub", type=Path, metavar="FOLDER", help="a copy of the prior hub in FOLDER/hub, with a venv in FOLDER/venv"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="where the figures go (default: bench/results/)")
    given = parser.parse_args()
    console = Console(width=None if sys.stdout.isatty() else 120)
    about = {
        "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "machine": {"cores": os.cpu_count(), "kernel": platform.release(), "python": platform.python_version()},
        "quick": given.quick,
    }
    results = measure(given.hub, quick=given.quick)
    target = given.json or Path("bench/results") / f"{about['at'].replace(':', '')}.json"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(about | results, indent=2))
    for table in (of_board, of_streams, of_bursts, of_rest):
        console.print(table(results))
    for name, found in results.items():
        for case, seen in found["board"].items():
            if seen["errors"]:
                console.print(f"{name}, {case}: {seen['errors']:,} of {seen['requests']:,} requests failed")
    if given.hub is None:
        console.print("The hub's figures are published ones, from another run; --hub FOLDER runs a copy of it here.")
    console.print(f"Figures: {target}")


if __name__ == "__main__":
    main()
