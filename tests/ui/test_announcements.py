"""What who sees no screen is told: states of chats, and nothing twice."""

from collections.abc import Iterator

import pytest

from agentd.agent.engine import Question, ReplyCompleted, ReplyDelta, TurnFailed
from tests.support.daemon import Serving, until
from tests.ui.support import Person, TalkingEngine
from tests.ui.test_every_page import wait_until_loaded

from playwright.sync_api import Page, expect  # isort: skip

HEAR = """() => {
  const region = document.querySelector(".announcer");
  window.told = [region.textContent];
  new MutationObserver(() => region.childElementCount
    && told.push([...region.children].map((one) => one.textContent).join(" | ")))
    .observe(region, { childList: true });
}"""


@pytest.fixture
def failing(talking: TalkingEngine) -> Iterator[None]:
    """What the test does not speak for fails."""
    says = talking.says
    talking.says = lambda _: [TurnFailed("it cannot be done")]
    yield
    talking.says = says


def expect_told(page: Page, *texts: str) -> None:
    """Expect that exactly this was told since the page was loaded, which was silent."""
    page.wait_for_function("(many) => told.length > many", arg=len(texts))
    assert page.evaluate("told") == ["", *texts]


@pytest.mark.usefixtures("failing")
def test_states_of_chats_are_told_once_and_replies_are_not(
    ada: Person, site: Serving, talking: TalkingEngine
) -> None:
    """WCAG 4.1.3."""
    client = site.client()
    talking.expect("old")
    old = client.create_chat(prompt="old", title="Known before")
    talking.say("old", Question("shell", "run_command", "ls", "Look."))
    until(lambda: client.get("/api/chat/approvals")["approvals"])
    page = ada.open("/analytics")
    wait_until_loaded(page)
    page.evaluate(HEAR)
    talking.expect("work")
    chat = client.create_chat(prompt="work", title="Write the tests")
    expect(page.locator(".chat-row", has_text="Write the tests")).to_contain_text("At work")
    talking.say("work", ReplyDelta("half a reply"), Question("shell", "run_command", "ls", "Look."))
    expect_told(page, "Needs you: Write the tests")
    client.put(f"/api/chats/{old}", {"title": "Known, with another title"})
    expect(page.locator(".chat-row", has_text="with another title")).to_be_visible()
    asked = client.get(f"/api/chat/{chat}/approvals")["approvals"][0]["id"]
    client.post(f"/api/chat/{chat}/approvals/{asked}", {"decision": "allow"})
    talking.say("work", ReplyDelta("the other half"), ReplyCompleted("half a reply"))
    expect_told(page, "Needs you: Write the tests", "Done: Write the tests")
    client.post(f"/api/remote/chats/{chat}/queue", {"prompt": "fail"})
    expect_told(
        page,
        "Needs you: Write the tests",
        "Done: Write the tests",
        "Failed: Write the tests",
    )
    region = page.get_by_role("status").filter(has_text="Failed: Write the tests")
    expect(region).to_have_attribute("aria-live", "polite")


def test_only_the_chat_that_changed_is_looked_at(
    ada: Person, site: Serving, talking: TalkingEngine
) -> None:
    """Row 23: the announcer does not go through all chats at each change."""
    client = site.client()
    chats = [client.create_chat(title=f"Other {number}") for number in range(40)]
    talking.expect("tell me")
    client.create_chat(prompt="tell me", title="The one that changes")
    page = ada.open("/gateway")
    wait_until_loaded(page)
    page.evaluate(HEAR)
    page.evaluate(
        """(many) => {
          const values = Map.prototype.values;
          window.walks = 0;
          Map.prototype.values = function () {
            if (this.size > many && new Error().stack.includes("/shell.js")) walks++;
            return values.call(this);
          };
        }""",
        len(chats),
    )
    talking.say("tell me", ReplyDelta("half a reply"), ReplyCompleted("half a reply"))
    expect_told(page, "Done: The one that changes")
    assert page.evaluate("walks") == 0
