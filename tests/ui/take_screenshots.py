"""The README's pictures of the browser interface: ``python -m tests.ui.take_screenshots``.

A real daemon on a small repository, an engine that says what is written here, a real Chromium.
"""

import subprocess
import tempfile
from base64 import b64decode
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

from playwright.sync_api import Browser, Page, expect, sync_playwright

from agentd.agent.engine import Question, ReplyCompleted, ReplyDelta, ToolUsed
from agentd.llm.price import Usage
from tests.benchmarks.states import Maker
from tests.support.daemon import Client, Serving, until
from tests.support.paths import REPOSITORY
from tests.ui.support import ARGUMENTS, CHROMIUM, DESK, PHONE, TalkingEngine, person

FOLDER = REPOSITORY / ".github"
QUALITY = 82
"""Of WebP: text stays sharp, and a picture has some 50 KB."""

BEFORE = """\
async def handle(event: Event, db: Session) -> None:
    if not await db.seen(event.id):
        await apply(event, db)
        await db.mark_seen(event.id)
"""
AFTER = """\
async def handle(event: Event, db: Session) -> None:
    # One row per event id: whoever inserts it applies it.
    async with db.begin():
        if await db.claim(event.id):
            await apply(event, db)
"""
DIFF = """\
--- a/webhooks/handler.py
+++ b/webhooks/handler.py
@@ -41,4 +41,5 @@
 async def handle(event: Event, db: Session) -> None:
-    if not await db.seen(event.id):
-        await apply(event, db)
-        await db.mark_seen(event.id)
+    # One row per event id: whoever inserts it applies it.
+    async with db.begin():
+        if await db.claim(event.id):
+            await apply(event, db)
"""
UNIT = "[Service]\nExecStop=/usr/bin/kill -9 $MAINPID\nRestart=on-failure\n"
REPLY = """\
Two workers can both ask `seen` before either has marked the event, so both apply it.

1. `handle` now **claims** the event's id in the same transaction that applies it.
2. A second worker waits for that row, finds it taken, and leaves.

All 23 tests of `tests/webhooks` pass, with a new one that sends each event to two workers at once.
"""
MODELS = """
default: large
suppliers:
  house: {dialect: openai-chat, url: "http://127.0.0.1:9"}
models:
  - {name: large, engine: native, model: large, supplier: house}
"""
OLDER = [
    (1, "Flaky test_refund_twice"),
    (1, "Schema for audit events"),
    (1, "Read the S3 lifecycle rules"),
    (3, "Postgres 17 upgrade plan"),
    (4, "CSV export drops umlauts"),
    (5, "Trace the login redirect"),
    (6, "Licence headers"),
]
"""Days ago, and the title."""


def run_git(folder: Path, *arguments: str) -> None:
    """Run git without anybody's own configuration."""
    identity = ("-c", "user.name=Ann", "-c", "user.email=ann@shop.example")
    subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True)


def make_workspace(folder: Path) -> Path:
    """Make a repository in which the agent has changed two files."""
    work = folder / "payments"
    for name in ("webhooks", "tests"):
        (work / name).mkdir(parents=True)
    (work / "webhooks" / "handler.py").write_text(BEFORE)
    run_git(work, "init", "-q", "-b", "fix/webhook-dupes")
    run_git(work, "add", "-A")
    run_git(work, "commit", "-qm", "Receive webhooks")
    (work / "webhooks" / "handler.py").write_text(AFTER)
    (work / "tests" / "test_twice.py").write_text(
        "async def test_an_event_counts_once() -> None: ...\n"
    )
    return work


def make_history(folder: Path) -> None:
    """Chats of the last days."""
    maker = Maker(str(folder))
    now = datetime.now(UTC)
    for number, (days, title) in reversed(list(enumerate(OLDER))):
        maker.moment = now - timedelta(days=days, minutes=47 * number)
        maker.add_chat(3, title=title)
    maker.finish()


def make_chats(client: Client, engine: TalkingEngine) -> int:
    """Create today's chats; return the one that asks."""
    for name, color in (("bug", "#cc3b3b"), ("billing", "#2f6de0")):
        client.post("/api/chat-labels", {"name": name, "color": color})
    for title in ("Explain the retry budget", "Why is checkout slow since Monday?"):
        client.messages(client.create_chat(title=title, prompt=title))
    engine.expect("Port it")
    port = client.create_chat(title="Port the importer to polars", prompt="Port it")
    engine.say("Port it", ToolUsed("read_file", "path=importer/frames.py", "412 lines"))
    client.post(f"/api/remote/chats/{port}/queue", {"prompt": "Measure it with the file of May"})
    return make_asking_chat(client, engine)


def make_asking_chat(client: Client, engine: TalkingEngine) -> int:
    """Create a chat with a finished turn, a running one that asks, and waiting prompts."""
    first, second = (
        "Webhooks are processed twice. Find out why, and mend it.",
        "Deploy it to staging.",
    )
    engine.expect(first)
    chat = client.create_chat(title="Webhooks are processed twice", prompt=first)
    client.put(f"/api/chats/{chat}/labels", {"labels": ["bug", "billing"]})
    usage = Usage(input=4100, cache_read=57_300, output=1240)
    engine.say(
        first,
        ToolUsed("read_file", "path=webhooks/handler.py", "88 lines"),
        ToolUsed(
            "search_files", "pattern=mark_seen", "webhooks/handler.py:44\nwebhooks/store.py:17"
        ),
        ToolUsed("run_command", "command=pytest -q tests/webhooks", "23 passed in 4.1s"),
        ReplyCompleted(REPLY, usage, Decimal("0.1413")),
    )
    client.messages(chat)
    engine.expect(second)
    client.post(f"/api/remote/chats/{chat}/queue", {"prompt": second})
    engine.say(
        second,
        ToolUsed("edit_file", "path=webhooks/handler.py", "1 change", diff=DIFF),
        ReplyDelta("The worker is killed in the middle of an event when it is restarted."),
        Question(
            "shell",
            "run_command",
            "systemctl --user restart webhook-worker",
            "It runs the old code until then.",
        ),
    )
    for prompt in ("Run the whole suite twice and list what flakes", "Write the changelog entry"):
        client.post(f"/api/remote/chats/{chat}/queue", {"prompt": prompt})
    until(lambda: client.get("/api/chat/approvals")["approvals"])
    return chat


def save_screenshot(page: Page, name: str) -> None:
    """Write a screenshot as WebP."""
    session = page.context.new_cdp_session(page)
    shot = session.send("Page.captureScreenshot", {"format": "webp", "quality": QUALITY})
    (FOLDER / name).write_bytes(b64decode(shot["data"]))


def take_screenshots(browser: Browser, site: Serving, chat: int) -> None:
    """Take pictures of a chat: at a desk by day, and on a phone by night."""
    for name, size, theme in (("desk.webp", DESK, "light"), ("phone.webp", PHONE, "dark")):
        with person(browser, site, size=size, theme=theme) as somebody:
            page = somebody.open(f"/{chat}?panel={'changes' if size == DESK else 'none'}")
            expect(page.locator(".ask")).to_be_in_viewport()
            expect(page.locator(".skeleton")).to_have_count(0)
            page.get_by_label("Prompt", exact=True).fill(
                "Also check the refund handler for the same pattern"
            )
            page.evaluate("document.fonts.ready")
            save_screenshot(page, name)


def main() -> None:
    """Make the daemon's state, and take the pictures."""
    engine = TalkingEngine()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        work = make_workspace(folder)
        make_history(folder)
        (folder / "config" / "models.yml").write_text(MODELS)
        site = stack.enter_context(Serving(folder, engine, workspace=str(work)))
        chat = make_chats(site.client(), engine)
        seen = {str(number): 3 for number in range(1, 1 + len(OLDER))}
        site.administrator().put("/api/me", {"seen": seen})
        tool = stack.enter_context(sync_playwright())
        browser = tool.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        take_screenshots(browser, site, chat)
        browser.close()


if __name__ == "__main__":
    main()
