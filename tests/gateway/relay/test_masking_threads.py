"""Large bodies are looked through off the loop, and no key takes all threads."""

import asyncio
import json
import threading
from typing import Any

import pytest
from msgspec import structs

from agentd.gateway.keys.model import issue
from agentd.gateway.relay.masking_threads import ON_LOOP_BYTES, MaskingThreads
from agentd.gateway.relay.request import GatewayEndpoint, GatewayRequest
from agentd.gateway.secrets import detect
from agentd.gateway.secrets.builtin import BUILT_IN
from agentd.gateway.secrets.masker import MaskedRequest, SecretMasker
from agentd.gateway.secrets.rules import SecretRules
from tests.gateway.secrets.samples import TOKENS

GITHUB = TOKENS["github"]
LARGE = f"{GITHUB} " * (ON_LOOP_BYTES // len(GITHUB))


class HeldMasker(SecretMasker):
    """Goes on with a large body only when it may."""

    def __init__(self) -> None:
        super().__init__(SecretRules(BUILT_IN), bytes(32))
        self.may_go_on = threading.Event()
        self.begun = threading.Semaphore(0)
        self.off_the_loop: list[str] = []

    def mask(self, body: bytes, dialect: Any, key_id: str, **more: Any) -> MaskedRequest:
        if threading.current_thread() is not threading.main_thread():
            self.off_the_loop.append(key_id)
            self.begun.release()
            assert self.may_go_on.wait(60)
        return super().mask(body, dialect, key_id, **more)


def _build_request(key: str, text: str) -> GatewayRequest:
    _, kept = issue(key, "2026-01-01T00:00:00.000Z")
    body = json.dumps({"model": "m", "messages": [{"role": "user", "content": text}]}).encode()
    return GatewayRequest(id="r", endpoint=GatewayEndpoint("/", "openai-chat"), key=kept, body=body)


def test_while_large_bodies_are_looked_through_short_ones_are_done_at_once() -> None:
    async def main() -> None:
        hiding, threads = HeldMasker(), MaskingThreads()
        one, other = _build_request("one", LARGE), _build_request("other", LARGE)
        large = [asyncio.ensure_future(threads.mask(hiding, it)) for it in (one, one, other)]
        for _ in range(2):
            assert await asyncio.to_thread(hiding.begun.acquire, timeout=60)
        assert hiding.off_the_loop == [one.key.id, other.key.id], "one body of a key at a time"
        short = await threads.mask(hiding, _build_request("one", f"a {GITHUB}"))
        assert list(short.secrets.values()) == [GITHUB]
        assert not any(task.done() for task in large)
        hiding.may_go_on.set()
        for hidden in await asyncio.gather(*large):
            assert GITHUB.encode() not in hidden.body
        threads.close()

    asyncio.run(main())


def test_a_key_has_one_body_at_a_time_however_many_of_its_requests_come_between() -> None:
    """A request that comes just when the place is handed on waits behind who waited before it."""

    async def main() -> None:
        hiding, threads = HeldMasker(), MaskingThreads()
        hiding.may_go_on.set()
        key = _build_request("one", "").key
        running = most = 0
        original = hiding.mask

        def mask_counted(*args: Any, **more: Any) -> MaskedRequest:
            nonlocal running, most
            off_the_loop = threading.current_thread() is not threading.main_thread()
            running += off_the_loop
            most = max(most, running)
            try:
                return original(*args, **more)
            finally:
                running -= off_the_loop

        hiding.mask = mask_counted  # type: ignore[method-assign]

        async def mask_three_in_a_row(who: str) -> None:
            for number in range(3):  # none is known from the one before
                text = LARGE.replace(" ", f" {who}{number} ")
                await threads.mask(hiding, structs.replace(_build_request("one", text), key=key))

        await asyncio.gather(*(mask_three_in_a_row(who) for who in "abc"))
        assert most == 1
        threads.close()

    asyncio.run(main())


def test_a_key_has_one_body_at_a_time_even_if_its_callers_disconnect() -> None:
    async def main() -> None:
        hiding, threads = HeldMasker(), MaskingThreads()
        one, other = _build_request("one", LARGE), _build_request("other", LARGE)
        left = asyncio.ensure_future(threads.mask(hiding, one))
        assert await asyncio.to_thread(hiding.begun.acquire, timeout=60)
        waiting = [asyncio.ensure_future(threads.mask(hiding, one)) for _ in range(3)]
        await asyncio.sleep(0)
        for task in (left, waiting[0]):
            task.cancel()
        await asyncio.wait([left, waiting[0]])
        last = asyncio.ensure_future(threads.mask(hiding, other))
        assert await asyncio.to_thread(hiding.begun.acquire, timeout=60)
        assert hiding.off_the_loop == [one.key.id, other.key.id]
        hiding.may_go_on.set()
        await asyncio.gather(*waiting[1:], last)
        assert hiding.off_the_loop == [one.key.id, other.key.id, one.key.id, one.key.id]
        assert not threads._slots
        threads.close()

    asyncio.run(main())


def test_patterns_are_compiled_off_the_loop_and_once_for_many_requests(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compiled_in = []

    class NotingDetector(detect.Detector):
        def __init__(self, rules: SecretRules) -> None:
            compiled_in.append(threading.current_thread())
            super().__init__(rules)

    monkeypatch.setattr(detect, "Detector", NotingDetector)

    async def main() -> None:
        masker, threads = SecretMasker(SecretRules(BUILT_IN[1:3]), bytes(32)), MaskingThreads()
        assert not masker.detector.is_compiled
        await asyncio.gather(*(threads.prepare(masker) for _ in range(8)))
        masker.mask(b'{"messages": ["hello, world"]}', "openai-chat", "k")
        masker.rules = SecretRules(BUILT_IN[2:4])
        await threads.prepare(masker)
        masker.mask(b'{"messages": ["hello, world"]}', "openai-chat", "k")
        threads.close()

    asyncio.run(main())
    assert len(compiled_in) == 2
    assert threading.main_thread() not in compiled_in
