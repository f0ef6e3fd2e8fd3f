"""The doctor over HTTP: what the host of this server can hold up."""

import asyncio
from collections.abc import Awaitable, Callable

from typing_extensions import TypedDict

from ringfence.fence.doctor.model import Diagnosis, Level
from ringfence.fence.doctor.service import diagnosed
from ringfence.fence.runtimes.model import Runtime
from ringfence.kernel.http.endpoint import Access, Api, Call, Fields
from ringfence.settings import Settings


class HostFinding(TypedDict):
    id: str
    title: str
    level: Level
    found: str
    fix: str


class DiagnosisView(TypedDict):
    level: Level
    seconds: float
    findings: list[HostFinding]


def routes(settings: Settings, living: Callable[[], Awaitable[tuple[Runtime | None, str]]]) -> Api:
    api = Api("system")
    turn = asyncio.Lock()

    @api.route("GET", "/api/v1/doctor", access=Access.CONFIGURE, answers=DiagnosisView)
    async def doctor(call: Call[Fields, Fields]) -> DiagnosisView:
        """What this server's host can hold up of a sandbox, and what is missing, with what would mend it.

        It is tried: a sandbox is made, a command run in it, and the sandbox removed."""
        async with turn:
            runtime, why_none = await living()
            return diagnosis_view(await diagnosed(settings, runtime, why_none))

    return api


def diagnosis_view(diagnosis: Diagnosis) -> DiagnosisView:
    return {
        "level": diagnosis.level,
        "seconds": diagnosis.seconds,
        "findings": [
            {"id": it.id, "title": it.title, "level": it.level, "found": it.found, "fix": it.fix}
            for it in diagnosis.findings
        ],
    }
