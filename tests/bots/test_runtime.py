"""The parts that a bot works with, tested alone."""

import asyncio
import threading
from typing import Any

import pytest

from agentd.bots import runtime
from agentd.bots.runtime import MessageSender, SavedState
from agentd.bots.state import BotState
from tests.conftest import until

pytestmark = pytest.mark.gen_test


class SlowStore:
    """Keeps memories; the first takes until it is let go on."""

    def __init__(self) -> None:
        self.offsets: list[int] = []
        self.begun, self.may_save = threading.Event(), threading.Event()

    def load(self, bot_id: str) -> BotState:
        return BotState(offset=self.offsets[-1])

    def save(self, bot_id: str, memory: BotState) -> None:
        if not self.begun.is_set():
            self.begun.set()
            assert self.may_save.wait(60)
        self.offsets.append(memory.offset)


async def test_what_was_kept_last_is_what_is_known_though_who_kept_the_rest_was_cancelled():
    """A bot's settings change: it ends, and begins again with its stored state."""
    store = SlowStore()
    saved = SavedState(store, "a", BotState(offset=1))
    cancelled = asyncio.create_task(saved.save())
    await until(store.begun.is_set)
    cancelled.cancel()
    saved.state.offset = 2
    later = asyncio.create_task(saved.save())
    await asyncio.wait([later], timeout=0.1)
    store.may_save.set()
    await asyncio.wait([cancelled, later])
    await until(lambda: len(store.offsets) == 2)
    assert cancelled.cancelled()
    assert (await SavedState.load(store, "a")).state.offset == 2


class Recorder:
    """A messenger that only takes messages."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    async def send(self, chat: int, text: str, keyboard: object, *, html: bool) -> None:
        self.texts.append(text)


async def test_a_long_reply_is_rendered_off_the_loop(monkeypatch: pytest.MonkeyPatch):
    """What a model writes may take a third of a second: ``**a **a **a …``."""
    threads: list[threading.Thread] = []
    render = runtime.render_parts

    def render_and_note(markdown: str) -> list[str]:
        threads.append(threading.current_thread())
        return render(markdown)

    monkeypatch.setattr(runtime, "render_parts", render_and_note)
    messenger: Any = Recorder()
    sender = MessageSender(messenger)
    await sender.send(1, "short")
    await sender.send(1, "**a " * 10_000)
    assert threads[0] is threading.current_thread() is not threads[1]
    assert messenger.texts[0] == "short" and len(messenger.texts) > 5
