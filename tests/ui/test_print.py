"""Pages on paper."""

import re

from agentd.agent.engine import ReplyCompleted
from tests.support.daemon import Serving
from tests.ui.support import TalkingEngine, person

from playwright.sync_api import Browser, expect  # isort: skip

PARAGRAPHS = 60


def test_a_page_is_printed_to_its_end_and_dark_on_light(
    browser: Browser, site: Serving, talking: TalkingEngine
) -> None:
    """Without what can only be pressed, and not only what is seen of it."""
    client = site.client()
    talking.expect("tell")
    chat = client.create_chat(prompt="tell", title="Long")
    said = "\n\n".join(f"Paragraph {number}. {'word ' * 80}" for number in range(PARAGRAPHS))
    talking.say("tell", ReplyCompleted(said))
    client.messages(chat)
    with person(browser, site, theme="dark") as somebody:
        page = somebody.open(f"/{chat}")
        last = page.get_by_text(f"Paragraph {PARAGRAPHS - 1}.")
        expect(last).to_be_attached()
        assert len(re.findall(rb"/Type /Page\b", page.pdf())) > 5
        page.emulate_media(media="print")
        for hidden in (page.locator(".side"), page.get_by_label("Prompt", exact=True)):
            expect(hidden).to_be_hidden()
        assert last.evaluate("(node) => getComputedStyle(node).color") == "rgb(28, 27, 24)"
