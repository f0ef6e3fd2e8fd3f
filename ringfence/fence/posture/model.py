"""What a check of a sandbox's fence comes to: a finding for each thing that was tried, and one verdict of all.

The probe (warden/probe) tries inside and says a line for each check; `CHECKS` says what each is for. What only the
server can tell (whether a namespace is another than its own, which limits hold) is judged here, from what the probe
tells of itself. What comes out of a sandbox is believed in nothing but this form.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from ringfence.fence.model import LIMITS, Sandbox
from ringfence.fence.posture.checks import CHECKS, JUDGED
from ringfence.fence.posture.host import Host
from ringfence.kernel.sizes import written

MOST_FOUND = 400  # characters of what came of one
SPARE_PIDS = 2  # the warden and what starts it are counted as well
_SECRET = re.compile(r"(?i)key|secret|token|password|passwd|credential")
_NO_SECRET = {"TERM", "COLORTERM", "LS_COLORS", "GPG_KEY", "PYTHON_SHA256", "no_proxy", "SSH_PASSWORD"}
_PLACEHOLDER = "rfp_"


class Verdict(StrEnum):
    PASS = "pass"  # noqa: S105  held up
    FAIL = "fail"  # not held up
    WARN = "warn"  # cannot be held up here, or is not asked for
    SKIP = "skip"  # could not be tried, or means nothing here


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    id: str
    title: str
    tried: str
    found: str
    verdict: Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    findings: tuple[Finding, ...]
    seconds: float

    def of(self, verdict: Verdict) -> list[str]:
        return [finding.id for finding in self.findings if finding.verdict is verdict]

    @property
    def verdict(self) -> Verdict:
        """PASS, unless something failed or was warned of."""
        seen = {finding.verdict for finding in self.findings}
        return next((one for one in (Verdict.FAIL, Verdict.WARN) if one in seen), Verdict.PASS)


@dataclass(frozen=True, slots=True)
class Said:
    """What the probe said, as far as it is in the form it should be."""

    came: Mapping[str, tuple[Verdict, str]]
    facts: Mapping[str, str]

    @classmethod
    def read(cls, output: bytes) -> "Said":
        came: dict[str, tuple[Verdict, str]] = {}
        facts: dict[str, str] = {}
        for line in output.decode("ascii", "replace").split("\n"):
            parts = line.split("\t")
            if len(parts) != 3:
                continue
            name, word, text = parts[0], parts[1], _printable(parts[2][:MOST_FOUND])
            if name == "fact":
                facts.setdefault(word[:40], text)
            elif name in CHECKS and word in set(Verdict):
                came.setdefault(name, (Verdict(word), text))
        return cls(came, facts)


def judged(said: Said, sandbox: Sandbox, host: Host, held: Mapping[str, int | None]) -> list[Finding]:
    """Every check, in the order of the catalogue. `held`: what the kernel holds the sandbox to."""
    came = {**dict.fromkeys(CHECKS, (Verdict.SKIP, "the probe did not come so far")), **said.came}
    came |= _of_facts(said.facts, host) | _of_environment(sandbox.env) | _of_limits(sandbox, held)
    whole = said.facts.get("complete") == "yes" and CHECKS.keys() <= said.came.keys()
    came["probe"] = (Verdict.PASS, "it did") if whole else (Verdict.FAIL, "something ended it, or spoke for it")
    return [
        Finding(id=name, title=title, tried=tried, found=came[name][1], verdict=came[name][0])
        for name, (title, tried) in (CHECKS | JUDGED).items()
    ]


Came = dict[str, tuple[Verdict, str]]


def _of_facts(facts: Mapping[str, str], host: Host) -> Came:
    shared = [kind for kind, own in host.namespaces.items() if facts.get(f"namespace-{kind}", own) == own]
    kernel = facts.get("kernel", "?")
    return {
        "own-namespaces": (Verdict.FAIL, f"it is in the host's: {', '.join(shared)}")
        if shared
        else (Verdict.PASS, f"{len(host.namespaces)} kinds, none of them the host's"),
        "machine-id": _differs(facts.get("machine-id"), host.machine_id, Verdict.FAIL),
        "hostname": _differs(facts.get("hostname"), host.hostname, Verdict.WARN),
        "boot-id": _differs(facts.get("boot-id"), host.boot_id, Verdict.WARN),
        "kernel": (Verdict.WARN, f"it runs on the host's own kernel, {kernel}")
        if kernel == host.kernel
        else (Verdict.PASS, f"its kernel is {kernel}"),
    }


def _differs(inside: str | None, outside: str, otherwise: Verdict) -> tuple[Verdict, str]:
    if inside is None:
        return Verdict.PASS, "it is told of none"
    return (otherwise, "it is the host's") if inside == outside else (Verdict.PASS, "it is another than the host's")


def _of_environment(env: Mapping[str, str]) -> Came:
    told = sorted(
        name
        for name, value in env.items()
        if _SECRET.search(name) and name not in _NO_SECRET and value and not value.startswith(_PLACEHOLDER)
    )
    docker = env.get("DOCKER_HOST")
    return {
        "env-secrets": (Verdict.FAIL, f"every program can read: {', '.join(told)}"[:MOST_FOUND])
        if told
        else (Verdict.PASS, "no variable is named like one"),
        "docker-host": (Verdict.FAIL, "DOCKER_HOST is set") if docker else (Verdict.PASS, "DOCKER_HOST is not set"),
    }


def _of_limits(sandbox: Sandbox, held: Mapping[str, int | None]) -> Came:
    return {f"limit-{name}": _of_limit(sandbox, name, held.get(name)) for name in LIMITS}


def _of_limit(sandbox: Sandbox, name: str, held: int | None) -> tuple[Verdict, str]:
    limit, how = getattr(sandbox.limits, name), sandbox.enforced.how.get(name)
    if limit is None:
        return Verdict.WARN, "none was asked for: it may use all there is"
    amount = written(limit) if name in ("memory", "disk") else f"{limit:g}"
    if how is None:
        return Verdict.WARN, f"{amount} is not held up on this host: `ringfence doctor` says what would"
    if how.startswith("cgroup"):
        wanted = limit * 1000 if name == "cpus" else limit + SPARE_PIDS if name == "pids" else limit
        if held is None or held > wanted:
            return Verdict.FAIL, f"{amount} was promised by {how}, and the kernel does not hold it to that"
    return Verdict.PASS, f"{amount}, by {how}"


def _printable(text: str) -> str:
    return "".join(letter if " " <= letter <= "~" else "?" for letter in text)
