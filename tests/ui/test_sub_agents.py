"""What sub-agents do is shown, folded, below the step that started them, also while they work."""

from agentd.agent.engine import ReplyCompleted, ToolStarted, ToolUsed
from tests.support.daemon import Serving
from tests.ui.accessibility import check_accessibility
from tests.ui.support import PHONE, Person, TalkingEngine, person

from playwright.sync_api import Browser, expect  # isort: skip

AGENT = ToolStarted("run_task", "Find the handler", id="t")
LOOKS = [
    step
    for name in ("a.py", "b.py")
    for step in (
        ToolStarted("read_file", f"path={name}", parent="t"),
        ToolUsed("read_file", f"path={name}", "88 lines", parent="t"),
    )
]
FOUND = ToolUsed("run_task", "Find the handler", "2 uses of tools\n\nIt is in b.py.", id="t")


def test_steps_of_an_agent_at_work_are_below_it_and_stay_there(
    ada: Person, site: Serving, talking: TalkingEngine
) -> None:
    talking.expect("Find it")
    chat = site.client().create_chat(prompt="Find it")
    page = ada.open(f"/{chat}")
    talking.say("Find it", AGENT, *LOOKS)
    turn = page.locator(".turn").last
    expect(turn.locator(".steps > .item-tool")).to_have_count(1)
    expect(turn).to_contain_text("Started an agent Find the handler")
    folded = turn.get_by_role("button", name="2 steps · read 2 files")
    expect(turn.locator(".nested")).to_be_hidden()
    folded.click()
    expect(turn.locator(".nested .step")).to_have_count(2)
    talking.say("Find it", FOUND, ToolUsed("read_file", "path=c.py", "1 line"))
    expect(turn.locator(".steps > .item-tool")).to_have_count(2)
    expect(turn.locator(".steps > .item-tool").first).to_contain_text("Find the handler")
    talking.say("Find it", ReplyCompleted("It is in b.py."))
    expect(turn.get_by_role("button", name="Worked")).to_contain_text("4 steps")
    page.reload()
    page.get_by_role("button", name="Worked").click()
    page.get_by_role("button", name="2 steps · read 2 files").click()
    expect(page.locator(".nested .step")).to_have_count(2)


def test_nested_steps_are_accessible_on_a_phone(
    browser: Browser, site: Serving, talking: TalkingEngine
) -> None:
    """Rows 38 and 39."""
    prompt = "Find it on a phone"
    talking.expect(prompt)
    chat = site.client().create_chat(prompt=prompt)
    talking.say(prompt, AGENT, *LOOKS, FOUND, ReplyCompleted("It is in b.py."))
    site.client().messages(chat)
    with person(browser, site, size=PHONE) as somebody:
        page = somebody.open(f"/{chat}")
        page.get_by_role("button", name="Worked").click()
        page.get_by_role("button", name="2 steps · read 2 files").click()
        expect(page.locator(".nested .step")).to_have_count(2)
        check_accessibility(page)
