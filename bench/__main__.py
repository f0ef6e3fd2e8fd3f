"""`script/bench [board] [fence]`: tables for people, JSON for machines (bench/results/)."""

import argparse
import asyncio
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

from bench import board, fence, rivals, stream
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


def measure_fence(*, quick: bool) -> dict[str, Any]:
    """Sandboxes, and right beside them what else starts a program apart from all others on this machine."""
    count, alive = (10, 20) if quick else (100, 1000)
    found: dict[str, Any] = {"load": os.getloadavg()[0]}
    with ringfence(PORT) as subject:
        asyncio.run(fence.sequential(subject, 3))  # the first look at everything is not what is measured
        found["sequential"] = asdict(asyncio.run(fence.sequential(subject, count)))
        found["bwrap"] = asdict(rivals.bubblewrap(count))
        found["staggered"] = asdict(asyncio.run(fence.staggered(subject, count)))
        found["burst"] = asdict(asyncio.run(fence.burst(subject, count)))
        found["exec"] = asdict(asyncio.run(fence.execs(subject, 10 * count)))
        found["fork"] = asdict(rivals.fork(10 * count))
        found["streamed"] = asyncio.run(fence.streamed(subject, fence.STREAMED // (8 if quick else 1)))
        found["files"] = asdict(asyncio.run(fence.files(subject, fence.FILE // (8 if quick else 1))))
        found["crowd"] = asdict(asyncio.run(fence.crowd(subject, alive, alive)))
    with rivals.docker() as docker:
        found["docker"] = None if docker is None else rivals.of_docker(docker, count // 5)
    return found


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


def of_fence(found: dict[str, Any]) -> Table:
    docker = found["docker"]
    table = tabled(
        f"Sandboxes, over HTTP (load {found['load']:.1f} at the start)",
        "median ms", "p99 ms", "most ms", "beside", "median ms", "times",
    )  # fmt: skip

    def row(what: str, ours: dict[str, Any], name: str, theirs: dict[str, Any] | None) -> None:
        table.add_row(
            what, f"{ours['median']:.1f}", f"{ours['p99']:.1f}", f"{ours['most']:.1f}", name,
            f"{theirs['median']:.1f}" if theirs else "–",
            f"{theirs['median'] / ours['median']:.2f}×" if theirs else "–",
        )  # fmt: skip

    row("create and `python3 -V`", found["sequential"], "docker run", docker and docker["run"])
    row("", found["sequential"], "bwrap … true", found["bwrap"])
    row("… begun every 200 ms", found["staggered"], "", None)
    row("… all at once", found["burst"]["times"], "", None)
    row("exec `true`", found["exec"], "docker exec", docker and docker["exec"])
    row("", found["exec"], "fork and exec", found["fork"])
    row(f"exec among {found['crowd']['alive']:,}", found["crowd"]["exec"], "", None)
    return table


def of_crowd(found: dict[str, Any]) -> Table:
    crowd, docker = found["crowd"], found["docker"]
    table = tabled("… and what they cost", "", "docker")

    def row(what: str, ours: float | None, form: str, theirs: float | None = None) -> None:
        table.add_row(what, *("–" if one is None else form.format(one) for one in (ours, theirs)))

    row(f"all of {found['burst']['times']['count']} at once, s", found["burst"]["wall"], "{:.2f}")
    row("output streamed, MB/s", found["streamed"], "{:.0f}")
    row("one file written, MB/s", found["files"]["written"], "{:.0f}")
    row("one file read, MB/s", found["files"]["read"], "{:.0f}")
    row("created /s", crowd["created_per_second"], "{:.0f}")
    row("destroyed /s", crowd["destroyed_per_second"], "{:.0f}")
    row("KiB each, idle: processes (PSS)", crowd["pss"], "{:.0f}", docker and docker["pss"])
    row("KiB each: what the server grew by", crowd["server"], "{:.0f}")
    row("KiB each: what the machine has less", crowd["machine"], "{:.0f}")
    return table


def show_board(console: Console, results: dict[str, Any], *, rival: bool) -> None:
    for table in (of_board, of_streams, of_bursts, of_rest):
        console.print(table(results))
    for name, found in results.items():
        for case, seen in found["board"].items():
            if seen["errors"]:
                console.print(f"{name}, {case}: {seen['errors']:,} of {seen['requests']:,} requests failed")
    if not rival:
        console.print("The hub's figures are published ones, from another run; --hub FOLDER runs a copy of it here.")


def show_fence(console: Console, found: dict[str, Any]) -> None:
    for table in (of_fence, of_crowd):
        console.print(table(found))
    if found["docker"] is None:
        console.print(f"Docker was not measured: {rivals.without_docker()}")


def main() -> None:
    parser = argparse.ArgumentParser(prog="script/bench", description=__doc__)
    parser.add_argument("rooms", nargs="*", metavar="ROOM", help="board, fence; both, when none is named")
    parser.add_argument("--quick", action="store_true", help="a second each: whether it runs, not how fast")
    parser.add_argument(
        "--hub", type=Path, metavar="FOLDER", help="a copy of the prior hub in FOLDER/hub, with a venv in FOLDER/venv"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="where the figures go (default: bench/results/)")
    given = parser.parse_args()
    if unknown := set(given.rooms) - {"board", "fence"}:
        parser.error(f"nothing is measured of {', '.join(sorted(unknown))}: board and fence are")
    console = Console(width=None if sys.stdout.isatty() else 120)
    about = {
        "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "machine": {"cores": os.cpu_count(), "kernel": platform.release(), "python": platform.python_version()},
        "quick": given.quick,
    }
    rooms = given.rooms or ["board", "fence"]
    results: dict[str, Any] = measure(given.hub, quick=given.quick) if "board" in rooms else {}
    sandboxes = measure_fence(quick=given.quick) if "fence" in rooms else None
    target = given.json or Path("bench/results") / f"{about['at'].replace(':', '')}.json"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(about | results | {"fence": sandboxes}, indent=2))
    if results:
        show_board(console, results, rival=given.hub is not None)
    if sandboxes is not None:
        show_fence(console, sandboxes)
    console.print(f"Figures: {target}")


if __name__ == "__main__":
    main()
