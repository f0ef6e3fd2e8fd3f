"""How a command ends: its exit code, its one line, and how little it loads."""

import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import RINGFENCE, Cli

HEAVY = (
    "alembic",
    "sqlalchemy",
    "starlette",
    "uvicorn",
    "structlog",
    "ringfence.settings",
    "ringfence.app",
)


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (["nonsense"], 2, "nonsense"),
        (["task", "lsit"], 2, "list"),
        (["task", "list", "--colour"], 2, "--colour"),
        (["task", "show"], 2, "TASK"),
        (["project", "show", "nowhere"], 3, "nowhere"),
        (["agent", "show", "nobody"], 3, "nobody"),
        (["task", "list", "--token", "rfap_wrong"], 4, "token"),
        (["person", "invite", "alice"], 5, "alice"),
        (["status", "--url", "http://127.0.0.1:1"], 7, "127.0.0.1:1"),
        (["status", "--url", "http://no.such.host.invalid"], 7, "no.such.host.invalid"),
        (["status", "--data", "/nowhere"], 7, "ringfence up --data /nowhere"),
        (["status", "--context", "nowhere"], 3, "nowhere"),
        (["event", "tail", "-n", "x"], 2, "--lines"),
        (["project", "create", "bad\udcff"], 2, "UTF-8"),
        (["agent", "show", "bad\udcff"], 2, "UTF-8"),
    ],
)
def test_an_error_is_one_line_and_an_exit_code(office: Cli, words: list[str], code: int, told: str) -> None:
    said = office(*words)
    assert (said.code, said.out) == (code, "")
    assert said.err.count("\n") == 1
    assert said.err.startswith("ringfence: ")
    assert told in said.err


def test_a_role_that_may_not_is_told_so(office: Cli) -> None:
    token = office.ok("token", "create", "--name", "looker", "--role", "viewer").strip()
    said = office("project", "create", "mine", "--token", token, "--url", office.running.url)
    assert said.code == 4
    assert "viewer" in said.err


def test_too_many_messages_end_with_their_own_code(office: Cli) -> None:
    office.api("POST", "/api/v1/crew", name="talker")
    for _ in range(60):
        office.api("POST", "/messages/send", **{"from": "talker", "to": "alice", "content": "x"})
    said = office("message", "send", "alice", "x", "--from", "talker")
    assert said.code == 6
    assert said.err.count("\n") == 1


def test_a_bare_noun_shows_its_verbs(cli: Cli) -> None:
    said = cli("task")
    assert said.code == 2
    assert "claim-next" in said.out + said.err


def test_a_reader_that_goes_away_is_no_error(office: Cli) -> None:
    for words in ("audit log -n 500", "event tail -f --after 0", "task --help", "audit log --json"):
        line = f"{shlex.quote(RINGFENCE)} {words} | head -n 1"
        ended = subprocess.run(
            ["bash", "-o", "pipefail", "-c", f"{line}; exit ${{PIPESTATUS[0]}}"],
            capture_output=True, text=True, env=office.env, timeout=60, check=False,
        )  # fmt: skip
        assert (ended.returncode, ended.stderr) == (0, ""), words


def test_an_interrupt_ends_it_quietly(office: Cli) -> None:
    process = office.start("event", "tail", "-f", "--after", "0")
    assert process.stdout is not None
    assert process.stdout.readline()
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=30)[1] == ""
    assert process.returncode == 130


@pytest.mark.parametrize("words", ["version", "--help", "audit log -n 1", "audit log -n 500 --json", "task --help"])
def test_a_full_disk_under_the_output_is_told(office: Cli, words: str) -> None:
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(
            [RINGFENCE, *words.split()], stdout=full, stderr=subprocess.PIPE, text=True, env=office.env, check=False
        )
    assert ended.returncode == 1
    assert ended.stderr == "ringfence: the output cannot be written: the disk under it is full\n"


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_stream_that_is_closed_is_no_mistake(office: Cli, closed: str) -> None:
    for words, code in (("version", 0), ("project list", 0), ("project show nowhere", 3)):
        ended = subprocess.run(
            ["bash", "-c", f"{shlex.quote(RINGFENCE)} {words} {closed}"],
            capture_output=True,
            text=True,
            env=office.env,
            check=False,
        )
        assert ended.returncode == code, ended.stderr
        assert "mistake" not in ended.stderr


def test_what_is_not_needed_is_not_imported(office: Cli) -> None:
    """A task list is there in a fifth of a second because of what it leaves out."""
    code = (
        "import sys; from ringfence.cli.main import main; code = main();"
        f"print([name for name in {HEAVY!r} if name in sys.modules], code, file=sys.stderr)"
    )
    for words in (["--help"], ["task", "list"], ["event", "tail"], ["status"], ["down", "--data", "/nowhere"]):
        ended = subprocess.run(
            [sys.executable, "-P", "-c", code, *words], capture_output=True, text=True, env=office.env, check=True
        )
        assert ended.stderr.endswith("[] 0\n"), (words, ended.stderr)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shells_completion_script_is_printed(cli: Cli, shell: str) -> None:
    assert "_RINGFENCE_COMPLETE" in cli.ok("completion", shell)
    assert cli("completion", "tcsh").code == 2


def test_bash_completes_nouns_verbs_and_options(cli: Cli) -> None:
    script = cli.ok("completion", "bash")

    def completed(*words: str) -> set[str]:
        asked = f"""{script}
            COMP_WORDS=({" ".join(words)} ''); COMP_WORDS[{len(words) - 1}]={words[-1]}; COMP_CWORD={len(words) - 1}
            _ringfence_completion ringfence; printf '%s\\n' "${{COMPREPLY[@]}}" """
        path = f"{Path(RINGFENCE).parent}:{cli.env['PATH']}"
        ended = subprocess.run(
            ["bash", "-c", asked], capture_output=True, text=True, env={**cli.env, "PATH": path}, check=True
        )
        return set(ended.stdout.split())

    assert completed("ringfence", "ta") == {"task"}
    assert completed("ringfence", "task", "cl") == {"claim", "claim-next"}
    assert "--project" in completed("ringfence", "task", "list", "--pr")
    assert completed("ringfence", "task", "list", "--status", "in_") == {"in_progress", "in_review"}


def test_the_version_is_printed(cli: Cli) -> None:
    import ringfence

    assert cli.ok("version") == f"ringfence {ringfence.__version__}\n"
    assert cli.json("version") == {"version": ringfence.__version__}


def test_a_mistake_of_ours_is_told_without_a_traceback(cli: Cli) -> None:
    code = (
        "import sys, ringfence.cli.shell as shell; from ringfence.cli.main import main;"
        "shell.ringfence = None; sys.exit(main())"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code, "version"], capture_output=True, text=True, env=cli.env, check=False
    )
    assert ended.returncode == 1
    assert ended.stderr.count("\n") == 1
    assert "mistake in Ringfence" in ended.stderr
