"""The check of a sandbox's fence over HTTP."""

from typing_extensions import TypedDict

from ringfence.fence.posture.model import Report, Verdict
from ringfence.fence.posture.service import Posture
from ringfence.kernel.http.endpoint import Access, Api, Call, Fields, Nothing


class FindingView(TypedDict):
    id: str
    title: str
    tried: str
    found: str
    verdict: Verdict


class PostureView(TypedDict):
    verdict: Verdict
    passed: int
    failed: int
    warned: int
    skipped: int
    seconds: float
    checks: list[FindingView]


def routes(posture: Posture) -> Api:
    api = Api("sandboxes")

    @api.route("POST", "/api/v1/sandboxes/{sandbox}/check", access=Access.STEER, body=Nothing, answers=PostureView)
    async def check(call: Call[Nothing, Fields]) -> PostureView:
        """Try its fence from inside.

        Each check says what was tried and what came of it: `pass`, `fail`, `warn` (cannot be held up on this host, or
        was not asked for) or `skip` (could not be tried)."""
        return posture_view(await posture.check(call.principal, call["sandbox"]))

    return api


def posture_view(report: Report) -> PostureView:
    return {
        "verdict": report.verdict,
        "passed": len(report.of(Verdict.PASS)),
        "failed": len(report.of(Verdict.FAIL)),
        "warned": len(report.of(Verdict.WARN)),
        "skipped": len(report.of(Verdict.SKIP)),
        "seconds": report.seconds,
        "checks": [
            {"id": it.id, "title": it.title, "tried": it.tried, "found": it.found, "verdict": it.verdict}
            for it in report.findings
        ],
    }
