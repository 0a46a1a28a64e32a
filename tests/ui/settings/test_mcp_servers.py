"""The page of MCP servers: added, tried out, edited and removed; decisions are withdrawn."""

import json
import re
import sys
from pathlib import Path

import pytest

from agentd.agent.mcp_servers.project import ProjectServers
from agentd.agent.workspace_decisions import WorkspaceDecision, open_server_decisions
from tests.support.daemon import Serving
from tests.support.paths import REPOSITORY
from tests.ui.accessibility import find_small_targets
from tests.ui.settings.test_skills_labels_bots import choose_action, pretend_role
from tests.ui.support import PHONE, Person, person
from tests.ui.test_every_page import wait_until_loaded

from playwright.sync_api import Browser, expect  # isort: skip

SERVER = REPOSITORY / "tests" / "agent" / "mcp_servers" / "sdk_server.py"
SECRET = "mint-0123456789abcdef"
PATH = "/settings/mcp-servers"
AT = "2026-01-01T00:00:00.000Z"


def read_servers(site: Serving) -> str:
    """Return the text of ``mcp.yml``."""
    return Path(site.layout.mcp_settings).read_text()


def test_a_server_is_added_tried_out_edited_switched_off_and_removed(
    ada: Person, site: Serving
) -> None:
    """Rows 27 and 34: a masked secret is kept, and an edit by hand is shown at once."""
    pytest.importorskip("mcp", reason="mcp is not installed: pip install '.[test]'")
    page = ada.open(PATH)
    page.get_by_role("button", name="Add a server").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("textbox", name="Name Letters").fill("tea")
    dialog.get_by_label("Program and arguments").fill("'unclosed")
    dialog.get_by_role("button", name="Add", exact=True).click()
    line = dialog.get_by_label("Program and arguments")
    assert line.evaluate("(input) => input.validationMessage") == "A quotation mark is not closed"
    line.fill(f"{sys.executable} -W ignore '{SERVER}' stdio")
    dialog.get_by_label("Variables").fill(f"TOKEN={SECRET}\nOTHER=env:OTHER")
    dialog.get_by_label("Tools that need no approval").fill("add, get_*")
    dialog.get_by_label("codex").check()
    dialog.get_by_role("button", name="Add", exact=True).click()
    row = page.locator(".rows li", has_text="tea")
    expect(row).to_contain_text("for codex · no approval: add, get_* · with TOKEN, OTHER")
    expect(row).to_contain_text("Not used yet")
    assert SECRET in read_servers(site)

    choose_action(page, "tea", "Try it out")
    expect(dialog).to_contain_text("the environment variable OTHER is not set")
    dialog.get_by_role("button", name="Close").last.click()
    expect(row).to_contain_text("Failing")
    choose_action(page, "tea", "Edit")
    expect(dialog.get_by_label("Variables")).to_have_value("TOKEN=****cdef\nOTHER=env:OTHER")
    dialog.get_by_label("Variables").fill("TOKEN=****cdef\nother=1\nOTHER=2\nTOKEN=3")
    dialog.get_by_role("button", name="Save").click()
    expect(dialog.get_by_role("alert")).to_contain_text("Variables: TOKEN is there twice")
    dialog.get_by_label("Variables").fill("TOKEN=****cdef")
    dialog.get_by_role("button", name="Save").click()
    expect(row).to_contain_text(re.compile(r"with TOKEN(?!, OTHER)"))
    assert SECRET in read_servers(site) and "OTHER" not in read_servers(site)
    choose_action(page, "tea", "Try it out")
    expect(dialog.get_by_role("list", name="Tools")).to_contain_text("Add two numbers.")
    expect(dialog).to_contain_text("says that it only reads")
    dialog.get_by_role("button", name="Close").last.click()
    expect(row).to_contain_text("Works")
    choose_action(page, "tea", "Switch off")
    expect(row.locator(".state")).to_have_text("Off")

    path = Path(site.layout.mcp_settings)
    path.write_text(f"# ours\n{read_servers(site).replace('tea', 'coffee')}")
    expect(page.locator(".rows li", has_text="coffee")).to_be_visible()
    choose_action(page, "coffee", "Remove")
    dialog.get_by_role("button", name="Remove").click()
    expect(page.get_by_role("heading", name="No MCP servers yet")).to_be_visible()
    assert read_servers(site).startswith("# ours\n")


def test_an_address_has_headers_which_another_address_does_not_get(
    ada: Person, site: Serving
) -> None:
    page = ada.open(PATH)
    page.get_by_role("button", name="Add a server").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("textbox", name="Name Letters").fill("docs")
    dialog.get_by_label("An address").check()
    dialog.get_by_placeholder("https://docs.example/mcp").fill("http://127.0.0.1:1/mcp")
    dialog.get_by_label("Headers").fill(f"Authorization: Bearer {SECRET}\nauthorization: x")
    dialog.get_by_role("button", name="Add", exact=True).click()
    expect(dialog.get_by_role("alert")).to_contain_text("Headers: authorization is there twice")
    assert "docs" not in read_servers(site)
    dialog.get_by_label("Headers").fill(f"Authorization: Bearer {SECRET}")
    dialog.get_by_role("button", name="Add", exact=True).click()
    row = page.locator(".rows li", has_text="docs")
    expect(row).to_contain_text("http://127.0.0.1:1/mcp")
    choose_action(page, "docs", "Edit")
    dialog.get_by_placeholder("https://docs.example/mcp").fill("http://127.0.0.1:2/mcp")
    dialog.get_by_role("button", name="Save").click()
    expect(dialog.get_by_role("alert")).to_contain_text("the headers must be sent again")
    dialog.get_by_role("button", name="Cancel").click()
    site.administrator().delete("/api/mcp-servers/docs")


def test_a_decision_about_a_server_of_the_workspace_is_withdrawn(
    ada: Person, site: Serving
) -> None:
    folder = site.settings.workspace
    entry = {"mcpServers": {"lint": {"command": "node", "args": ["a b.mjs"]}, "odd": 1}}
    (Path(folder) / ".mcp.json").write_text(json.dumps(entry))
    (lint,), *_ = ProjectServers(site.layout, workspace=folder).read(folder)
    open_server_decisions(site.layout).keep(WorkspaceDecision("lint", lint.digest, True, AT))
    page = ada.open(PATH)
    card = page.get_by_role("region", name="Named by the workspace")
    expect(card).to_contain_text("odd: Expected `object`")
    row = card.locator("li", has_text="lint")
    expect(row.locator(".state")).to_have_text("Allowed")
    row.get_by_role("button", name="Withdraw the decision about lint").click()
    page.get_by_role("dialog").get_by_role("button", name="Withdraw").click()
    expect(row.locator(".state")).to_have_text("Undecided")
    assert not open_server_decisions(site.layout).load()
    (Path(folder) / ".mcp.json").unlink()


def test_a_broken_file_is_told_by_line(ada: Person, site: Serving) -> None:
    """Row 33."""
    page = ada.open(PATH)
    wait_until_loaded(page)
    path = Path(site.layout.mcp_settings)
    path.write_text("servers:\n- name: a\n  comand: [x]\n")
    path.chmod(0o600)
    expect(page.locator(".failure")).to_contain_text("mcp.yml:3")
    path.unlink()
    expect(page.locator(".failure")).to_have_count(0)


def test_a_form_fits_a_phone(browser: Browser, site: Serving) -> None:
    """Row 39."""
    with person(browser, site, size=PHONE) as somebody:
        page = somebody.open(PATH)
        page.get_by_role("button", name="Add a server").tap()
        page.get_by_role("dialog").get_by_label("An address").tap()
        assert not find_small_targets(page)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_only_an_administrator_sees_the_servers(ada: Person) -> None:
    """Row 4."""
    pretend_role(ada, "manager")
    page = ada.open(PATH)
    expect(page.get_by_text("Only an administrator may see or change this.")).to_be_visible()
    expect(page.locator(".side").get_by_role("link", name="MCP servers")).to_have_count(0)
