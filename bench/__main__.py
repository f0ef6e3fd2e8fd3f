"""`script/bench`: a table for people, JSON for machines (bench/results/)."""

import argparse
import json
import os
import platform
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from bench import board, stream
from bench.subjects import Subject, hub, ringfence

PORT = 18_100
# The hub's figures from reference runs on two contended cores, shown where no copy of it is given.
PUBLISHED = {
    "GET /ping": (900, 649),
    "create a task": (539, None),
    "claim a task": (780, 939),
    "send a message": (995, 945),
    "ready queue of 2,200": (50, None),
}


def measure(subject: Subject, seconds: float, streams: list[tuple[int, int]]) -> dict[str, Any]:
    return {
        "board": {case.name: asdict(case.load) for case in board.cases(subject, seconds)},
        "stream": [asdict(stream.fan_out(subject, count, rate, seconds)) for count, rate in streams],
        "resident_mib": subject.resident_mib(),
    }


def show(console: Console, results: dict[str, Any]) -> None:
    ours, theirs = results["ringfence"], results.get("hub")
    table = Table(title="Board: 16 connections, durable here, in memory there", title_justify="left")
    for column in ("", "ringfence /s", "p50 ms", "p99 ms", "CPU µs", "hub /s", "CPU µs", "times"):
        table.add_column(column, justify="left" if not column else "right")
    for name, mine in ours["board"].items():
        published = PUBLISHED.get(name, (None, None))
        other = (theirs["board"][name]["per_second"], theirs["board"][name]["cpu_us"]) if theirs else published
        figures = (
            f"{mine['per_second']:,.0f}",
            f"{mine['p50_ms']:.1f}",
            f"{mine['p99_ms']:.1f}",
            f"{mine['cpu_us']:.0f}",
        )
        beside = [f"{value:,.0f}" if value else "–" for value in other]
        times = f"{mine['per_second'] / other[0]:.1f}×" if other[0] else "–"
        table.add_row(name, *figures, *beside, times)
    console.print(table)
    table = Table(title="Event stream", title_justify="left")
    for column in ("", "subscribers", "events/s", "p50 ms", "p99 ms", "max ms", "lost of", "CPU"):
        table.add_column(column, justify="left" if not column else "right")
    for name in [name for name in ("ringfence", "hub") if name in results]:
        for seen in results[name]["stream"]:
            table.add_row(
                name, f"{seen['subscribers']:,}", str(seen["events_per_second"]), f"{seen['p50_ms']:.1f}",
                f"{seen['p99_ms']:.1f}", f"{seen['max_ms']:.1f}", f"{seen['lost']:,} / {seen['expected']:,}",
                f"{seen['cpu_share']:.0%}",
            )  # fmt: skip
    console.print(table)
    if theirs is None:
        console.print("The hub's figures are published ones, from another run; --hub FOLDER runs a copy of it here.")


def main() -> None:
    parser = argparse.ArgumentParser(prog="script/bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a second each: whether it runs, not how fast")
    parser.add_argument(
        "--hub", type=Path, metavar="FOLDER", help="a copy of the prior hub, with a venv in FOLDER/venv"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="where the figures go (default: bench/results/)")
    given = parser.parse_args()
    seconds = 1 if given.quick else 5
    console = Console()
    results: dict[str, Any] = {
        "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "machine": {"cores": os.cpu_count(), "kernel": platform.release(), "python": platform.python_version()},
    }
    with ringfence(PORT) as subject:
        ours = [(100, 20)] if given.quick else [(1, 20), (100, 20), (1000, 20), (1000, 100)]
        results["ringfence"] = measure(subject, seconds, ours)
    if given.hub:
        with hub(given.hub, PORT + 1) as subject:
            results["hub"] = measure(subject, seconds, [(100, 20)] if given.quick else [(1, 20), (100, 20)])
    target = given.json or Path("bench/results") / f"{results['at'].replace(':', '')}.json"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(results, indent=2))
    show(console, results)
    console.print(f"Figures: {target}")


if __name__ == "__main__":
    main()
