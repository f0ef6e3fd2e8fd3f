"""How the pages are served: from memory, kept by browsers as long as they may be, under a strict policy."""

import gzip
import re
from pathlib import Path

import pytest

from ringfence.dashboard.pages import BUILT, Dashboard
from tests.harness import Ringfence, running

FIRST_LOAD = 250_000  # bytes of compressed script before the first page shows


def test_the_root_leads_to_the_dashboard(server: Ringfence):
    answer = server.client().get("/")
    assert (answer.status_code, answer.headers["location"]) == (303, "/app/")


@pytest.mark.parametrize("path", ["/app/", "/app/crew", "/app/projects/prj_x?task=tsk_y", "/app/%2e%2e/etc/passwd"])
def test_every_address_is_the_page(server: Ringfence, path: str):
    answer = server.client().get(path)
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/html")
    assert answer.headers["cache-control"] == "no-store"
    assert '<div id="root">' in answer.text


def test_the_policy_lets_nothing_else_in(server: Ringfence):
    one, other = (server.client().get("/app/") for _ in range(2))
    policy = one.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "script-src 'self';" in policy
    assert "frame-ancestors 'none'" in policy
    assert not re.search(r"unsafe|https?:|\*", policy)
    nonce = re.search(r"'nonce-([\w-]+)'", policy)
    assert nonce is not None
    assert f'content="{nonce[1]}"' in one.text
    assert other.headers["content-security-policy"] != policy
    assert "__NONCE__" not in one.text


def test_parts_are_kept_for_ever_and_the_rest_is_asked_for_again(server: Ringfence):
    client = server.client()
    page = client.get("/app/").text
    script = re.search(r'src="(/app/assets/[^"]+\.js)"', page)
    assert script is not None
    part = client.get(script[1])
    assert "immutable" in part.headers["cache-control"]
    assert part.headers["content-type"].startswith("text/javascript")
    assert part.headers["content-encoding"] == "gzip"
    plain = client.get(script[1], headers={"accept-encoding": "identity"})
    assert plain.content == part.content
    icon = client.get("/app/icon.svg")
    assert icon.headers["cache-control"] == "no-cache"
    again = client.get("/app/icon.svg", headers={"if-none-match": icon.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


@pytest.mark.parametrize("path", ["/app/assets/gone-123.js", "/app/assets/../../pages.py", "/app/assets/%2e%2e/x"])
def test_a_part_that_is_gone_is_not_answered_with_a_page(server: Ringfence, path: str):
    answer = server.client().get(path)
    assert answer.status_code in (200, 404)
    assert "import" not in answer.text
    if path.endswith(".js"):
        assert answer.headers["content-type"] == "application/problem+json"


def test_only_reading_is_possible(server: Ringfence):
    assert server.client().post("/app/").status_code == 405


def test_without_a_bundle_a_plain_page_says_how_to_sign_in(tmp_path: Path, template: Path, monkeypatch):
    monkeypatch.setattr("ringfence.app.Dashboard", lambda: Dashboard(tmp_path / "none"))
    with running(tmp_path / "data", template) as server:
        no_session = {"cookie": f"ringfence_{server.port}={server.admin_token}"}
        for page in (server.client().get("/"), server.client().get("/", headers=no_session)):
            assert "You are not signed in" in page.text
            assert "ringfence login --link" in page.text
        missing = server.client().get("/app/")
        assert missing.status_code == 404
        assert "not built" in missing.json()["detail"]


def test_the_first_load_is_small():
    """The page's own scripts, with all they import at once."""
    waiting = re.findall(r'(?:src|href)="/app/(assets/[^"]+\.js)"', (BUILT / "index.html").read_text())
    seen: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            waiting += [f"assets/{found}" for found in _imports((BUILT / name).read_text())]
    size = sum(len(gzip.compress((BUILT / name).read_bytes(), 9)) for name in seen)
    print(f"first load: {size / 1000:.0f} kB of compressed script in {len(seen)} parts")
    assert size < FIRST_LOAD


_STATIC = re.compile(r"""(?:\bfrom|\bimport)\s*["'`]\./([^"'`]+\.js)""")


def _imports(script: str) -> list[str]:
    return _STATIC.findall(script)
