"""What this host can hold up: findings, each with what mends it, and what they come to together."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum


class Level(StrEnum):
    OK = "ok"
    WARNING = "warning"  # sandboxes run, and something is not held up, or will be short
    MISSING = "missing"  # no sandbox can run


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    id: str
    title: str
    level: Level
    found: str
    fix: str = ""  # a command, or what to change; empty: nothing to mend


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    findings: tuple[Finding, ...]
    seconds: float

    @property
    def level(self) -> Level:
        return worst(self.findings)


def worst(findings: Sequence[Finding]) -> Level:
    seen = {finding.level for finding in findings}
    return next((one for one in (Level.MISSING, Level.WARNING) if one in seen), Level.OK)
