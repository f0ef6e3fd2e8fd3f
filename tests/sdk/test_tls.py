"""A server with a certificate of its own is believed when its authority is named."""

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from ringfence import AgentClient
from ringfence.sdk.errors import Unreachable
from tests.harness import Ringfence, running

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl makes the certificate")


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("tls")
    cert, key = folder / "cert.pem", folder / "key.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=ringfence",
         "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", cert],
        check=True, capture_output=True,
    )  # fmt: skip
    return cert, key


@pytest.fixture
def secure(certificate: tuple[Path, Path], tmp_path: Path, template: Path) -> Iterator[Ringfence]:
    with running(tmp_path / "data", template, tls_cert=certificate[0], tls_key=certificate[1]) as found:
        yield found


def test_a_certificate_that_nobody_knows_is_refused(secure: Ringfence) -> None:
    with AgentClient(f"https://127.0.0.1:{secure.port}", "claude", token=secure.admin_token) as agent:
        with pytest.raises(Unreachable, match="is not trusted here: name its file in `ca`, or in RINGFENCE_CA"):
            agent.register()
        with pytest.raises(Unreachable, match="certificate is not trusted"):
            next(agent.events())


def test_a_certificate_that_is_named_is_believed(secure: Ringfence, certificate: tuple[Path, Path]) -> None:
    url = f"https://127.0.0.1:{secure.port}"
    with AgentClient(url, "claude", token=secure.admin_token, ca=certificate[0]) as agent:
        assert agent.register()["id"] == "claude"


def test_it_can_be_named_in_the_environment(
    secure: Ringfence, certificate: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RINGFENCE_CA", str(certificate[0]))
    with AgentClient(f"https://127.0.0.1:{secure.port}", "claude", token=secure.admin_token) as agent:
        assert agent.ensure_registered() is True
