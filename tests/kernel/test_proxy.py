"""Behind a reverse proxy that ends TLS: what browsers and phones on the network reach."""

import asyncio
import shutil
import ssl
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from ringfence.kernel.auth.model import Role
from tests.harness import Ringfence, running

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl makes the certificate")
PHONE = "203.0.113.7"
PUBLIC = "https://ringfence.example.org"


class Proxy:
    """Ends TLS and passes everything on as it comes, with where it came from."""

    def __init__(self, server: Ringfence, certificate: Path, key: Path) -> None:
        self._server = server
        self._context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self._context.load_cert_chain(certificate, key)
        self._started = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), daemon=True)
        self._thread.start()
        assert self._started.wait(20)

    async def _run(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        listener = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self._context)
        self.port: int = listener.sockets[0].getsockname()[1]
        self._started.set()
        await self._stop.wait()
        listener.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        upstream, up = await asyncio.open_connection("127.0.0.1", self._server.port)
        back = asyncio.create_task(self._pass_on(upstream, writer))
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                told = f"X-Forwarded-For: {PHONE}\r\nX-Forwarded-Proto: https\r\n\r\n".encode()
                up.write(head.removesuffix(b"\r\n") + told)
                lines = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:-2])
                up.write(await reader.readexactly(int(lines.get(b"content-length", b"0"))))
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            back.cancel()
            up.close()
            writer.close()

    async def _pass_on(self, upstream: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while chunk := await upstream.read(65536):
            writer.write(chunk)
        writer.close()

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(20)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("tls")
    cert, key = folder / "cert.pem", folder / "key.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=ringfence",
         "-addext", "subjectAltName=DNS:ringfence.example.org", "-keyout", key, "-out", cert],
        check=True, capture_output=True,
    )  # fmt: skip
    return cert, key


@pytest.fixture(scope="module", params=[("127.0.0.1",), ()], ids=["believed", "not believed"])
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, template: Path
) -> Iterator[Ringfence]:
    folder = tmp_path_factory.mktemp("proxied") / "data"
    with running(folder, template, public_url=PUBLIC, trusted_proxies=request.param) as found:
        yield found


@pytest.fixture
def phone(server: Ringfence, certificate: tuple[Path, Path]) -> Iterator[httpx.Client]:
    """A browser that reaches the server by its public name, through the proxy alone."""
    proxy = Proxy(server, *certificate)
    trust = ssl.create_default_context(cafile=str(certificate[0]))
    client = httpx.Client(
        base_url=f"https://127.0.0.1:{proxy.port}", verify=trust, trust_env=False, timeout=20,
        headers={"host": "ringfence.example.org"},
    )  # fmt: skip

    def by_name(request: httpx.Request) -> None:
        request.extensions["sni_hostname"] = "ringfence.example.org"

    client.event_hooks = {"request": [by_name]}
    yield client
    client.close()
    proxy.close()


def test_a_phone_signs_in_over_https_and_works(server: Ringfence, phone: httpx.Client) -> None:
    name = f"ann-{len(server.admin.get('/api/v1/people').json())}"
    link = server.admin.post("/api/v1/people", json={"name": name, "role": "operator"}).json()["signin_url"]
    assert link.startswith(f"{PUBLIC}/signin?code=")
    answer = phone.get(link.removeprefix(PUBLIC))
    cookie = answer.headers["set-cookie"]
    assert "Secure" in cookie
    session = {"cookie": cookie.partition(";")[0]}
    csrf = phone.get("/api/v1/me", headers=session).json()["csrf"]
    headers = {**session, "x-ringfence-csrf": csrf, "origin": PUBLIC}
    assert phone.post("/api/v1/projects", json={"name": "apollo"}, headers=headers).status_code == 201
    for origin in ("https://evil.example.org", "https://example.org", f"{PUBLIC}:8443", "null"):
        refused = phone.post("/api/v1/projects", json={"name": "x"}, headers={**headers, "origin": origin})
        assert (refused.status_code, refused.json()["code"]) == (403, "foreign_origin")


def test_events_pass_at_once(server: Ringfence, phone: httpx.Client) -> None:
    token = {"authorization": f"Bearer {server.token('looker', Role.VIEWER)}"}
    with phone.stream("GET", "/events", headers=token) as stream:
        lines = stream.iter_lines()
        made = server.admin.post("/api/v1/projects", json={"name": "told of"}).json()["id"]
        assert any(made in line for line in lines if line.startswith("data: "))


def test_who_asked_is_who_a_believed_proxy_says(server: Ringfence, phone: httpx.Client) -> None:
    assert phone.get("/api/v1/people", headers={"authorization": "Bearer rfap_nobodys"}).status_code == 401
    refused = server.admin.get("/api/v1/audit", params={"kind": "refused", "limit": 1}).json()["items"][0]
    believed = bool(server.settings.trusted_proxies)
    assert refused["actor"] == f"nobody:{PHONE if believed else '127.0.0.1'}"


def test_a_name_that_is_not_the_public_one_is_not_answered_to(phone: httpx.Client) -> None:
    answer = phone.get("/ping", headers={"host": "evil.example.org"})
    assert (answer.status_code, answer.json()["code"]) == (403, "unknown_host")
