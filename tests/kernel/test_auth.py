"""Who may what: tokens, sessions, roles, and everything that tries to get more of them."""

import asyncio
import contextlib
import io
import json
import logging
import math
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from ringfence.kernel import logs
from ringfence.kernel.auth.model import Role, TokenKind, fingerprint, new_secret
from ringfence.kernel.clock import DAY, SECOND
from ringfence.kernel.errors import Unauthenticated
from ringfence.settings import Settings
from tests.harness import Ringfence, running
from tests.kernel.wire import ask, request, until

ME = "/api/v1/me"


def is_problem(response: httpx.Response, status: int, code: str | None = None) -> bool:
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    told = response.json()
    assert told["status"] == status
    assert code is None or told["code"] == code, told
    return True


def invite(server: Ringfence, name: str, role: str = "viewer", **more: Any) -> str:
    """A new person; the path of their sign-in link."""
    answer = server.admin.post("/api/v1/people", json={"name": name, "role": role, **more})
    assert answer.status_code == 201, answer.text
    url = urlsplit(answer.json()["signin_url"])
    return f"{url.path}?{url.query}"


def browser(server: Ringfence, link: str) -> httpx.Client:
    """A browser that has followed the link."""
    client = server.client(follow_redirects=False)
    answer = client.get(link)
    assert answer.status_code == 303, answer.text
    return client


def csrf(client: httpx.Client) -> dict[str, str]:
    return {"x-ringfence-csrf": client.get(ME).json()["csrf"]}


# Tokens ---------------------------------------------------------------------------------------------------------------


def test_a_token_that_is_unknown_malformed_or_none_lets_nobody_in(server: Ringfence) -> None:
    assert is_problem(server.client().get(ME), 401)
    for header in (
        "Bearer nope",
        "Bearer",
        "Bearer  ",
        "Basic YTpi",
        "",
        "Bearer " + "x" * 8000,
        "nope",
        "Bearer \xff",
    ):
        reply = ask(server, request("GET", ME, f"Authorization: {header}"))
        assert reply.is_problem(401)
        assert reply.headers["www-authenticate"] == "Bearer"
        assert b"x" * 100 not in reply.body


def test_an_expired_token_is_refused_from_the_moment_it_expires(either: Ringfence) -> None:
    client = either.client(either.token("ann", Role.VIEWER, lives=100 * SECOND))
    assert client.get(ME).status_code == 200
    either.clock.advance(101)
    assert is_problem(client.get(ME), 401, "token_expired")


def test_a_revoked_token_is_refused_at_once(either: Ringfence) -> None:
    for _ in range(5):
        issued = either.admin.post("/api/v1/tokens", json={"name": "script"}).json()
        client = either.client(issued["token"])
        assert client.get(ME).status_code == 200
        assert either.admin.delete(f"/api/v1/tokens/{issued['id']}").json()["revoked_at"]
        assert is_problem(client.get(ME), 401, "token_revoked")
    assert either.admin.delete("/api/v1/tokens/nope").status_code == 404


def test_a_look_up_that_a_revocation_overtakes_is_not_remembered(server: Ringfence) -> None:
    """Readers look tokens up all the time while they are revoked: none may be let in after the answer."""
    for _ in range(40):
        issued = server.admin.post("/api/v1/tokens", json={"name": "script"}).json()
        auth, loop = server.house.auth, server.loop
        looking = [asyncio.run_coroutine_threadsafe(auth.principal(issued["token"]), loop) for _ in range(4)]
        server.admin.delete(f"/api/v1/tokens/{issued['id']}")
        for look in looking:
            with contextlib.suppress(Unauthenticated):
                look.result(20)
        with pytest.raises(Unauthenticated):
            asyncio.run_coroutine_threadsafe(auth.principal(issued["token"]), loop).result(20)


def test_what_is_remembered_of_a_token_is_what_the_table_says(either: Ringfence) -> None:
    """After whatever is done with people, tokens and agents, also what is done without emptying the cache."""
    admin, auth = either.admin, either.house.auth
    secrets = [either.admin_token]

    def known(secret: str, *, remembered: bool) -> object:
        if not remembered:
            auth._cache.pop(fingerprint(secret), None)
        try:
            return asyncio.run_coroutine_threadsafe(auth.holder(secret), either.loop).result(20)
        except Unauthenticated as refused:
            return refused.code

    def check() -> None:
        before = [known(secret, remembered=True) for secret in secrets]
        assert before == [known(secret, remembered=False) for secret in secrets]

    def made(path: str, **body: Any) -> dict[str, Any]:
        answer = admin.post(path, json=body)
        assert answer.status_code == 201, answer.text
        told: dict[str, Any] = answer.json()
        secrets.extend([told["token"]] if "token" in told else [])
        check()
        return told

    script = made("/api/v1/tokens", name="script", role="operator")
    ann = made("/api/v1/people", name="ann", role="operator")["signin_url"].rpartition("=")[2]
    session = browser(either, f"/signin?code={ann}").cookies
    secrets.append(next(iter(session.values())))
    check()
    made("/api/v1/tokens", name="ann", role="operator")
    made("/api/v1/tokens", name="ann", role="viewer")
    made("/api/v1/enrolments", uses=1)
    made("/agents/register", name="claude")
    made("/agents/register", name="claude")
    for change in ({"role": "viewer"}, {"projects": ["prj_a"]}, {"role": "admin"}, {"disabled": True}):
        assert admin.patch("/api/v1/people/ann", json=change).status_code == 200
        check()
    assert admin.patch("/api/v1/people/ann", json={"disabled": False}).status_code == 200
    check()
    assert admin.delete(f"/api/v1/tokens/{script['id']}").status_code == 200
    check()
    assert admin.post("/agents/claude/revoke", json={}).status_code == 200
    check()
    assert admin.delete("/agents/claude").status_code == 200
    check()
    made("/agents/register", name="claude")
    assert [known(secret, remembered=True) for secret in secrets].count("token_revoked") >= 3


def test_a_token_is_bounded_by_what_its_person_may_now(either: Ringfence) -> None:
    invite(either, "ann", "operator")
    client = either.client(either.token("ann", Role.OPERATOR))
    assert client.post("/api/v1/enrolments", json={}).status_code == 201
    either.admin.patch("/api/v1/people/ann", json={"role": "viewer"})
    assert client.get(ME).json()["role"] == "viewer"
    assert is_problem(client.post("/api/v1/enrolments", json={}), 403, "role")
    either.admin.patch("/api/v1/people/ann", json={"projects": ["prj_a"]})
    assert client.get(ME).json()["projects"] == ["prj_a"]
    either.admin.patch("/api/v1/people/ann", json={"disabled": True})
    assert is_problem(client.get(ME), 401)
    either.admin.patch("/api/v1/people/ann", json={"disabled": False})
    assert is_problem(client.get(ME), 401, "token_revoked")  # a new one is needed


def test_a_change_of_people_reaches_the_other_server_soon(postgres_url: str, tmp_path: Path) -> None:
    with (
        running(tmp_path / "one", database=postgres_url) as one,
        running(tmp_path / "two", database=postgres_url) as two,
    ):
        invite(one, "ann", "operator")
        issued = one.admin.post("/api/v1/tokens", json={"name": "ann", "role": "operator"}).json()
        there = two.client(issued["token"])
        assert there.get(ME).json()["role"] == "operator"
        one.admin.patch("/api/v1/people/ann", json={"role": "viewer"})
        until(lambda: there.get(ME).json()["role"] == "viewer", 3)
        one.admin.delete(f"/api/v1/tokens/{issued['id']}")
        until(lambda: there.get(ME).status_code == 401, 3)


def test_what_somebody_made_for_scripts_goes_with_them(either: Ringfence) -> None:
    invite(either, "ann", "operator")
    ann = either.client(either.token("ann", Role.OPERATOR))
    script = either.client(ann.post("/api/v1/tokens", json={"name": "ci", "role": "operator"}).json()["token"])
    hidden = either.client(script.post("/api/v1/tokens", json={"name": "ci2", "role": "operator"}).json()["token"])
    enrolment = ann.post("/api/v1/enrolments", json={"uses": 5}).json()
    other = either.client(
        either.admin.post("/api/v1/tokens", json={"name": "backup", "role": "viewer"}).json()["token"]
    )
    assert [client.get(ME).status_code for client in (script, hidden, other)] == [200] * 3
    either.admin.patch("/api/v1/people/ann", json={"disabled": True})
    assert [client.get(ME).status_code for client in (script, hidden, other)] == [401, 401, 200]
    registered = either.client(enrolment["token"]).post("/agents/register", json={"name": "mole"})
    assert is_problem(registered, 401)


@pytest.mark.parametrize("less", [{"role": "viewer"}, {"projects": ["prj_a"]}])
def test_who_loses_something_cannot_keep_it_in_a_script(server: Ringfence, less: dict[str, Any]) -> None:
    invite(server, "ann", "operator")
    ann = server.client(server.token("ann", Role.OPERATOR))
    script = server.client(ann.post("/api/v1/tokens", json={"name": "ci", "role": "operator"}).json()["token"])
    server.admin.patch("/api/v1/people/ann", json=less)
    assert is_problem(script.get(ME), 401, "token_revoked")
    assert ann.get(ME).status_code == 200


def test_people_are_listed_by_name_in_pages(either: Ringfence) -> None:
    for name in ("carl", "ann", "bob"):
        invite(either, name)
    first = either.admin.get("/api/v1/people", params={"limit": 2}).json()
    rest = either.admin.get("/api/v1/people", params={"limit": 2, "cursor": first["next"]}).json()
    assert [person["name"] for person in first["items"] + rest["items"]] == ["ann", "bob", "carl"]
    assert rest["next"] is None
    assert len(either.admin.get("/api/v1/people").json()["items"]) == 3


def test_an_enrolment_token_has_as_many_uses_as_it_was_given_in_a_race_too(either: Ringfence) -> None:
    token = either.admin.post("/api/v1/enrolments", json={"uses": 3}).json()["token"]
    clients = [either.client(token) for _ in range(12)]

    def register(number: int) -> int:
        return clients[number].post("/agents/register", json={"name": f"agent{number}"}).status_code

    with ThreadPoolExecutor(12) as pool:
        statuses = Counter(pool.map(register, range(12)))
    assert statuses == {201: 3, 401: 9}
    assert is_problem(clients[0].get(ME), 403)
    assert is_problem(clients[0].get("/events"), 403)
    assert is_problem(clients[0].post("/agents/register", json={"name": "late"}), 401, "token_used_up")


def test_an_enrolment_token_gives_no_name_that_is_taken(server: Ringfence) -> None:
    invite(server, "ann")
    server.agent("claude")
    server.admin.post("/api/v1/tokens", json={"name": "ci"})
    token = server.client(server.admin.post("/api/v1/enrolments", json={"uses": 9}).json()["token"])
    for name in ("ann", "claude", "ci"):
        assert is_problem(token.post("/agents/register", json={"name": name}), 409)


def test_names_are_not_shared_by_people_agents_and_scripts(either: Ringfence) -> None:
    either.agent("claude")
    either.admin.post("/api/v1/tokens", json={"name": "ci", "role": "operator"})
    for name in ("claude", "ci", "admin"):
        assert either.admin.post("/api/v1/people", json={"name": "admin"}).status_code in (201, 409)
        assert is_problem(either.admin.post("/api/v1/people", json={"name": name}), 409, "name_taken")
    assert is_problem(either.admin.post("/api/v1/tokens", json={"name": "claude"}), 409, "name_taken")
    for name in ("", "a b", "../x", "a/b", "-x", "x" * 65, "ä", "human", "System", "a\n", "a\u0000"):
        answer = either.admin.post("/api/v1/people", json={"name": name})
        assert is_problem(answer, 400)


# Nobody gets more than they have --------------------------------------------------------------------------------------


def test_a_token_cannot_make_one_that_opens_more(server: Ringfence) -> None:
    holders = {
        Role.VIEWER: server.client(server.token("v", Role.VIEWER)),
        Role.OPERATOR: server.client(server.token("o", Role.OPERATOR)),
    }
    for role, client in holders.items():
        for wanted in Role:
            answer = client.post("/api/v1/tokens", json={"name": f"x-{role}-{wanted}", "role": wanted})
            assert answer.status_code == (201 if role.covers(wanted) else 403)
    for path in ("/api/v1/people", "/api/v1/audit/prune"):
        assert is_problem(holders[Role.OPERATOR].post(path, json={}), 403, "role")
    assert is_problem(holders[Role.OPERATOR].patch("/api/v1/people/o", json={"role": "admin"}), 403, "role")
    assert is_problem(holders[Role.VIEWER].post("/api/v1/enrolments", json={}), 403, "role")
    assert is_problem(holders[Role.VIEWER].get("/api/v1/config"), 403, "role")


def test_a_token_of_some_projects_cannot_make_one_of_more(server: Ringfence) -> None:
    limited = server.client(server.token("ci", Role.OPERATOR, projects=["prj_a", "prj_b"]))
    for path, body in (("/api/v1/tokens", {"name": "x", "role": "viewer"}), ("/api/v1/enrolments", {})):
        assert limited.post(path, json={**body, "projects": ["prj_a"]}).status_code == 201
        assert limited.post(path, json={**body, "projects": []}).status_code == 201
        for projects in (None, ["prj_c"], ["prj_a", "prj_c"]):
            assert is_problem(limited.post(path, json={**body, "projects": projects}), 403)
        assert is_problem(limited.post(path, json=body), 403)


def test_an_admin_of_some_projects_cannot_reach_others_through_people(server: Ringfence) -> None:
    invite(server, "root2", "admin")
    invite(server, "ann", "admin", projects=["prj_a"])
    ann = server.client(server.token("ann", Role.ADMIN))
    assert ann.post("/api/v1/people", json={"name": "bob", "projects": ["prj_a"]}).status_code == 201
    assert is_problem(ann.post("/api/v1/people", json={"name": "eve"}), 403)
    for change in ({"all_projects": True}, {"projects": ["prj_b"]}):
        assert is_problem(ann.patch("/api/v1/people/ann", json=change), 403)
        assert is_problem(ann.patch("/api/v1/people/bob", json=change), 403)
    assert is_problem(ann.post("/api/v1/signin-links", json={"person": "root2"}), 403)
    assert ann.post("/api/v1/signin-links", json={"person": "bob"}).status_code == 201


def test_a_sign_in_link_carries_no_more_than_the_token_that_asked_for_it(either: Ringfence) -> None:
    invite(either, "ann", "admin")
    weak = either.client(either.token("ann", Role.VIEWER, projects=["prj_a"]))
    assert weak.get(ME).json()["role"] == "viewer"
    url = urlsplit(weak.post("/api/v1/signin-links", json={}).json()["url"])
    session = browser(either, f"{url.path}?{url.query}")
    me = session.get(ME).json()
    assert (me["role"], me["projects"]) == ("viewer", ["prj_a"])
    assert is_problem(weak.post("/api/v1/signin-links", json={"person": "admin"}), 404)


def test_an_agent_is_refused_everything_about_people_and_tokens(server: Ringfence) -> None:
    agent = server.agent("claude")
    for endpoint in server.house.endpoints:
        if endpoint.tag == "people" and endpoint.path not in (ME, "/signin", "/api/v1/signout"):
            answer = agent.request(endpoint.method, endpoint.path, json={} if endpoint.body else None)
            assert is_problem(answer, 403, "role")
    for path in ("/audit/log", "/api/v1/audit", "/api/v1/audit/verify", "/api/v1/config", "/metrics"):
        assert is_problem(agent.get(path), 403, "role")


def test_others_tokens_are_neither_shown_nor_revoked(server: Ringfence) -> None:
    mine, theirs = (server.client(server.token(name, Role.OPERATOR)) for name in ("ann", "bob"))
    made = theirs.post("/api/v1/tokens", json={"name": "ci"}).json()
    assert is_problem(mine.delete(f"/api/v1/tokens/{made['id']}"), 404)
    shown = mine.get("/api/v1/tokens").json()["items"]
    assert {token["subject"] for token in shown} == {"ann"}
    assert "token" not in shown[0]
    assert theirs.delete(f"/api/v1/tokens/{made['id']}").status_code == 200


def test_the_last_admin_of_everything_cannot_be_removed(either: Ringfence) -> None:
    invite(either, "ann", "admin")
    invite(either, "bob", "admin", projects=["prj_a"])
    for change in ({"disabled": True}, {"role": "operator"}, {"projects": ["prj_a"]}):
        assert is_problem(either.admin.patch("/api/v1/people/ann", json=change), 409, "last_admin")
    invite(either, "eve", "admin")
    assert either.admin.patch("/api/v1/people/ann", json={"role": "viewer"}).status_code == 200
    assert is_problem(either.admin.patch("/api/v1/people/eve", json={"disabled": True}), 409, "last_admin")
    assert is_problem(either.admin.patch("/api/v1/people/nobody", json={"disabled": True}), 404)


def test_two_admins_cannot_remove_each_other_at_once_on_two_servers(postgres_url: str, tmp_path: Path) -> None:
    with (
        running(tmp_path / "one", database=postgres_url) as one,
        running(tmp_path / "two", database=postgres_url) as two,
    ):
        for number in range(8):
            names = [f"ann{number}", f"bob{number}"]
            for name in names:
                invite(one, name, "admin")
            if number:  # the one who is left from before
                last = [p["name"] for p in one.admin.get("/api/v1/people").json()["items"] if p["role"] == "admin"]
                for name in set(last) - set(names):
                    one.admin.patch(f"/api/v1/people/{name}", json={"role": "viewer"})
            with ThreadPoolExecutor(2) as pool:
                both = threading.Barrier(2)

                def lower(pair: tuple[Ringfence, str]) -> int:
                    both.wait(20)  # noqa: B023
                    return pair[0].admin.patch(f"/api/v1/people/{pair[1]}", json={"role": "viewer"}).status_code

                statuses = sorted(pool.map(lower, zip((one, two), names, strict=True)))
            assert statuses == [200, 409]


# Signing in -----------------------------------------------------------------------------------------------------------


def test_a_sign_in_link_works_once_in_a_race_of_sixteen(either: Ringfence) -> None:
    link = invite(either, "ann", "operator")
    clients = [either.client(follow_redirects=False) for _ in range(16)]
    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(lambda client: client.get(link), clients))
    assert sorted(answer.status_code for answer in answers) == [303] + [401] * 15
    assert sum("set-cookie" in answer.headers for answer in answers) == 1
    assert is_problem(either.client().get(link), 401, "signin_failed")


def test_a_sign_in_link_expires_and_goes_with_its_person(server: Ringfence) -> None:
    link = invite(server, "ann")
    server.clock.advance(server.settings.signin_minutes * 60 + 1)
    assert is_problem(server.client().get(link), 401)
    link = invite(server, "bob")
    server.admin.patch("/api/v1/people/bob", json={"disabled": True})
    assert is_problem(server.client().get(link), 401)
    assert is_problem(server.admin.post("/api/v1/signin-links", json={"person": "bob"}), 404)
    for code in ("", "nope", server.admin_token):
        assert is_problem(server.client().get("/signin", params={"code": code}), 401)


def test_a_code_is_no_token_and_a_session_is_no_code(server: Ringfence) -> None:
    link = invite(server, "ann")
    code = parse_qs(urlsplit(link).query)["code"][0]
    assert is_problem(server.client(code).get(ME), 401)
    client = browser(server, link)
    session = next(iter(client.cookies.values()))
    assert is_problem(server.client().get("/signin", params={"code": session}), 401)


def test_the_cookie_is_kept_from_scripts_and_other_sites(tmp_path: Path, template: Path) -> None:
    with running(tmp_path / "data", template, public_url="https://ring.example.com") as server:
        link = invite(server, "ann")
        plain = ask(server, request("GET", link)).headers["set-cookie"]
        assert f"ringfence_{server.port}=rfse_" in plain
        for flag in ("HttpOnly", "SameSite=lax", "Path=/", f"Max-Age={int(server.settings.session_days * 86400)}"):
            assert flag in plain
        assert "Secure" not in plain  # an address in a home network has no certificate
        behind_tls = ask(server, request("GET", invite(server, "bob"), host="ring.example.com")).headers["set-cookie"]
        assert "Secure" in behind_tls


@pytest.mark.parametrize(
    "away",
    ["//evil.com", "https://evil.com", "/\\evil.com", "\\\\evil.com", "javascript:alert(1)", "/\t/evil.com", "evil.com",
     "/\r\nSet-Cookie: a=b", "", " //evil.com", "/\x7f/evil.com"],
)  # fmt: skip
def test_signing_in_leads_nowhere_else(server: Ringfence, away: str) -> None:
    link = invite(server, "ann")
    answer = server.client(follow_redirects=False).get(link, params={"code": link.partition("=")[2], "next": away})
    assert answer.status_code == 303
    assert answer.headers["location"] == "/"
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert answer.headers["cache-control"] == "no-store"


def test_signing_in_leads_on_to_a_path_of_ours(server: Ringfence) -> None:
    link = invite(server, "ann")
    answer = server.client(follow_redirects=False).get(link + "&next=/app/%3Fa=b")
    assert answer.headers["location"] == "/app/?a=b"


def test_a_browser_changes_nothing_without_the_header_and_json(server: Ringfence) -> None:
    client = browser(server, invite(server, "ann", "operator"))
    token = csrf(client)
    body = json.dumps({"uses": 1})
    path, as_json = "/api/v1/enrolments", {"content-type": "application/json"}
    assert client.post(path, content=body, headers=as_json | token).status_code == 201
    assert is_problem(client.post(path, content=body, headers=as_json), 403, "csrf")
    assert is_problem(client.post(path, content=body, headers=as_json | {"x-ringfence-csrf": "0" * 40}), 403, "csrf")
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", ""):
        assert is_problem(client.post(path, content=body, headers={"content-type": kind} | token), 400, "content_type")
        chunks = iter([body.encode()])  # no Content-Length
        assert is_problem(
            client.post(path, content=chunks, headers={"content-type": kind} | token), 400, "content_type"
        )
    for origin in ("https://evil.com", "null", f"http://127.0.0.1:{server.port + 1}", "http://localhost"):
        answer = client.post(path, content=body, headers=as_json | token | {"origin": origin})
        assert is_problem(answer, 403, "foreign_origin")
    ours = client.post(path, content=body, headers=as_json | token | {"origin": server.url})
    assert ours.status_code == 201


def test_a_session_ends_when_asked_and_only_that_one(server: Ringfence) -> None:
    one = browser(server, invite(server, "ann"))
    url = urlsplit(server.admin.post("/api/v1/signin-links", json={"person": "ann"}).json()["url"])
    other = browser(server, f"{url.path}?{url.query}")
    assert is_problem(one.post("/api/v1/signout", json={}), 403, "csrf")
    assert one.post("/api/v1/signout", json={}, headers=csrf(one)).status_code == 200
    assert is_problem(one.get(ME), 401)
    assert other.get(ME).status_code == 200


def test_a_cookie_that_holds_another_kind_of_token_is_nobodys(server: Ringfence) -> None:
    cookie = f"Cookie: ringfence_{server.port}={server.admin_token}"
    assert ask(server, request("GET", ME, cookie)).is_problem(401)
    assert ask(server, request("GET", "/ping", cookie)).status == 200


def test_a_session_is_a_cookie_of_its_port_only(server: Ringfence) -> None:
    client = browser(server, invite(server, "ann"))
    session = next(iter(client.cookies.values()))
    assert ask(server, request("GET", ME, f"Cookie: ringfence_{server.port}={session}")).status == 200
    assert ask(server, request("GET", ME, f"Cookie: ringfence_{server.port + 1}={session}")).is_problem(401)


HOSTS = {
    "evil.com": 403, "127.0.0.1.evil.com": 403, "localhost.evil.com": 403, "": 403, "127.0.0.1:80@evil.com": 403,
    "[::1": 403, "::1": 403, "127.0.0.1:evil": 403, "127.0.0.1 evil.com": 403, "2130706433": 403, "0x7f.1": 403,
    "evil.com:127.0.0.1": 403, "[evil.com]": 403, "127.0.0.1/": 403, "localhost\xff": 403, "localhost..": 200,
    "127.0.0.1": 200, "localhost": 200, "LOCALHOST:99": 200, "localhost.": 200, "[::1]:8080": 200, "192.168.1.7": 200,
}  # fmt: skip


@pytest.mark.parametrize("host", HOSTS)
def test_only_our_own_names_and_addresses_are_answered_to(server: Ringfence, host: str) -> None:
    data = request("GET", "/ping", f"Host: {host}".encode("latin-1"), host="")
    reply = ask(server, data)
    assert reply.status == HOSTS[host] or reply.is_problem(HOSTS[host])
    if HOSTS[host] == 200:
        link = request("POST", "/api/v1/signin-links", f"Host: {host}", host="", token=server.admin_token, body=b"{}")
        assert ask(server, link).status in (201, 404)


def test_a_name_that_was_allowed_is_answered_to(tmp_path: Path, template: Path) -> None:
    names = ("ring.local", "Ring.Example.com")
    with running(tmp_path / "data", template, allowed_hosts=names, public_url="https://pub.example.com") as server:
        for host in ("ring.local", "ring.example.com:80", "pub.example.com"):
            assert ask(server, request("GET", "/ping", host=host)).status == 200
        origin = "Origin: https://pub.example.com"
        assert ask(server, request("POST", "/ping", origin, host="pub.example.com")).status == 200
        assert ask(server, request("POST", "/ping", "Origin: http://pub.example.com:81")).is_problem(403)


def test_with_a_token_a_body_is_json_whatever_it_is_called(server: Ringfence) -> None:
    for kind in ("application/x-www-form-urlencoded", "text/plain", "nonsense", ""):
        answer = server.admin.post("/api/v1/enrolments", content='{"uses": 2}', headers={"content-type": kind})
        assert answer.status_code == 201
        assert answer.json()["uses_left"] == 2


# Secrets --------------------------------------------------------------------------------------------------------------


def test_codes_and_tokens_are_too_many_to_try() -> None:
    secrets = {new_secret(kind) for kind in TokenKind for _ in range(2000)}
    assert len(secrets) == 10_000
    for secret in list(secrets)[:100]:
        counted = Counter(secret[5:])
        entropy = -sum(n / 43 * math.log2(n / 43) for n in counted.values())
        assert len(secret) == 5 + 43  # 256 bits in base 64
        assert entropy > 3
    seeded = {new_secret(kind, seed) for kind in TokenKind for seed in (b"a", b"b")}
    assert len(seeded) == 10
    assert all(len(secret) == 5 + 64 for secret in seeded)


def test_guessing_is_recorded_but_does_not_fill_the_log(server: Ringfence) -> None:
    client = server.client()
    before = server.house.feed.last
    for number in range(200):
        assert client.get("/signin", params={"code": f"rfsi_{number}"}).status_code == 401
        assert client.get(ME, headers={"authorization": f"Bearer rfap_{number}"}).status_code == 401
    assert server.house.feed.last - before == 2
    server.clock.advance(61)
    server.write(server.house.housekeeping._chores[0].do)
    told = [event["data"] for event in server.admin.get("/api/v1/audit?kind=refused").json()["items"]]
    assert sorted(data["repeated"] for data in told if "repeated" in data) == [199, 199]


@pytest.fixture
def logged() -> Iterator[io.StringIO]:
    """Logs as a server writes them, all of it."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    logs.configure(Settings(data=Path("/nonexistent"), log_level="debug", log_format="json"))
    (handler,) = root.handlers
    assert isinstance(handler, logging.StreamHandler)
    handler.setStream(io.StringIO())
    for ours in ("httpx", "httpcore"):  # what the test's own client says is not the server's
        logging.getLogger(ours).setLevel(logging.WARNING)
    yield handler.stream
    root.handlers[:] = handlers
    root.setLevel(level)


def test_no_secret_is_kept_or_told_anywhere(tmp_path: Path, template: Path, logged: io.StringIO) -> None:
    with running(tmp_path / "data", template, log_level="debug") as server:
        secrets = [server.admin_token]
        key = {"idempotency-key": "a key"}

        def made(path: str, body: dict[str, Any], name: str, headers: dict[str, str] | None = None) -> Any:
            answer = server.admin.post(path, json=body, headers=headers)
            assert answer.status_code == 201, answer.text
            again = server.admin.post(path, json=body, headers=headers) if headers else answer
            assert again.json() == answer.json()
            secrets.append(answer.json()[name].rpartition("code=")[2])
            return answer.json()

        made("/api/v1/tokens", {"name": "ci"}, "token")
        made("/api/v1/tokens", {"name": "ci2"}, "token", key)
        made("/api/v1/enrolments", {}, "token")
        made("/api/v1/enrolments", {}, "token", {"idempotency-key": "another"})
        made("/agents/register", {"name": "claude"}, "token")
        made("/agents/register", {"name": "codex"}, "token", {"idempotency-key": "third"})
        made("/api/v1/people", {"name": "ann"}, "signin_url", {"idempotency-key": "fourth"})
        link = made("/api/v1/people", {"name": "bob"}, "signin_url")["signin_url"]
        made("/api/v1/signin-links", {"person": "ann"}, "url")
        client = browser(server, link)
        secrets.append(next(iter(client.cookies.values())))
        csrf_token = csrf(client)["x-ringfence-csrf"]
        told = [server.admin.get(path).text for path in ("/api/v1/audit?limit=1000", "/audit/log", "/api/v1/tokens")]
        for secret in secrets:
            told.append(server.client(secret).post("/api/v1/nothing/" + "x").text)
            told.append(server.client(secret + "x").get(ME).text)
            told.append(server.client().get("/signin", params={"code": secret + "x"}).text)
        told.append(server.admin.get("/metrics").text)
        stored = b"".join(path.read_bytes() for path in (tmp_path / "data").glob("ringfence.db*"))
    stored += b"".join(path.read_bytes() for path in (tmp_path / "data").rglob("*") if path.is_file())
    written = logged.getvalue()
    assert '"path": "/signin"' in written
    assert len(secrets) == 11
    for secret in [*secrets, csrf_token]:
        bare = secret[5:] if secret.startswith("rf") else secret
        assert len(bare) >= 40
        assert bare.encode() not in stored
        assert not any(bare in text for text in told)
        assert bare not in written
    assert b"token_created" in stored


def test_used_tokens_are_told_of_and_old_ones_forgotten(either: Ringfence) -> None:
    issued = either.admin.post("/api/v1/tokens", json={"name": "ci", "days": 1}).json()
    auth = either.house.auth
    either.client(issued["token"]).get(ME)
    either.write(auth.flush_used)
    (shown,) = [token for token in either.admin.get("/api/v1/tokens").json()["items"] if token["id"] == issued["id"]]
    assert shown["last_used_at"] is not None
    forever = either.client(either.token("root", Role.ADMIN, lives=None))
    either.clock.advance(92 * DAY / SECOND)
    either.write(auth.forget)
    assert issued["id"] not in forever.get("/api/v1/tokens").text
