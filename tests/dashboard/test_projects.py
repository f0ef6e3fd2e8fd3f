"""A project: its name, who works in it, how much at a time, its files, and its end."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect

from ringfence.kernel.auth.model import Role
from tests.dashboard.conftest import Sit, project, task
from tests.dashboard.test_board import told
from tests.harness import Ringfence, running


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, template: Path) -> Iterator[Ringfence]:
    with running(tmp_path_factory.mktemp("data"), template) as server:
        server.agent("claude", capabilities=["python"])
        yield server


def test_its_name_members_limits_and_files_are_changed_and_kept(server: Ringfence, sit: Sit):
    apollo = project(server)
    path = f"/api/v1/projects/{apollo}"
    page = sit().go(f"projects/{apollo}/settings")
    page.get_by_label("Name", exact=True).fill("Artemis")
    page.get_by_role("button", name="Rename").click()
    expect(page.get_by_role("heading", name="Artemis", level=1)).to_be_visible()
    page.get_by_label("Who may work in it").select_option("members")
    page.get_by_role("combobox", name="Let an agent join").fill("claude")
    page.keyboard.press("Enter")
    expect(page.get_by_role("list", name="Members").get_by_role("link", name="claude")).to_be_visible()
    page.get_by_label("In progress, each agent").fill("2")
    page.keyboard.press("Enter")
    page.get_by_label("In review, all together").fill("5")
    page.keyboard.press("Tab")
    page.get_by_role("combobox", name="Agent", exact=True).fill("claude")
    page.keyboard.press("Enter")
    page.get_by_label("Limit", exact=True).fill("7")
    page.get_by_role("button", name="Add").click()
    expect(page.get_by_label("In progress, claude")).to_have_value("7")
    page.get_by_label("Files to upload").set_input_files(
        {"name": "plan.md", "mimeType": "text/markdown", "buffer": b"# Plan"}
    )
    expect(page.get_by_role("link", name="Download plan.md")).to_be_visible()
    found = server.admin.get(path).json()
    assert (found["name"], found["visibility"]) == ("Artemis", "members")
    assert "claude" in found["members"]
    assert found["wip_limits"]["in_progress"] == 2
    assert found["wip_limits_of_columns"]["in_review"] == 5
    assert found["wip_limits_by_agent"] == {"claude": {"in_progress": 7}}
    page.get_by_role("button", name="Lift the limit of claude in in progress").click()
    page.get_by_role("button", name="Let claude leave").click()
    expect(page.get_by_role("button", name="Let claude leave")).to_have_count(0)
    expect(page.get_by_label("In progress, claude")).to_have_count(0)
    page.get_by_role("button", name="Delete plan.md").click()
    page.get_by_role("alertdialog").get_by_role("button", name="Delete").click()
    expect(page.get_by_text("No files yet.")).to_be_visible()
    assert server.admin.get(path).json()["wip_limits_by_agent"] == {}


def test_it_is_deleted_by_who_types_its_name_and_who_looks_is_told(server: Ringfence, sit: Sit):
    apollo = project(server, "To be gone")
    task(server, apollo, "One")
    page, theirs = sit().go(f"projects/{apollo}/settings"), sit("ben").go(f"projects/{apollo}/settings")
    expect(theirs.get_by_role("heading", name="To be gone", level=1)).to_be_visible()
    page.get_by_role("button", name="Delete…").click()
    asked = page.get_by_role("alertdialog")
    expect(asked.get_by_role("button", name="Delete the project")).to_be_disabled()
    asked.get_by_label("Type its name").fill("To be gone")
    asked.get_by_role("button", name="Delete the project").click()
    expect(told(page, "The project is deleted.")).to_be_visible()
    expect(theirs.get_by_role("heading", name="This project was deleted")).to_be_visible()
    assert server.admin.get(f"/api/v1/projects/{apollo}").status_code == 404


def test_a_viewer_reads_it_and_changes_nothing(server: Ringfence, sit: Sit):
    apollo = project(server)
    server.admin.put(f"/api/v1/projects/{apollo}/wip", json={"status": "in_progress", "limit": 3, "scope": "agent"})
    page = sit("vera", Role.VIEWER).go(f"projects/{apollo}/settings")
    expect(page.get_by_role("row").filter(has_text="In progress")).to_contain_text("3")
    main = page.get_by_role("main")
    expect(main.get_by_role("textbox")).to_have_count(0)
    expect(main.get_by_role("spinbutton")).to_have_count(0)
    expect(main.get_by_role("button", name=re.compile("Rename|Upload|Delete|Add|leave"))).to_have_count(0)
