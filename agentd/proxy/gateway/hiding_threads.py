"""Secrets looked for off the loop in large bodies, so that one caller holds up no other."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from agentd.proxy.gateway.asking import Asked
from agentd.proxy.secrets.hiding import Hidden, Hiding, Unfinished

AT_ONCE = 16 * 1024
"""Bytes that are looked through on the loop: a hostile text of that size takes some 100 ms, and an
honest turn of a conversation is shorter."""

GIANT = 1024 * 1024
"""Bytes of a body that is not even compared with the one before it on the loop."""

THREADS = 4


class HidingThreads:
    """A few threads of their own: what waits for the disk does not queue behind hostile texts.

    Each key has one body at a time in them, so that no key has all of them.
    """

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(THREADS, "hiding")
        self._turns: dict[str, asyncio.Lock] = {}

    async def hide(self, hiding: Hiding, asked: Asked) -> Hidden:
        """The request without its secrets; raises ``BadRequest`` for what is no request."""
        body, dialect, key_id = asked.body, asked.endpoint.dialect, asked.key.id
        begun = None
        if len(body) <= GIANT:
            try:
                return hiding.hide(body, dialect, key_id, most=AT_ONCE)
            except Unfinished as unfinished:
                begun = unfinished
        rest = partial(hiding.hide, body, dialect, key_id, begun=begun)
        turn = self._turns.setdefault(key_id, asyncio.Lock())
        try:
            async with turn:
                return await asyncio.get_running_loop().run_in_executor(self._threads, rest)
        finally:
            if not turn.locked():
                self._turns.pop(key_id, None)

    def close(self) -> None:
        """Begin nothing more; what is looked at now ends by itself."""
        self._threads.shutdown(wait=False, cancel_futures=True)
