"""Programs, files and ports of sandboxes from the command line; and `ringfence run`."""

import shutil
import signal
import subprocess
import tempfile
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import RINGFENCE, Cli, Terminal, until
from warden import build


@pytest.fixture(scope="module")
def house() -> Iterator[Cli]:
    """In a folder whose parents every user may pass through: run by root, sandboxes are users of their own."""
    build.build()
    home = Path(tempfile.mkdtemp(prefix="rf-inside-", dir="/var/tmp"))
    home.chmod(0o711)
    found = Cli(home)
    try:
        found.up()
        yield found
    finally:
        found("down", "--all")
        shutil.rmtree(home)


@pytest.fixture
def web(house: Cli) -> Iterator[str]:
    name = str(house.json("sandbox", "create")["name"])
    yield name
    house.ok("sandbox", "rm", name, "--yes")


def living(house: Cli) -> list[str]:
    return [it["name"] for it in house.json("sandbox", "list")]


# Run ------------------------------------------------------------------------------------------------------------------


def test_one_command_in_a_fresh_sandbox_which_is_gone_afterwards(house: Cli) -> None:
    assert house.ok("run", "--", "python3", "-V").startswith("Python 3")
    said = house("run", "sh", "-c", "echo out; echo err >&2; exit 7")
    assert (said.code, said.out, said.err) == (7, "out\n", "err\n")
    assert house("run", "--", "sh", "-c", "kill -9 $$").code == 137
    assert house.ok("run", "--", "cat", given="piped\n") == "piped\n"
    assert house.ok("run", "-n", "--", "cat", given="piped\n") == ""
    assert (
        house.ok("run", "-e", "A=b", "-w", "/tmp", "--memory", "100M", "--", "sh", "-c", "echo $A; pwd") == "b\n/tmp\n"
    )
    assert living(house) == []


def test_what_it_works_on_is_copied_there(house: Cli) -> None:
    (house.home / "src" / "deep").mkdir(parents=True)
    (house.home / "src/deep/file").write_text("found\n")
    assert house.ok("run", "--cp", "src", "--", "cat", "src/deep/file") == "found\n"
    assert house.ok("run", "--cp", "src/deep/file:/tmp/other", "--", "cat", "/tmp/other") == "found\n"
    assert house("run", "--cp", "nothing", "--", "true").code == 3
    assert living(house) == []


def test_a_command_that_does_not_run_says_why_and_leaves_nothing(house: Cli) -> None:
    missing = house("run", "--", "no-such-program")
    assert missing.code == 127
    assert "no-such-program could not be started" in missing.err
    slow = house("run", "--timeout", "0.3s", "--", "sleep", "60")
    assert (slow.code, slow.err) == (124, "ringfence: it was ended after 0.3 s\n")
    assert "which command?" in house("run").err
    refused = house("run", "--memory", "1", "--", "true")
    assert (refused.code, refused.err.startswith("ringfence: memory:")) == (1, True)
    assert house("run", "-t", "--", "true").code == 2
    assert living(house) == []


def test_it_stays_when_that_is_asked_for(house: Cli) -> None:
    said = house("run", "--keep", "--", "touch", "/workspace/made")
    [name] = living(house)
    assert f"ringfence sandbox rm {name}" in said.err
    assert "made" in house.ok("sandbox", "ls", name)
    house.ok("sandbox", "rm", name, "--yes")


def test_as_json_it_is_one_document(house: Cli) -> None:
    said = house("run", "--json", "--", "sh", "-c", "echo hi; exit 4")
    assert (said.code, said.json["stdout"], said.json["code"]) == (4, "hi\n", 4)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_goes_to_the_command_and_the_sandbox_is_removed(house: Cli, number: int) -> None:
    line = f"trap 'echo caught; exit 9' {number}; echo ready; while :; do sleep 0.05; done"
    with subprocess.Popen(
        [RINGFENCE, "run", "--", "sh", "-c", line], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
        env=house.env, cwd=house.home,
    ) as running:  # fmt: skip
        assert running.stdout is not None
        assert running.stdout.readline() == "ready\n"
        running.send_signal(number)
        assert running.stdout.read() == "caught\n"
    assert running.returncode == 9
    assert living(house) == []


def test_a_command_that_ignores_ctrl_c_is_left_at_the_third(house: Cli) -> None:
    line = "trap 'echo never' INT; echo ready; while :; do sleep 0.05; done"
    terminal = Terminal(house, "run", "--", "sh", "-c", line)
    terminal.see("ready")
    for said in ("never", "(?s)never.*never"):
        terminal.type("\x03")
        terminal.see(said)
    terminal.type("\x03")
    assert terminal.end() == 130
    assert living(house) == []


# Exec -----------------------------------------------------------------------------------------------------------------


def test_a_program_in_a_sandbox_that_is_there(house: Cli, web: str) -> None:
    said = house("sandbox", "exec", web, "--", "sh", "-c", "printf 'a\\377'|wc -c; echo oops >&2; exit 5")
    assert (said.code, said.out, said.err) == (5, "2\n", "oops\n")
    assert house.ok("sandbox", "exec", "-e", "A=b", "-w", "/tmp", web, "sh", "-c", "echo $A $PWD") == "b /tmp\n"
    assert house.ok("sandbox", "exec", web, "cat", given="x" * 300_000) == "x" * 300_000
    misplaced = house("sandbox", "exec", web, "-e", "A=b", "--", "env")
    assert (misplaced.code, "options stand before the sandbox" in misplaced.err) == (2, True)
    assert "which command?" in house("sandbox", "exec", web).err
    house.api("POST", f"/api/v1/sandboxes/{web}/stop", grace=0)
    stopped = house("sandbox", "exec", web, "true")
    assert (stopped.code, "start it first" in stopped.err) == (5, True)


def test_a_program_that_goes_on_by_itself(house: Cli, web: str) -> None:
    begun = house.ok("-q", "sandbox", "exec", "-d", web, "sleep", "60").strip()
    assert house.api("GET", f"/api/v1/sandboxes/{web}/execs/{begun}")["state"] == "running"


def test_a_terminal_is_handed_through(house: Cli, web: str) -> None:
    terminal = Terminal(house, "sandbox", "exec", "-it", web, "sh", columns=77)
    terminal.see(r"\$ ")
    terminal.type("tty; echo $((40 + 2))\r")
    terminal.see("/dev/pts/0\r\n42")
    terminal.type("echo so $((1 + 3)); sleep 60\r")
    terminal.see("so 4")
    terminal.type("\x03")
    terminal.see(r"\^C")
    terminal.type("echo still $((1 + 1))\r")
    terminal.see("still 2")
    terminal.type("exit 6\r")
    assert terminal.end() == 6


# Files ----------------------------------------------------------------------------------------------------------------


def test_files_and_folders_are_copied_as_cp_does(house: Cli, web: str) -> None:
    tree = house.home / f"tree-{web}"
    (tree / "sub").mkdir(parents=True)
    (tree / "sub/file").write_text("text\n")
    house.ok("sandbox", "cp", tree.name, f"{web}:/workspace")
    assert house.ok("sandbox", "cat", f"{web}:{tree.name}/sub/file") == "text\n"
    house.ok("sandbox", "cp", f"{tree.name}/sub/file", f"{web}:new/named")
    house.ok("sandbox", "cp", f"{tree.name}/sub/file", f"{web}:new/")
    assert {it["name"] for it in house.json("sandbox", "ls", f"{web}:new")} == {"named", "file"}
    house.ok("sandbox", "cp", f"{web}:{tree.name}", f"back-{web}")
    assert (house.home / f"back-{web}/sub/file").read_text() == "text\n"
    house.ok("sandbox", "cp", f"{web}:new/named", ".")
    assert (house.home / "named").read_text() == "text\n"
    house.ok("sandbox", "cp", "-", f"{web}:given", given="of the input")
    assert house.ok("sandbox", "cp", f"{web}:given", "-") == "of the input"


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (("a", "b"), 2, "one of SRC and DST"),
        (("{web}:a", "{web}:b"), 2, "one of SRC and DST"),
        (("nothing", "{web}:a"), 3, "there is no nothing here"),
        (("{web}:nothing", "a"), 3, "there is no /workspace/nothing"),
        (("{web}:/workspace", "-"), 2, "is a folder"),
        (("nosuch:a", "b"), 3, "there is no sandbox 'nosuch'"),
        (("-", "{web}:/usr/x"), 4, "Read-only file system"),
    ],
)
def test_a_copy_that_cannot_be_made_says_why(
    house: Cli, web: str, words: tuple[str, str], code: int, told: str
) -> None:
    said = house("sandbox", "cp", *(word.format(web=web) for word in words))
    assert (said.code, told in said.err) == (code, True), said


def test_names_that_mean_harm_to_a_terminal_are_shown_inert(house: Cli, web: str) -> None:
    house.ok("sandbox", "exec", web, "python3", "-c", "open('\\x1b[31mred\\nline', 'w')")
    assert "\\x1b[31mred\\nline" in house.ok("sandbox", "ls", web)


def test_changes_are_watched(house: Cli, web: str) -> None:
    with subprocess.Popen(
        [RINGFENCE, "sandbox", "watch", "-r", web], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=house.env, cwd=house.home,
    ) as watching:  # fmt: skip
        assert watching.stdout is not None
        assert watching.stderr is not None
        assert "watching" in watching.stderr.readline()
        house.ok("sandbox", "exec", web, "mkdir", "new")
        assert watching.stdout.readline().split() == ["created", "new"]
        watching.send_signal(signal.SIGINT)
    assert watching.returncode == 130


# Ports ----------------------------------------------------------------------------------------------------------------


def test_a_port_is_listed_and_forwarded(house: Cli, web: str) -> None:
    assert house.json("sandbox", "ports", web) == []
    house.ok("sandbox", "cp", "-", f"{web}:index.html", given="from inside")
    house.ok("sandbox", "exec", "-d", web, "python3", "-m", "http.server", "8000")
    until(lambda: [it["port"] for it in house.json("sandbox", "ports", web)] == [8000], "it listens")
    with subprocess.Popen(
        [RINGFENCE, "sandbox", "forward", web, "0:8000"], stdout=subprocess.PIPE, text=True, env=house.env,
        cwd=house.home,
    ) as forwarding:  # fmt: skip
        assert forwarding.stdout is not None
        url = forwarding.stdout.readline().split()[0]
        with urllib.request.urlopen(url, timeout=20) as answer:
            assert answer.read() == b"from inside"
        forwarding.send_signal(signal.SIGINT)
    assert forwarding.returncode == 130
    assert house("sandbox", "forward", web, "x:y").code == 2
