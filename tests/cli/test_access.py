"""Tokens, people, signing in, and how a command finds its server."""

import json
import stat
from pathlib import Path
from typing import Any

import pytest

from ringfence.cli.places import Context, Contexts, Wanted
from ringfence.cli.problems import Problem, Unreachable, Usage
from tests.cli.conftest import Cli, Terminal


@pytest.fixture
def visitor(tmp_path: Path, office: Cli) -> Cli:
    """Somebody on another machine: they know the office's address alone."""
    return Cli(tmp_path)


# Tokens ---------------------------------------------------------------------------------------------------------------


def test_a_token_made_while_stopped_opens_the_server_later(cli: Cli) -> None:
    token = cli.ok("token", "create", "--role", "admin", "--name", "ci", "--data", cli.data).strip()
    assert token.startswith("rfap_")
    assert " " not in token
    running = cli.up()
    assert cli.json("status", "--url", running.url, "--token", token)["you"] == "ci"


def test_a_token_made_while_running_goes_through_the_server(cli: Cli) -> None:
    running = cli.up()
    token = cli.ok("token", "create", "--role", "operator", "--name", "ci", "--data", cli.data).strip()
    assert cli.json("status", "--url", running.url, "--token", token)["role"] == "operator"


def test_a_token_made_while_stopped_obeys_the_same_rules(cli: Cli) -> None:
    said = cli("token", "create", "--name", "no name", "--data", cli.data)
    assert (said.code, said.err.count("\n")) == (1, 1)
    assert "not possible" in said.err
    assert cli("token", "create", "--name", "ci", "--role", "king", "--data", cli.data).code == 2


def test_four_made_at_once_while_stopped_wait_for_each_other(cli: Cli) -> None:
    made = [cli.start("token", "create", "--name", f"ci{number}", "--data", str(cli.data)) for number in range(4)]
    tokens = {one.communicate(timeout=60)[0] for one in made}
    assert [one.returncode for one in made] == [0] * 4
    assert len(tokens) == 4


def test_tokens_are_listed_and_revoked(office: Cli) -> None:
    token = office.ok("token", "create", "--name", "passing", "--note", "for a test").strip()
    mine = [it for it in office.json("token", "list") if it["subject"] == "passing"]
    assert [it["note"] for it in mine] == ["for a test"]
    assert mine[0]["id"] in office.ok("token", "list")
    assert office("token", "revoke", mine[0]["id"]).code == 2  # nobody can be asked
    assert office("status", "--url", office.running.url, "--token", token).code == 0
    office.ok("token", "revoke", mine[0]["id"][-8:], "--yes")
    assert office("status", "--url", office.running.url, "--token", token).code == 4
    assert mine[0]["id"] not in office.ok("token", "list")
    assert mine[0]["id"] in office.ok("token", "list", "--all")


def test_an_enrolment_token_registers_as_many_agents_as_it_says(office: Cli) -> None:
    token = office.ok("enrolment", "create", "--uses", "1").strip()
    url = office.running.url
    assert office("agent", "register", "enrolled-1", "--url", url, "--token", token).code == 0
    assert office("agent", "register", "enrolled-2", "--url", url, "--token", token).code == 4


# People ---------------------------------------------------------------------------------------------------------------


def test_people_are_invited_changed_and_disabled(office: Cli) -> None:
    invited = office.json("person", "invite", "bob", "--role", "viewer")
    assert "/signin?code=" in invited["signin_url"]
    assert "/signin?code=" in office.ok("person", "invite", "carol")
    assert office("person", "invite", "bob").code == 5
    office.ok("person", "change", "bob", "--role", "operator")
    assert office("person", "change", "bob", "--disable").code == 2
    assert office.json("person", "change", "bob", "--disable", "--yes")["disabled"]
    assert not office.json("person", "change", "bob", "--enable")["disabled"]
    assert {it["name"]: it["role"] for it in office.json("person", "list")}["bob"] == "operator"
    assert "bob" in office.ok("person", "list")
    assert office("person", "change", "bob").code == 2
    assert office("person", "change", "nobody", "--role", "viewer").code == 3


def test_a_link_for_somebody_else(office: Cli) -> None:
    office.ok("person", "invite", "dave")
    assert "/signin?code=" in office.ok("login", "--link", "--person", "dave")
    assert "/signin?code=" in office.json("login", "--link")["url"]


# Signing in -----------------------------------------------------------------------------------------------------------


def test_login_keeps_a_token_read_from_a_pipe_and_logout_revokes_it(office: Cli, visitor: Cli) -> None:
    url = office.running.url
    token = office.ok("token", "create", "--role", "operator", "--name", "erin").strip()
    assert visitor("project", "list").code == 7
    assert "erin (operator)" in visitor.ok("login", url + "/", given=token + "\n")
    assert stat.S_IMODE((visitor.config / "contexts.json").stat().st_mode) == 0o600
    assert visitor.json("status")["you"] == "erin"
    assert visitor.json("status", "--url", url)["you"] == "erin"  # a known address
    assert visitor.ok("config", "current-context").strip() == url.removeprefix("http://")
    visitor.ok("logout")
    assert visitor("status").code == 7
    assert visitor("status", "--url", url, "--token", token).code == 4
    assert visitor("logout").code == 3


def test_login_asks_for_the_token_and_does_not_show_it(office: Cli, visitor: Cli) -> None:
    token = office.ok("token", "create", "--name", "frank").strip()
    terminal = Terminal(visitor, "login", office.running.url)
    terminal.see("Token for http")
    terminal.type(token + "\n")
    assert terminal.end() == 0
    assert "Signed in" in terminal.screen
    assert token not in terminal.screen


def test_a_wrong_token_is_not_kept(office: Cli, visitor: Cli) -> None:
    said = visitor("login", office.running.url, given="rfap_wrong\n")
    assert said.code == 4
    assert not (visitor.config / "contexts.json").exists()
    assert visitor("login", office.running.url, given="").code == 4
    assert visitor("login", "nonsense", given="x\n").code == 2
    assert visitor("login").code == 2


# Finding the server ---------------------------------------------------------------------------------------------------


def test_flags_win_over_the_environment_which_wins_over_the_context(office: Cli, visitor: Cli) -> None:
    url, token = office.running.url, office.running.token
    assert visitor.json("status", RINGFENCE_URL=url, RINGFENCE_TOKEN=token)["found_by"] == "RINGFENCE_URL"
    assert visitor("status", RINGFENCE_URL=url).code == 0  # without a token: whether it runs, not who you are
    assert visitor("project", "list", RINGFENCE_URL=url).code == 4
    env: dict[str, Any] = {"RINGFENCE_URL": "http://127.0.0.1:1", "RINGFENCE_TOKEN": token}
    assert visitor.json("status", "--url", url, **env)["found_by"] == "--url"
    assert visitor.json("--url", url, "status", **env)["found_by"] == "--url"
    assert visitor.json("status", "--data", office.data, **env)["url"] == url
    assert visitor("status", **env).code == 7
    assert visitor("status", "--url", url, "--data", office.data).code == 2


def test_contexts_are_set_used_listed_and_forgotten(office: Cli, visitor: Cli) -> None:
    url, token = office.running.url, office.running.token
    assert visitor("config", "set-context", "work").code == 2
    assert visitor("config", "set-context", "work", "--url", "work.example").code == 2
    visitor.ok("config", "set-context", "work", "--url", url, "--token", token)
    visitor.ok("config", "set-context", "here", "--data", office.data, "--use")
    assert visitor.json("status")["url"] == url
    visitor.ok("config", "use-context", "work")
    assert [it["name"] for it in visitor.json("config", "get-contexts") if it["current"]] == ["work"]
    assert token not in visitor.ok("config", "get-contexts")
    assert visitor.json("status", "--context", "here")["found_by"] == "context 'here'"
    assert visitor("config", "use-context", "nowhere").code == 3
    visitor.ok("config", "set-context", "work", "--url", "http://127.0.0.1:1")
    assert visitor("status").code == 7
    kept = json.loads((visitor.config / "contexts.json").read_text())
    assert kept["contexts"]["work"]["token"] is None  # it was for the other address
    assert visitor("config", "delete-context", "work").code == 2
    visitor.ok("config", "delete-context", "work", "--yes")
    assert visitor("config", "current-context").code == 3
    assert visitor.ok("config", "use-context", "-")


def test_a_token_goes_to_no_other_server_than_the_one_it_is_for(tmp_path: Path) -> None:
    contexts = Contexts(tmp_path)
    contexts.known["work"] = Context(url="https://work.example", token="secret")
    contexts.current = "work"
    contexts.save()
    env = {"RINGFENCE_CONFIG_DIR": str(tmp_path)}
    assert Wanted().place(env).token == "secret"
    assert Wanted(url="https://work.example/").place(env).token == "secret"
    assert Wanted(url="https://evil.example").place(env).token is None
    assert Wanted(url="https://evil.example").place({**env, "RINGFENCE_TOKEN": "mine"}).token == "mine"
    assert Wanted(context="work").place({**env, "RINGFENCE_TOKEN": "mine"}).token == "secret"
    for wrong in ("work.example", "ftp://work.example", "https://user@work.example", "https://"):
        with pytest.raises(Usage):
            Wanted(url=wrong).place(env)


def test_a_broken_contexts_file_is_told(tmp_path: Path) -> None:
    (tmp_path / "contexts.json").write_text("{}")
    with pytest.raises(Problem, match=r"contexts.json cannot be read"):
        Contexts(tmp_path)


def test_a_context_of_a_stopped_server_says_how_to_start_it(tmp_path: Path) -> None:
    contexts = Contexts(tmp_path)
    contexts.known["here"] = Context(data=str(tmp_path / "data"), url="http://127.0.0.1:9", token="secret")
    contexts.current = "here"
    contexts.save()
    with pytest.raises(Unreachable, match="ringfence up"):
        Wanted().place({"RINGFENCE_CONFIG_DIR": str(tmp_path)})


def test_settings_are_listed_with_and_without_a_server(office: Cli, visitor: Cli) -> None:
    running = {it["name"]: it for it in office.json("config", "list")}
    assert running["data"]["value"] == str(office.data)
    assert running["port"]["description"]
    stopped = {it["name"]: it for it in visitor.json("config", "list")}
    assert stopped.keys() == running.keys()
    assert stopped["data"]["value"] == str(visitor.data)
    assert "heartbeat_timeout" in visitor.ok("config", "list")
    assert visitor.json("config", "path")["contexts"] == str(visitor.config / "contexts.json")


def test_how_long_things_are_kept_is_shown_and_chosen(cli: Cli) -> None:
    cli.up()
    assert cli.json("config", "retention") == {"events_days": 0, "messages_days": 90}
    assert "for ever" in cli.ok("config", "retention")
    assert cli.json("config", "retention", "--events", 365) == {"events_days": 365, "messages_days": 90}
    assert "365 days" in cli.ok("config", "retention", "--messages", 0)
    assert cli.json("config", "retention") == {"events_days": 365, "messages_days": 0}
    assert cli("config", "retention", "--reset", "--events", 1).code == 2
    assert cli("config", "retention", "--events", -1).code == 1
    assert cli.json("config", "retention", "--reset") == {"events_days": 0, "messages_days": 90}
