"""Masking of large bodies in threads, so that one caller does not block others."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial

from agentd.gateway.relay.request import GatewayRequest
from agentd.gateway.secrets.masker import MaskedRequest, MaskingUnfinished, SecretMasker

ON_LOOP_BYTES = 16 * 1024
"""Bytes that are scanned on the loop: hostile text of that size takes some 100 ms, and a normal
turn of a conversation is shorter."""

THREADS_ONLY_BYTES = 1024 * 1024
"""Larger bodies are not even compared with the previous one on the loop."""

THREADS = 4


class _KeySlot:
    """The one slot of a key in the threads, and how many requests hold it or wait for it."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.users = 0


class MaskingThreads:
    """Separate threads for masking: disk work does not queue behind hostile texts.

    Each key has one body at a time in them, so that no key occupies them all, however many of its
    callers disconnect: nothing ends a scan that has begun.
    """

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(THREADS, "masking")
        self._slots: dict[str, _KeySlot] = {}

    async def prepare(self, masker: SecretMasker) -> None:
        """Have its patterns compiled, so that the loop does not wait for that."""
        if not masker.detector.is_compiled:
            await asyncio.get_running_loop().run_in_executor(self._threads, masker.detector.get)

    async def mask(self, masker: SecretMasker, request: GatewayRequest) -> MaskedRequest:
        """Return the request with secrets masked; raises ``BadRequest`` for an invalid one."""
        body, dialect, key_id = request.body, request.endpoint.dialect, request.key.id
        begun = None
        if len(body) <= THREADS_ONLY_BYTES:
            try:
                return masker.mask(body, dialect, key_id, most=ON_LOOP_BYTES)
            except MaskingUnfinished as unfinished:
                begun = unfinished
        return await self._run(key_id, partial(masker.mask, body, dialect, key_id, begun=begun))

    async def _run(self, key_id: str, scan: Callable[[], MaskedRequest]) -> MaskedRequest:
        """Run a scan in the slot of a key, which is free again once the thread is done with it."""
        slot = self._slots.setdefault(key_id, _KeySlot())
        slot.users += 1
        with ExitStack() as leaving:
            leaving.callback(self._leave, key_id, slot)
            await slot.lock.acquire()
            leaving.callback(slot.lock.release)
            work = self._threads.submit(scan)
            scanned, leave = asyncio.wrap_future(work), leaving.pop_all().close
            scanned.add_done_callback(lambda _: leave())
        try:
            return await asyncio.shield(scanned)
        except asyncio.CancelledError:
            work.cancel()  # which only a scan heeds that has not begun
            raise

    def _leave(self, key_id: str, slot: _KeySlot) -> None:
        slot.users -= 1
        if not slot.users:
            del self._slots[key_id]

    def close(self) -> None:
        """Start nothing more; running scans finish by themselves."""
        self._threads.shutdown(wait=False, cancel_futures=True)
