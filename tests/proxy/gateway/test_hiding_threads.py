"""Large bodies are looked through off the loop, and no key takes all threads."""

import asyncio
import json
import threading
from typing import Any

from agentd.proxy.access_key import issue
from agentd.proxy.gateway.asking import Asked, Endpoint
from agentd.proxy.gateway.hiding_threads import AT_ONCE, HidingThreads
from agentd.proxy.secrets.builtin import BUILT_IN
from agentd.proxy.secrets.hiding import Hidden, Hiding
from agentd.proxy.secrets.rules import Rules
from tests.proxy.secrets.samples import TOKENS

GITHUB = TOKENS["github"]
LARGE = f"{GITHUB} " * (AT_ONCE // len(GITHUB))


class Held(Hiding):
    """Goes on with a large body only when it may."""

    def __init__(self) -> None:
        super().__init__(Rules(BUILT_IN), bytes(32))
        self.may_go_on = threading.Event()
        self.begun = threading.Semaphore(0)
        self.off_the_loop: list[str] = []

    def hide(self, body: bytes, dialect: Any, key_id: str, **more: Any) -> Hidden:
        if threading.current_thread() is not threading.main_thread():
            self.off_the_loop.append(key_id)
            self.begun.release()
            assert self.may_go_on.wait(60)
        return super().hide(body, dialect, key_id, **more)


def _asked(key: str, text: str) -> Asked:
    _, kept = issue(key, "2026-01-01T00:00:00.000Z")
    body = json.dumps({"model": "m", "messages": [{"role": "user", "content": text}]}).encode()
    return Asked(id="r", endpoint=Endpoint("/", "openai-chat"), key=kept, body=body)


def test_while_large_bodies_are_looked_through_short_ones_are_done_at_once() -> None:
    async def main() -> None:
        hiding, threads = Held(), HidingThreads()
        one, other = _asked("one", LARGE), _asked("other", LARGE)
        large = [asyncio.ensure_future(threads.hide(hiding, it)) for it in (one, one, other)]
        for _ in range(2):
            await asyncio.to_thread(hiding.begun.acquire)
        assert hiding.off_the_loop == [one.key.id, other.key.id], "one body of a key at a time"
        short = await threads.hide(hiding, _asked("one", f"a {GITHUB}"))
        assert list(short.secrets.values()) == [GITHUB]
        assert not any(task.done() for task in large)
        hiding.may_go_on.set()
        for hidden in await asyncio.gather(*large):
            assert GITHUB.encode() not in hidden.body
        threads.close()

    asyncio.run(main())
