"""The board as other rooms and the doors meet it."""

from dataclasses import dataclass

from ringfence.board.acting import Acting
from ringfence.board.dependencies import Dependencies
from ringfence.board.files import Blobs, Files
from ringfence.board.flow import Flow
from ringfence.board.projects import Projects
from ringfence.board.tasks import Tasks
from ringfence.crew.links import LinkPolicy, beside
from ringfence.crew.proposals.service import Proposals
from ringfence.crew.service import Crew
from ringfence.kernel.auth.model import Principal
from ringfence.settings import Settings


@dataclass(frozen=True, slots=True)
class Board:
    acting: Acting
    projects: Projects
    tasks: Tasks
    flow: Flow
    dependencies: Dependencies
    files: Files
    blobs: Blobs

    async def check_links(self, by: Principal, *texts: str | None) -> None:
        """Refuse what an agent is about to write, when it leads out."""
        if by.is_agent:
            await beside(lambda: self.acting.no_links(by, *texts), sum(len(text) for text in texts if text))


def board(settings: Settings, crew: Crew, proposals: Proposals) -> Board:
    projects = Projects(settings, crew)
    acting = Acting(projects, crew, proposals, LinkPolicy(frozenset(settings.link_hosts)))
    dependencies = Dependencies(acting, proposals)
    tasks = Tasks(acting, dependencies, crew, proposals)
    flow = Flow(acting, dependencies, tasks, crew, proposals)
    return Board(
        acting,
        projects,
        tasks,
        flow,
        dependencies,
        Files(acting, filter_links=settings.link_filter_files),
        Blobs(settings.data / "files"),
    )
