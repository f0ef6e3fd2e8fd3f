"""`ringfence event tail`: each event once and in order, whatever happens to the connection."""

import json
import os
import signal
import threading
from collections.abc import Iterator
from typing import Any

from tests.cli.conftest import Cli, until


class Tail:
    """`event tail -f --json`, read as it comes."""

    def __init__(self, cli: Cli, *words: str) -> None:
        self.seen: list[dict[str, Any]] = []
        self.process = cli.start("event", "tail", "-f", "--json", *words)
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.seen.append(json.loads(line))

    def names(self) -> list[str]:
        return [it["data"]["name"] for it in self.seen if it["kind"] == "agent_registered"]

    def end(self) -> str:
        self.process.send_signal(signal.SIGINT)
        self._reader.join(30)
        assert self.process.stderr is not None
        with self.process.stderr as stderr:
            return stderr.read()


def numbers(seen: list[dict[str, Any]]) -> list[int]:
    return [it["seq"] for it in seen]


def agents(prefix: str, count: int) -> Iterator[str]:
    return (f"{prefix}-{number}" for number in range(count))


def test_the_last_events_and_all_after_a_number(cli: Cli) -> None:
    cli.up()
    for name in agents("a", 5):
        cli.api("POST", "/api/v1/crew", name=name)
    last = [json.loads(line) for line in cli.ok("event", "tail", "-n", "3", "--json").splitlines()]
    every = [json.loads(line) for line in cli.ok("event", "tail", "--after", "0", "--json").splitlines()]
    assert last == every[-3:]
    assert numbers(every) == list(range(1, len(every) + 1))
    only = [json.loads(line) for line in cli.ok("event", "tail", "--kind", "agent_registered", "--json").splitlines()]
    assert [it["data"]["name"] for it in only] == list(agents("a", 5))
    assert "agent_registered  " in cli.ok("event", "tail")
    assert cli.ok("event", "tail", "-n", "0") == ""
    assert cli.ok("event", "tail", "--agent", "a-1", "-q").split()


def test_what_follows_is_what_the_log_says(cli: Cli) -> None:
    cli.up()
    cli.api("POST", "/api/v1/crew", name="before")
    tail = Tail(cli, "--after", "0")
    until(lambda: tail.names() == ["before"], "what was before")
    cli.api("POST", "/api/v1/crew", name="meanwhile")
    until(lambda: tail.names() == ["before", "meanwhile"], "what comes")
    tail.end()
    told = [json.loads(line) for line in cli.ok("event", "tail", "--after", "0", "--json").splitlines()]
    assert tail.seen == told[: len(tail.seen)]


def test_nothing_is_lost_or_told_twice_over_a_restart(cli: Cli) -> None:
    cli.up()
    tail = Tail(cli, "-n", "1")
    until(lambda: tail.seen, "it has begun")
    for name in agents("first", 3):
        cli.api("POST", "/api/v1/crew", name=name)
    os.kill(cli.running.server_pid, signal.SIGKILL)
    for name in agents("second", 3):  # they wait for the next server, which sends them to the follower too
        cli.api("POST", "/api/v1/crew", name=name)
    cli.ok("down")
    cli.up()  # at another port
    for name in agents("third", 3):
        cli.api("POST", "/api/v1/crew", name=name)
    wanted = [*agents("first", 3), *agents("second", 3), *agents("third", 3)]
    until(lambda: len(tail.names()) >= 9, "all nine")
    told = tail.end()
    assert tail.names() == wanted
    assert numbers(tail.seen) == list(range(tail.seen[0]["seq"], tail.seen[-1]["seq"] + 1))
    assert "trying again" in told


def test_a_filtered_follower_gets_what_it_asked_for_alone(cli: Cli) -> None:
    cli.up()
    cli.api("POST", "/api/v1/crew", name="one")
    tail = Tail(cli, "-n", "5", "--kind", "agent_paused")
    cli.api("POST", "/api/v1/crew", name="two")
    cli.ok("agent", "pause", "one")
    until(lambda: tail.seen, "the pause")
    tail.end()
    assert [it["kind"] for it in tail.seen] == ["agent_paused"]


def test_an_agent_follows_what_it_may_see(cli: Cli) -> None:
    running = cli.up()
    token = cli.ok("agent", "register", "one").strip()
    tail = Tail(cli, "--url", running.url, "--token", token)

    def seen() -> bool:
        cli.ok("message", "send", "one", "hello")
        return bool(tail.seen)

    until(seen, "a message")
    tail.end()
    assert {it["kind"] for it in tail.seen} == {"message_sent"}
    assert cli("event", "tail", "--url", running.url, "--token", token).code == 4


def test_a_follower_that_is_no_longer_let_in_ends(cli: Cli) -> None:
    running = cli.up()
    token = cli.ok("token", "create", "--name", "guest", "--role", "admin").strip()
    tail = Tail(cli, "--after", "0", "--url", running.url, "--token", token)
    until(lambda: tail.seen, "it has begun")
    mine = next(it for it in cli.json("token", "list") if it["subject"] == "guest")
    cli.ok("token", "revoke", mine["id"], "--yes")
    os.kill(running.server_pid, signal.SIGKILL)
    assert tail.process.wait(30) == 4
    tail.end()
