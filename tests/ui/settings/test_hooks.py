"""The page of hooks: what runs and where it is from; decisions are withdrawn."""

import json
from pathlib import Path

from agentd.agent.hooks.store import read_workspace_files
from agentd.agent.workspace_decisions import WorkspaceDecision, open_hook_decisions
from tests.support.daemon import Serving
from tests.ui.settings.test_skills_labels_bots import pretend_role
from tests.ui.support import Person
from tests.ui.test_every_page import wait_until_loaded

from playwright.sync_api import expect  # isort: skip

PATH = "/settings/hooks"
SOURCE = ".claude/settings.json"
AT = "2026-01-01T00:00:00.000Z"


def write_hooks(path: Path, event: str, command: str) -> bytes:
    group = {"matcher": "Bash|Write", "hooks": [{"command": command}]}
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({"hooks": {event: [group]}}))
    return path.read_bytes()


def test_hooks_are_shown_as_their_file_is_edited_and_its_mistakes_by_line(
    ada: Person, site: Serving
) -> None:
    """Rows 33 and 34."""
    page = ada.open(PATH)
    expect(page.get_by_role("heading", name="No hooks yet")).to_be_visible()
    path = Path(site.layout.hooks_settings)
    write_hooks(path, "PreToolUse", "./guard.py --strict")
    row = page.get_by_role("region", name="Hooks", exact=True).locator(".rows > li")
    expect(row).to_contain_text("PreToolUseBash|Write./guard.py --strict")
    expect(row).to_contain_text("hooks.yml · ended after 60 seconds")
    path.write_text("hooks:\n  Never: []\n")
    expect(page.locator(".failure")).to_contain_text("hooks.yml:2")
    path.unlink()
    expect(page.locator(".failure")).to_have_count(0)
    expect(page.get_by_role("heading", name="No hooks yet")).to_be_visible()


def test_a_decision_about_hooks_of_the_workspace_is_withdrawn(ada: Person, site: Serving) -> None:
    file = Path(site.settings.workspace) / SOURCE
    write_hooks(file, "PostToolUse", "make lint")
    (found,) = read_workspace_files(site.settings.workspace, site.settings.workspace)
    decisions = open_hook_decisions(site.layout)
    decisions.keep(WorkspaceDecision(SOURCE, found.digest, True, AT, "user:ada"))
    page = ada.open(PATH)
    row = page.get_by_role("region", name="Of the workspace").locator(".rows > li")
    expect(row.locator(".state")).to_have_text("Allowed")
    expect(row).to_contain_text("Allowed by ada")
    expect(row.get_by_role("list", name=f"Hooks of {SOURCE}")).to_contain_text("make lint")
    row.get_by_role("button", name=f"Withdraw the decision about {SOURCE}").click()
    page.get_by_role("dialog").get_by_role("button", name="Withdraw").click()
    expect(row.locator(".state")).to_have_text("Undecided")
    expect(row).to_contain_text("Asked about with the next turn")
    assert not decisions.load()
    file.unlink()


def test_only_an_administrator_sees_the_hooks(ada: Person) -> None:
    """Row 4."""
    pretend_role(ada, "manager")
    page = ada.open(PATH)
    wait_until_loaded(page)
    expect(page.get_by_text("Only an administrator may see or change this.")).to_be_visible()
    expect(page.locator(".side").get_by_role("link", name="Hooks")).to_have_count(0)
