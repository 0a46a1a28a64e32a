"""Prompts in a queue outlive the daemon, and can be edited as before."""

from pathlib import Path

from tests.support.daemon import Serving
from tests.ui.support import person

from playwright.sync_api import Browser, expect  # isort: skip


def test_a_queue_outlives_a_restart_of_the_daemon(browser: Browser, tmp_path: Path) -> None:
    """Row 7."""
    with Serving(tmp_path) as serving, person(browser, serving) as somebody:
        port, client = serving.port, serving.client()
        chat = client.create_chat(title="Waits")
        waiting = [{"prompt": text, "isPaused": True} for text in ("the first", "the second")]
        client.put(f"/api/remote/chats/{chat}/queue", {"prompts": waiting})
        page = somebody.open(f"/{chat}")
        expect(page.locator(".queue .text")).to_contain_text(["the first", "the second"])
        serving.stop()
        serving.join()
        expect(page.get_by_text("agentd does not answer · trying again")).to_be_visible()
        with Serving(tmp_path, serving.engine, port=port):
            expect(page.locator(".banner")).to_have_count(0)
            expect(page.locator(".queue .text")).to_contain_text(["the first", "the second"])
            page.get_by_role("button", name="Resume").first.click()
            expect(page.locator(".prose", has_text="echo: the first")).to_be_visible()
            expect(page.locator(".queue .text")).to_contain_text(["the second"])
        somebody.complaints.clear()
