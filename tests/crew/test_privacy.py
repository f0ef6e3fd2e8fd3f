"""Who hears what agents say, and who may take a name that was an agent's."""

from ringfence.kernel.auth.model import Role
from tests.harness import Ringfence


def kinds(client, server: Ringfence, after: int = 0) -> list[str]:
    """The kinds of events that the stream shows, up to the newest there is."""
    newest, number = server.house.feed.last, 0
    found: list[str] = []
    with client.stream("GET", "/events", params={"after": after}) as stream:
        for line in stream.iter_lines():
            name, _, value = line.partition(": ")
            if name == "id":
                number = int(value)
            elif name == "event":
                found.append(value)
                if number >= newest:
                    break
    return found


def test_a_checkpoint_is_heard_by_its_agent_and_by_people_but_not_by_other_agents(server: Ringfence):
    claude, bob = server.agent("claude"), server.agent("bob")
    assert claude.post("/agents/claude/checkpoint", json={"state": "the plan"}).status_code == 200
    server.admin.post("/projects", json={"name": "last", "creator": "admin"})
    assert "checkpoint_submitted" in kinds(claude, server)
    assert "checkpoint_submitted" in kinds(server.admin, server)
    assert "checkpoint_submitted" not in kinds(bob, server)


def test_a_person_with_some_projects_does_not_hear_what_agents_say_to_each_other(server: Ringfence):
    claude = server.agent("claude")
    project = server.admin.post("/projects", json={"name": "apollo", "creator": "admin"}).json()["id"]
    token = server.admin.post("/api/v1/tokens", json={"name": "carol", "role": "viewer", "projects": [project]}).json()[
        "token"
    ]
    claude.post("/messages/send", json={"from": "claude", "to": "bob", "content": "between us"})
    server.admin.post(f"/projects/{project}/tasks", json={"title": "last"})
    heard = kinds(server.client(token), server)
    assert "task_created" in heard
    assert "message_sent" not in heard


def test_a_newcomer_with_an_old_name_finds_none_of_the_old_ones_messages(server: Ringfence):
    server.agent("claude")
    server.admin.post("/messages/send", json={"from": "admin", "to": "claude", "content": "for the first claude"})
    assert server.admin.delete("/agents/claude").status_code == 200
    newcomer = server.agent("claude")
    assert newcomer.get("/messages/claude", params={"unread": "true"}).json() == []


def test_a_person_cannot_take_an_agents_name_even_when_its_tokens_are_long_gone(server: Ringfence):
    server.agent("claude")
    server.clock.advance(400 * 86400)
    server.write(server.house.auth.forget)
    admin = server.client(server.token("later", Role.ADMIN))
    answer = admin.post("/api/v1/people", json={"name": "claude", "role": "viewer"})
    assert answer.status_code == 409
    assert answer.json()["code"] == "name_taken"
