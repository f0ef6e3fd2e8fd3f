"""What is said: conversations, threads and broadcasts, written, answered, acknowledged; and who talks with whom."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from ringfence.kernel.auth.model import Role
from tests.dashboard.conftest import Sit
from tests.dashboard.test_board import told
from tests.harness import Ringfence, running

SEND = "/api/v1/messages"


@pytest.fixture
def server(tmp_path: Path, template: Path) -> Iterator[Ringfence]:
    with running(tmp_path / "data", template) as server:
        yield server


def entry(page: Page, text: str) -> Locator:
    return page.get_by_role("navigation", name="Conversations").get_by_role("link").filter(has_text=text)


def said(page: Page, text: str) -> Locator:
    return page.get_by_role("list", name="Messages").get_by_role("listitem").filter(has_text=text)


def test_a_person_writes_to_an_agent_is_answered_live_and_acknowledges(server: Ringfence, sit: Sit):
    claude = server.agent("claude")
    page = sit().go("messages")
    expect(page.get_by_role("heading", name="Nobody has said anything yet")).to_be_visible()
    page.keyboard.press("n")
    form = page.get_by_role("dialog", name="New message")
    form.get_by_label("Message").fill("How far are you?")
    form.get_by_label("To").fill("claude")
    form.get_by_role("button", name="Send").click()
    expect(page).to_have_url(re.compile("open=pair"))
    expect(said(page, "How far are you?")).to_contain_text("Not delivered yet")
    inbox = claude.get("/api/v1/messages", params={"agent": "claude", "unread": "true"})
    sent = server.admin.get(SEND).json()["items"][0]
    assert (sent["from"], sent["to"], sent["content"]) == ("ada", "claude", "How far are you?"), inbox.text
    claude.post(f"{SEND}/{sent['id']}/ack", json={})
    claude.post(SEND, json={"to": "ada", "content": "Nearly there", "reply_to": sent["id"]})
    expect(page.locator("[data-fate=acknowledged]")).to_have_count(1)
    answer = said(page, "Nearly there")
    expect(answer).to_contain_text("How far are you?")
    answer.get_by_role("button", name="Acknowledge").click()
    expect(answer.locator("[data-fate=acknowledged]")).to_be_visible()
    answer.get_by_role("button", name="Reply").click()
    page.get_by_label("Write to claude").fill("Thank you")
    page.keyboard.press("Control+Enter")
    expect(said(page, "Thank you")).to_be_visible()
    expect(page.get_by_label("Write to claude")).to_have_value("")
    last = server.admin.get(SEND, params={"newest_first": True}).json()["items"]
    assert "Thank you" in [each["content"] for each in last]


def test_a_broadcast_reaches_every_agent_and_shows_who_has_it(server: Ringfence, sit: Sit):
    agents = {name: server.agent(name) for name in ("claude", "codex")}
    page = sit().go("messages?to=*")
    form = page.get_by_role("dialog", name="New message")
    expect(form).to_contain_text("Every agent: 2 now.")
    form.get_by_label("Message").fill("Freeze at noon")
    form.get_by_role("button", name="Send").click()
    expect(told(page, "Sent to everybody.")).to_be_visible()
    broadcast = said(page, "Freeze at noon")
    sent = server.admin.get(SEND).json()["items"][0]
    assert agents["codex"].post(f"{SEND}/{sent['id']}/ack", json={}).status_code == 200
    broadcast.get_by_role("button", name="Who has it").click()
    deliveries = page.get_by_role("list", name="Deliveries")
    expect(deliveries.get_by_role("listitem").filter(has_text="codex")).to_contain_text("Acknowledged")
    expect(deliveries.get_by_role("listitem").filter(has_text="claude")).not_to_contain_text("Acknowledged")


def test_conversations_are_found_filtered_and_gone_through_by_keys(server: Ringfence, sit: Sit):
    claude, codex = server.agent("claude"), server.agent("codex")
    claude.post(SEND, json={"to": "codex", "content": "About dates", "thread": "dates"})
    codex.post(SEND, json={"to": "claude", "content": "About zones"})
    page = sit("ben").go("messages")
    expect(entry(page, "dates")).to_be_visible()
    expect(entry(page, "About zones")).to_be_visible()
    page.get_by_label("Find a conversation").fill("zones")
    expect(entry(page, "dates")).to_have_count(0)
    expect(page).to_have_url(re.compile("q=zones"))
    page.get_by_label("Find a conversation").fill("")
    page.get_by_label("Find a conversation").press("Escape")
    page.keyboard.press("j")
    expect(page).to_have_url(re.compile("open="))
    first = page.url
    page.keyboard.press("j")
    expect(page).not_to_have_url(first)
    page.keyboard.press("k")
    expect(page).to_have_url(first)
    entry(page, "dates").click()
    expect(page.get_by_role("region", name="Conversation")).to_contain_text("Thread with claude, codex")
    claude.post(SEND, json={"to": "codex", "content": "And leap seconds", "thread": "dates"})
    expect(said(page, "And leap seconds")).to_be_visible()
    page.reload()
    expect(said(page, "And leap seconds")).to_be_visible()


def test_who_talks_with_whom_is_drawn_lights_up_and_is_a_table_too(server: Ringfence, sit: Sit):
    claude, codex = server.agent("claude"), server.agent("codex")
    server.agent("goose")
    for _ in range(3):
        claude.post(SEND, json={"to": "codex", "content": "x"})
    page = sit().go("messages?view=graph")
    graph = page.get_by_role("application", name=re.compile("^Message graph"))
    node = graph.get_by_role("link", name=re.compile("^claude, .*: 3 sent, 0 received"))
    expect(node).to_be_visible()
    edge = page.locator("[data-edge='claude codex']")
    expect(edge).to_be_attached()
    expect(page.locator("[data-edge='codex claude']")).to_have_count(0)
    codex.post(SEND, json={"to": "claude", "content": "y"})
    expect(page.locator("[data-edge='codex claude']")).to_be_attached()
    claude.post(SEND, json={"to": "codex", "content": "z"})
    expect(page.locator("[data-edge='claude codex'][data-lit]")).to_be_attached()
    node = graph.get_by_role("link", name=re.compile("^claude, "))
    node.focus()
    expect(page.get_by_text("4 sent, 1 received", exact=True)).to_be_visible()
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("agent=claude"))
    page.go_back()
    page.get_by_role("link", name="Table").click()
    row = page.get_by_role("row").filter(has_text="claude").filter(has_text="codex").first
    row.get_by_role("link", name="4 messages from claude to codex").click()
    expect(page.get_by_role("region", name="Conversation")).to_be_visible()


def test_a_refused_message_comes_back_to_who_wrote_it_and_a_viewer_writes_none(server: Ringfence, sit: Sit):
    claude = server.agent("claude")
    seat = sit()
    claude.post(SEND, json={"to": "ada", "content": "Hello"})
    page = seat.go("messages?open=pair:ada,claude")
    expect(said(page, "Hello")).to_be_visible()
    problem = {"status": 429, "code": "rate_limited", "detail": "Slowly, please."}
    page.route(
        f"**{SEND}",
        lambda route: (
            route.continue_()
            if route.request.method == "GET"
            else route.fulfill(status=429, content_type="application/problem+json", json=problem)
        ),
    )
    field = page.get_by_label("Write to claude")
    field.fill("Too much")
    page.keyboard.press("Control+Enter")
    expect(told(page, "Slowly, please.")).to_be_visible()
    expect(field).to_have_value("Too much")
    theirs = sit("vera", Role.VIEWER).go("messages?open=pair:ada,claude")
    expect(said(theirs, "Hello")).to_be_visible()
    expect(theirs.get_by_role("button", name=re.compile("New message|Send|Reply|Acknowledge"))).to_have_count(0)
    theirs.keyboard.press("n")
    expect(theirs.get_by_role("dialog")).to_have_count(0)
