"""The check of a sandbox's fence: what it finds where all is well, where it is not, and where somebody lies to it."""

import asyncio
import os
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringfence import Client
from ringfence.fence.model import Enforced, Limits, OnCrash, Sandbox, State, User, Wanted
from ringfence.fence.posture.checks import CHECKS, JUDGED
from ringfence.fence.posture.host import Host
from ringfence.fence.posture.model import Said, Verdict, judged
from ringfence.fence.posture.service import PROBE, _placed
from ringfence.fence.runtimes.native import bwrap
from ringfence.kernel.auth.model import Role
from tests.cli.conftest import Cli
from tests.fence.yard import AS_ROOT, Yard, until

# What no sandbox on a shared kernel holds up, told as such.
SHARED = {"host-figures", "mount-paths", "boot-id", "kernel"}
BARRIERS = {  # the checks of agentsh's barrier-check that concern a sandbox, by its numbers
    1: "cap-sys-admin", 2: "cap-net-admin", 3: "cap-sys-ptrace", 4: "cap-sys-module", 5: "cap-sys-rawio",
    6: "cap-dac-read-search", 7: "seccomp", 8: "user-namespace", 9: "first-process", 10: "physical-memory", 11: "sysrq",
    12: "docker-socket", 13: "engine-sockets", 14: "docker-host", 15: "git-credentials", 16: "ssh-keys", 17: "aws",
    18: "gcloud", 19: "azure", 20: "docker-login", 21: "package-tokens", 22: "kubernetes", 23: "gpg-keys",
    24: "github-login", 25: "network-10", 26: "network-172", 27: "network-192", 28: "docker-bridge", 29: "metadata",
    32: "outside-8080", 33: "outside-22", 47: "mounts", 52: "docker-port", 53: "env-secrets",
}  # fmt: skip


def by_id(report: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {each["id"]: each for each in report["checks"]}


def of(report: dict[str, Any], verdict: str) -> set[str]:
    return {each["id"] for each in report["checks"] if each["verdict"] == verdict}


def test_every_barrier_holds_in_a_sandbox_and_what_does_not_is_not_called_so(ground: Yard) -> None:
    with ground.sandbox() as box:
        report = box.post("check")
        assert [each["id"] for each in report["checks"]] == [*CHECKS, *JUDGED]
        assert of(report, "fail") == set(), report
        assert {by_id(report)[name]["verdict"] for name in BARRIERS.values()} == {"pass"}
        assert of(report, "skip") <= {"own-host"}
        unheld = {"limit-disk"} if AS_ROOT else {"limit-disk", "limit-memory", "limit-cpus", "warden-settings"}
        assert of(report, "warn") - {"oom-score"} == SHARED | unheld
        assert (report["verdict"], report["failed"]) == ("warn", 0)
        assert report["passed"] > 90
        (event,) = box.events("sandbox_checked")
        assert (event["data"]["verdict"], event["data"]["alert"]) == ("warn", False)
        assert list(box.folder.glob("probe-*")) == [], "it is gone when it has run"


def test_what_is_wrong_inside_is_found(ground: Yard) -> None:
    """A key, a token, a variable, somebody on Docker's port: each is its check, and no other."""
    with ground.sandbox(env={"MY_API_KEY": "sk-real", "PLACE_TOKEN": "rfp_x", "DOCKER_HOST": "tcp://x"}) as box:
        box.shell(
            "cd; mkdir -p .ssh .aws; echo '-----BEGIN OPENSSH PRIVATE KEY-----' > .ssh/id; echo x > .aws/credentials; "
            "echo '//r/:_authToken=x' > .npmrc; echo https://a:b@c > .git-credentials"
        )
        listener = "import socket,time; s=socket.socket(); s.bind(('127.0.0.1',2375)); s.listen(); print(1,flush=True)"
        listening = box.begin("/usr/bin/python3", "-c", f"{listener}; time.sleep(60)")
        while not box.show_exec(listening)["stdout_bytes"]:
            pass
        report = box.post("check")
        found = by_id(report)
        wrong = {"ssh-keys", "aws", "package-tokens", "git-credentials", "env-secrets", "docker-host", "docker-port"}
        assert of(report, "fail") == wrong
        assert report["verdict"] == "fail"
        assert "MY_API_KEY" in found["env-secrets"]["found"] and "PLACE_TOKEN" not in found["env-secrets"]["found"]
        assert "/home/agent/.ssh/id" in found["ssh-keys"]["found"]
        (event,) = box.events("sandbox_checked")
        assert set(event["data"]["failed"]) == wrong and event["data"]["alert"] is True


def test_the_probe_cannot_be_read_replaced_or_traced(ground: Yard) -> None:
    with ground.sandbox() as box:

        async def tried() -> str:
            async with _placed(box.folder) as name:
                path = f"/run/ringfence/{name}"
                return await asyncio.to_thread(
                    box.shell,
                    f"cat {path}; cp {path} /tmp; chmod 755 {path}; rm -f {path}; mv {path} /tmp; "
                    f"echo x > {path}; ln {path} /tmp/l; {path} < /dev/null | grep -c complete",
                )

        said = asyncio.run(tried()).splitlines()
        assert said[-1] == "1", "it can be executed"
        refused = [line for line in said[:-1] if "denied" in line or "Read-only" in line or "cross-device" in line]
        assert len(refused) == 7, said


def test_a_probe_that_is_ended_inside_is_a_failure(ground: Yard) -> None:
    killer = (
        "import os\nwhile True:\n  for pid in filter(str.isdigit, os.listdir('/proc')):\n    try:\n"
        "      if b'pro' b'be-' in open(f'/proc/{pid}/cmdline', 'rb').read(): os.kill(int(pid), 9)\n"
        "    except OSError: pass"
    )
    with ground.sandbox() as box:
        box.begin("/usr/bin/python3", "-c", killer)
        until(lambda: box.stats()["cpu_us"] > 150_000, "it hunts")
        report = box.post("check")
        assert (report["verdict"], by_id(report)["probe"]["verdict"]) == ("fail", "fail")
        assert of(report, "skip") > {"abstract-sockets"}, "what it did not come to is not called well"


def test_only_operators_check_and_only_what_runs(ground: Yard) -> None:
    viewer = ground.server.client(ground.server.token("vera", Role.VIEWER))
    agent = ground.server.agent("nosy")
    with ground.sandbox() as box:
        assert viewer.post(f"{box.path}/check").status_code == 403
        assert agent.post(f"{box.path}/check").status_code == 403
        box.post("stop")
        assert ground.admin.post(f"{box.path}/check").json()["code"] == "sandbox_stopped"
    assert ground.admin.post("/api/v1/sandboxes/nobody/check").status_code == 404


def test_the_command_and_the_sdk_tell_the_same(ground: Yard, tmp_path: Path) -> None:
    cli = Cli(tmp_path, RINGFENCE_URL=ground.server.url, RINGFENCE_TOKEN=ground.server.admin_token)
    with ground.sandbox() as box, Client(ground.server.url, token=ground.server.admin_token) as client:
        name = box.show()["name"]
        report = client.check_sandbox(name)
        assert report["verdict"] == "warn"
        told = cli.json("sandbox", "check", name)
        assert [(each["id"], each["verdict"]) for each in told["checks"]] == [
            (each["id"], each["verdict"]) for each in report["checks"]
        ]
        said = cli("sandbox", "check", name)
        assert said.code == 0 and f"{told['passed']} held up, 0 not" in said.out
        assert "System calls are filtered" not in said.out
        assert "System calls are filtered" in cli.ok("sandbox", "check", name, "--all")
        assert cli("sandbox", "check", name, "--strict").code == 8
        box.shell("mkdir ~/.aws; touch ~/.aws/credentials")
        assert cli("sandbox", "check", name).code == 1


# Without a fence ------------------------------------------------------------------------------------------------------


def probed(*command: str | Path, given: bytes = b"", **more: Any) -> Said:
    ran = subprocess.run(
        command, input=given, capture_output=True, timeout=60, start_new_session=True, check=False, **more
    )
    return Said.read(ran.stdout)


@pytest.mark.skipif(not AS_ROOT or not shutil.which("setpriv"), reason="only root can become another user")
def test_it_says_so_where_nothing_is_fenced(tmp_path: Path) -> None:
    """The same probe as a user of the host, whom nothing holds back but the kernel's own rules."""
    place = Path(shutil.copy(PROBE, f"/var/tmp/probe-{os.getpid()}"))
    place.chmod(0o755)
    about = Path("/etc/passwd").stat()
    given = f"file /etc/passwd {about.st_dev} {about.st_ino}\n".encode()
    try:
        said = probed(
            "setpriv", "--reuid", "12345", "--regid", "12345", "--clear-groups", place, given=given, env={"HOME": "/"}
        )
    finally:
        place.unlink()
    assert set(CHECKS) == set(said.came), "a line for each check, and the catalogue knows each"
    failed = {name for name, (verdict, _) in said.came.items() if verdict is Verdict.FAIL}
    assert failed >= {
        "capabilities", "cap-sys-admin", "seccomp", "no-new-privileges", "identity", "user-namespace", "keyrings",
        "personality", "host-files", "kernel-tables", "socket-families",
    }  # fmt: skip
    in_the_open = Path("/proc/2/comm").exists() and Path("/proc/2/comm").read_text() == "kthreadd\n"
    assert ("other-processes" in failed) is in_the_open  # these tests may run in a container of their own
    found = {each.id: each.verdict for each in judged(said, sandbox(), Host.here(), {})}
    assert found["own-namespaces"] is Verdict.FAIL
    assert found["kernel"] is found["boot-id"] is Verdict.WARN
    assert found["probe"] is Verdict.PASS


def test_it_runs_where_there_is_no_shell_no_library_and_no_python(tmp_path: Path) -> None:
    said = probed(
        bwrap.find(), "--unshare-user", "--unshare-pid", "--unshare-net", "--ro-bind", PROBE, "/probe",
        "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--cap-drop", "ALL", "--clearenv", "/probe",
    )  # fmt: skip
    assert said.facts["complete"] == "yes"
    assert set(CHECKS) == set(said.came)


# What comes out of a sandbox is believed in nothing but its form ------------------------------------------------------


def sandbox(**more: Any) -> Sandbox:
    plain = Sandbox(
        id="sbx_1", name="box", node="nod_1", labels={}, owner="operator:ann", project=None, agent=None,
        runtime="native", image="host", user=User.AGENT, read_only=False, memory_disk=False, limits=Limits(),
        best_effort=False, env={}, snapshot=None, on_crash=OnCrash.RESTART, ttl=None, expires_at=None,
        idle_timeout=None, state=State.RUNNING, wanted=Wanted.RUNNING, enforced=Enforced(), life=None, cause=None,
        error="", restarts=0, crashes=(), created_at=0, started_at=0, ended_at=None, active_at=0, destroyed_at=None,
    )  # fmt: skip
    return replace(plain, **more)


@given(st.binary(max_size=4000))
def test_whatever_it_says_is_a_report_of_every_check(output: bytes) -> None:
    findings = judged(Said.read(output), sandbox(), Host.here(), {})
    assert [each.id for each in findings] == [*CHECKS, *JUDGED]
    assert all(each.found.isascii() and each.found.isprintable() and len(each.found) <= 400 for each in findings)


@given(st.lists(st.sampled_from([*CHECKS, "no-such-check", "probe", "kernel", "limit-memory"]), max_size=20), st.text())
def test_it_can_speak_of_its_own_checks_alone_and_once(names: list[str], text: str) -> None:
    lines = "".join(f"{name}\tpass\t{text}\n{name}\tfail\tno\n" for name in names)
    found = {each.id: each for each in judged(Said.read(lines.encode()), sandbox(), Host.here(), {})}
    assert found["probe"].verdict is Verdict.FAIL
    assert found["limit-memory"].verdict is Verdict.WARN


def test_a_promise_that_the_kernel_does_not_keep_is_a_failure() -> None:
    how = dict.fromkeys(("memory", "cpus", "pids"), "cgroup v2")
    promised = sandbox(limits=Limits(memory=1 << 30, cpus=1.5, pids=64), enforced=Enforced(how=how))

    def verdicts(**held: int | None) -> list[Verdict]:
        found = {each.id: each.verdict for each in judged(Said({}, {}), promised, Host.here(), held)}
        return [found[f"limit-{name}"] for name in ("memory", "cpus", "pids")]

    assert verdicts(memory=1 << 30, cpus=1500, pids=66) == [Verdict.PASS] * 3
    assert verdicts(memory=2 << 30, cpus=1501, pids=67) == [Verdict.FAIL] * 3
    assert verdicts(memory=None, cpus=None, pids=None) == [Verdict.FAIL] * 3
