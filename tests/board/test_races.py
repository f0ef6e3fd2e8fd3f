"""Many at once: one winner each, everybody else is told who won, and no limit is ever exceeded."""

import asyncio
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest

from ringfence.app import build
from ringfence.board.model import Task
from ringfence.board.tasks import Edit
from ringfence.kernel import migrations
from ringfence.kernel.auth.model import Principal, Role, TokenKind
from ringfence.kernel.database import Transaction
from ringfence.kernel.errors import Conflict, RingfenceError
from ringfence.settings import Settings
from tests.board.conftest import Agent, Project
from tests.harness import Ringfence, running

AGENTS, TASKS = 8, 200


def at_once(jobs: Sequence[Callable[[], object]]) -> None:
    """Run them on threads that start together; the first error any of them met is raised."""
    start = threading.Barrier(len(jobs))
    errors: list[BaseException] = []

    def run(job: Callable[[], object]) -> None:
        try:
            start.wait()
            job()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(job,)) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def written(project: Project, number: int) -> list[str]:
    """So many tasks, written at once."""
    admin = Principal(TokenKind.API, "admin", Role.ADMIN)

    def write(tx: Transaction) -> list[str]:
        tasks = project.server.house.board.tasks
        made = [tasks.create(tx, admin, project.id, None, Edit(title="raced")) for _ in range(number)]
        return [task.id for task in made if isinstance(task, Task)]

    found: list[str] = project.server.write(write)
    return found


def check_one_winner_each(project: Project, answers: dict[str, list[tuple[str, str | None]]]) -> None:
    """`answers`: for each task, who was answered what: None for ok, else who is said to have won."""
    listed = {task["id"]: task for task in project.admin.get(f"{project.path}/tasks", params={"limit": 1000}).json()}
    events = Counter(event["subject"] for event in audit(project, "task_claimed"))
    for task, told in answers.items():
        winners = [name for name, said in told if said is None]
        assert len(winners) == 1, (task, told)
        assert listed[task]["claimed_by"] == listed[task]["assigned_to"] == winners[0]
        assert listed[task]["status"] == "ready"
        assert {said for _, said in told if said is not None} <= {winners[0]}
        assert len(told) == AGENTS
        assert events[task] == 1


def audit(project: Project, kind: str) -> Iterator[dict[str, Any]]:
    cursor = None
    while True:
        params: dict[str, Any] = {
            "kind": kind,
            "project": project.id,
            "limit": 1000,
            **({"cursor": cursor} if cursor else {}),
        }
        page = project.admin.get("/api/v1/audit", params=params).json()
        yield from page["items"]
        cursor = page["next"]
        if cursor is None:
            return


def test_one_of_eight_agents_gets_each_of_two_hundred_tasks_in_process(either: Ringfence):
    project = Project(either)
    project.limit("in_progress", None)
    agents = [project.agent() for _ in range(AGENTS)]
    tasks = written(project, TASKS)
    answers: dict[str, list[tuple[str, str | None]]] = {task: [] for task in tasks}
    flow, database = either.house.board.flow, either.house.database

    async def claims(name: str) -> None:
        by = Principal(TokenKind.AGENT, name)

        async def claim(task: str) -> None:
            try:
                await database.write(lambda tx: flow.claim(tx, by, project.id, task), by.actor)
                answers[task].append((name, None))
            except Conflict as refusal:
                answers[task].append((name, str(refusal.details["claimed_by"])))

        await asyncio.gather(*(claim(task) for task in tasks))

    async def race() -> None:
        await asyncio.gather(*(claims(agent.name) for agent in agents))

    asyncio.run_coroutine_threadsafe(race(), either.loop).result(60)
    check_one_winner_each(project, answers)


def race_over_http(project: Project, agents: list[tuple[Agent, httpx.Client]], tasks: list[str]) -> None:
    answers: dict[str, list[tuple[str, str | None]]] = {task: [] for task in tasks}

    def claims(agent: Agent, client: httpx.Client) -> None:
        for task in tasks:
            answer = project.claim(task, client)
            assert answer.status_code in (200, 409), answer.text
            said = None if answer.status_code == 200 else answer.json()["claimed_by"]
            answers[task].append((agent.name, said))

    at_once([lambda agent=agent, client=client: claims(agent, client) for agent, client in agents])  # type: ignore[misc]
    check_one_winner_each(project, answers)


def test_one_of_eight_agents_gets_each_of_two_hundred_tasks_over_http(either: Ringfence):
    project = Project(either)
    project.limit("in_progress", None)
    agents = [project.agent() for _ in range(AGENTS)]
    race_over_http(project, [(agent, agent.client) for agent in agents], written(project, TASKS))


@pytest.fixture
def two_servers(tmp_path: Path, postgres_url: str) -> Iterator[tuple[Ringfence, Ringfence]]:
    """Two servers on one PostgreSQL."""
    with (
        running(tmp_path / "one", database=postgres_url) as one,
        running(tmp_path / "two", database=postgres_url) as two,
    ):
        yield one, two


def beside(agent: Agent, other: Ringfence) -> httpx.Client:
    """The same agent, at another server."""
    return other.client(agent.client.headers["authorization"].removeprefix("Bearer "))


def test_one_of_eight_agents_gets_each_task_though_two_servers_answer(two_servers: tuple[Ringfence, Ringfence]):
    one, two = two_servers
    project = Project(one)
    project.limit("in_progress", None)
    agents = [project.agent() for _ in range(AGENTS)]
    where = [(agent, beside(agent, two) if number % 2 else agent.client) for number, agent in enumerate(agents)]
    race_over_http(project, where, written(project, TASKS))
    assert one.admin.get("/api/v1/audit/verify").json()["ok"] is True


# Limits ---------------------------------------------------------------------------------------------------------------


def in_progress(project: Project, agent: str | None = None) -> int:
    params: dict[str, Any] = {"limit": 1000, **({"assigned_to": agent} if agent else {})}
    found = project.admin.get(f"{project.path}/tasks", params=params).json()
    return sum(task["status"] == "in_progress" or (task["status"] == "ready" and bool(task["claimed_by"]))
               for task in found)  # fmt: skip


def grab(project: Project, clients: list[httpx.Client], tasks: list[str]) -> list[int]:
    """Everybody claims, moves and takes whatever they can."""
    statuses: list[int] = []

    def go(number: int, client: httpx.Client) -> None:
        for at, task in enumerate(tasks[number:] + tasks[:number]):
            match at % 3:
                case 0:
                    answer = project.claim(task, client)
                case 1:
                    answer = project.move(task, "in_progress", client)
                case _:
                    answer = client.post(f"/api/v1{project.path}/claim-next", json={})
            statuses.append(answer.status_code)

    at_once([lambda number=number, client=client: go(number, client) for number, client in enumerate(clients)])  # type: ignore[misc]
    return statuses


def test_a_columns_limit_is_not_exceeded_by_eight_agents(either: Ringfence):
    project = Project(either)
    project.limit("in_progress", 5, scope="column")
    agents = [project.agent() for _ in range(AGENTS)]
    tasks = [project.task(status="ready") for _ in range(16)]
    statuses = grab(project, [agent.client for agent in agents], tasks)
    assert set(statuses) <= {200, 400, 403, 409}
    assert in_progress(project) == 5


def test_an_agents_limit_is_not_exceeded_from_eight_connections(either: Ringfence):
    project = Project(either)
    agent = project.agent()
    token = agent.client.headers["authorization"].removeprefix("Bearer ")
    tasks = [project.task(status="ready") for _ in range(16)]
    statuses = grab(project, [either.client(token) for _ in range(8)], tasks)
    assert set(statuses) <= {200, 400, 403, 409}
    assert in_progress(project, agent.name) == 3


def test_no_limit_is_exceeded_though_two_servers_answer(two_servers: tuple[Ringfence, Ringfence]):
    one, two = two_servers
    project = Project(one)
    project.limit("in_progress", 9, scope="column")
    agents = [project.agent() for _ in range(4)]
    clients = [agent.client for agent in agents] + [beside(agent, two) for agent in agents]
    grab(project, clients, [project.task(status="ready") for _ in range(16)])
    assert in_progress(project) == 9
    assert all(in_progress(project, agent.name) <= 3 for agent in agents)


def test_assignments_and_claims_at_once_exceed_no_limit(either: Ringfence):
    """Operators assign to one agent while it claims: what is assigned counts once it is claimed."""
    project = Project(either)
    agent = project.agent()
    tasks = [project.task(status="ready") for _ in range(12)]

    def assigns() -> None:
        for task in tasks:
            assert project.assign(task, agent).status_code in (200, 400)

    def claims() -> None:
        for task in reversed(tasks):
            assert project.claim(task, agent).status_code in (200, 400, 409)

    at_once([assigns, claims, claims, claims])
    assert in_progress(project, agent.name) <= 3


# Two servers and one board --------------------------------------------------------------------------------------------


def test_a_revocation_and_moves_at_once_leave_no_task_half_released(two_servers: tuple[Ringfence, Ringfence]):
    one, two = two_servers
    project = Project(one)
    project.limit("in_progress", None)
    project.limit("in_review", None)
    for _ in range(4):
        agent = project.agent()
        tasks = [project.claimed(project.task(), agent) for _ in range(6)]
        elsewhere = two.client(one.admin_token)  # a person: the agent itself would wait for its own revocation

        def moves(tasks: list[str] = tasks, client: httpx.Client = elsewhere) -> None:
            for task in tasks:
                answer = project.move(task, "in_review", client)
                assert answer.status_code in (200, 400), answer.text

        def revokes(agent: Agent = agent) -> None:
            assert one.admin.post(f"/agents/{agent.name}/revoke", json={"reason": "race"}).status_code == 200

        at_once([moves, revokes])
        for task in tasks:
            after = project.show(task)
            assert (after["status"], after["claimed_by"]) in (("ready", None), ("in_review", agent.name)), after
            went = project.admin.get(f"/api/v1{project.path}/tasks/{task}/history").json()["items"]
            assert went[-1]["to"] == after["status"]


def test_circles_are_refused_though_two_servers_tie_at_once(two_servers: tuple[Ringfence, Ringfence]):
    one, two = two_servers
    project = Project(one)
    there = two.client(one.admin_token)
    for _ in range(6):
        a, b = project.task(), project.task()
        answers: list[int] = []

        def tie(task: str, other: str, client: httpx.Client, answers: list[int] = answers) -> None:
            answers.append(project.act(task, "dependencies", client, depends_on=other).status_code)

        at_once([lambda a=a, b=b: tie(a, b, one.admin), lambda a=a, b=b: tie(b, a, there)])  # type: ignore[misc]
        assert sorted(answers) == [201, 400]


def test_two_servers_tell_each_other_who_may_see_a_project(two_servers: tuple[Ringfence, Ringfence]):
    """What one server was told, the other's event feed goes by as soon as it has the events."""
    one, two = two_servers
    project = Project(one, visibility="members", name="secret")
    member, other = project.agent(), project.agent()
    project.admin.post(f"{project.path}/join", json={"agent": member.name})
    task = project.task("secret task")
    marker = Project(one).task("the last one")
    for agent, sees in ((member, True), (other, False)):
        text = ""
        with beside(agent, two).stream("GET", "/events", headers={"last-event-id": "0"}) as stream:
            for chunk in stream.iter_text():
                text += chunk
                if marker in text:
                    break
        assert (task in text) is sees


# In one batch ---------------------------------------------------------------------------------------------------------


async def test_claims_of_one_batch_see_each_other(tmp_path: Path):
    """All use cases of a batch share one transaction: the second must see what the first did."""
    settings = Settings(data=tmp_path)
    migrations.upgrade(settings)
    house = build(settings)
    admin = Principal(TokenKind.API, "admin", Role.ADMIN)
    await house.database.open()
    project = await house.database.write(lambda tx: house.board.projects.create(tx, admin, "x", "admin", "open"))
    made = await house.database.write(
        lambda tx: [house.board.tasks.create(tx, admin, project.id, None, Edit(title="x")) for _ in range(20)]
    )
    tasks = [task.id for task in made if isinstance(task, Task)]
    gate = threading.Event()
    blocker = asyncio.ensure_future(house.database.write(lambda tx: gate.wait(10)))

    def claim(task: str, name: str) -> Awaitable[object]:
        return house.database.write(lambda tx: house.board.flow.claim(tx, admin, project.id, task, name))

    jobs = [claim(task, f"a{number}") for task in tasks for number in range(8)]
    waiting = asyncio.gather(*jobs, return_exceptions=True)
    await asyncio.sleep(0)
    gate.set()
    await blocker
    answers = await waiting
    await house.database.close()
    won = [answer for answer in answers if isinstance(answer, Task)]
    assert len({task.id for task in won}) == len(won) == 20
    assert all(isinstance(answer, Task | RingfenceError) for answer in answers)
    assert max(Counter(task.claimed_by for task in won).values()) <= 3
