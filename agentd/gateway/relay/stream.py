"""Relaying a streamed reply: it is recorded before its end is sent, even on disconnects."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from typing import TypeAlias

from agentd.core.errors import SupplierUnreachable, Unavailable
from agentd.gateway.channels.routing import Candidate
from agentd.gateway.ledger.record import Outcome
from agentd.gateway.relay.accounting import RequestAccounting
from agentd.gateway.relay.errors import make_no_response_error
from agentd.gateway.relay.running_work import RunningWork
from agentd.gateway.relay.upstream_call import UpstreamCall
from agentd.gateway.secrets.restoring import create_restorer
from agentd.llm.conversation import ReplyFinished, SupplierError
from agentd.llm.upstream.protocol import UpstreamResponse

TRAILING_SECONDS = 2.0
"""The seconds that a supplier may keep its response open after the end of the reply."""

DRAINING_SECONDS = 600.0
"""The seconds for which a reply is read for its usage after the caller disconnected."""

KEY_REVOKED = SupplierError("authentication", "Access key revoked or expired")
"""The error event in the middle of a reply."""


CloseStream: TypeAlias = Callable[[Outcome, str], Awaitable[None]]
"""Settles and records a request: its outcome and error code. Raises ``Unavailable``."""


class RelayedStream:
    """A streamed response of status 200: ``start`` it, then iterate over it.

    The supplier's response is closed with the stream, or when it fails to start. ``secrets`` are
    the channel's own, which no error may repeat. ``kept`` collects the reply as it is before the
    caller's secrets are restored.
    """

    def __init__(
        self,
        response: UpstreamResponse,
        call: UpstreamCall,
        candidate: Candidate,
        secrets: Sequence[str],
        accounting: RequestAccounting,
        close: CloseStream,
        work: RunningWork,
        kept: list[bytes] | None,
    ) -> None:
        self._response = response
        self._chunks = response.iter_chunks()
        self._call = call
        self._channel = candidate.channel
        self._adapter = call.make_adapter(candidate, secrets)
        hidden = call.secrets
        self._restorer = create_restorer(call.dialect, hidden) if hidden else None
        self._accounting = accounting
        self._close = close
        self._work = work
        self._kept = kept
        self._drains = candidate.channel.on_leave == "drain"
        self._first_output = b""
        self._is_over = False
        self._is_revoked = False
        self._pending_read: asyncio.Task[bytes] | None = None

    async def start(self) -> SupplierError | None:
        """Wait for the first bytes for the caller; return the error that comes before them."""
        begun = False
        try:
            while not self._first_output and not self._is_over:
                self._first_output = await self._read_output()
                end = self._adapter.end
                if isinstance(end, SupplierError) and not self._accounting.bytes_sent:
                    return end
            begun = True
        finally:
            if not begun:
                await self._release_upstream()
        self._accounting.mark_stage("first")
        return None

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """Yield the reply in chunks, the last one once the request is recorded."""
        portion, self._first_output = self._first_output, b""
        while True:
            self._accounting.on_chunk(portion)
            if self._adapter.end and not self._accounting.is_closed:
                try:
                    await self._settle()
                except Unavailable as error:
                    yield self._adapter.render_error(SupplierError("server", error.message))
                    return
            if portion:
                yield portion
            if self._is_over:
                return
            portion = await self._read_output()

    async def aclose(self) -> None:
        """Release the supplier; after a disconnect, cut the call or drain it for its usage."""
        if self._accounting.is_closed:
            await self._release_upstream()
        elif self._drains and not self._is_over:
            self._work.run(self._drain(), waits=self._accounting.key.id)
        else:
            self._work.run(self._abandon())

    def cancel_revoked(self) -> None:
        """End the stream of a revoked key: drop the supplier and send the caller an error event.

        The request is recorded at once, however slowly the caller reads.
        """
        self._is_revoked = True
        self._response.close()  # wakes the pending read
        self._work.run(self._close_unfinished())

    async def _read_output(self) -> bytes:
        """Return the next bytes for the caller; empty if the supplier's bytes carry none."""
        if self._is_revoked:
            return self._abort(None)
        try:
            piece = await (
                self._read_trailing_chunk() if self._adapter.end else self._read_next_chunk()
            )
        except SupplierUnreachable as error:
            return self._abort(error)
        if piece:
            return self._restore(self._adapter.feed(piece))
        return self._end()

    def _end(self) -> bytes:
        """End the reply, as the supplier has."""
        if self._is_revoked:  # a reply without a length then ends as if it were whole
            return self._abort(None)
        self._is_over = True
        return self._restore(self._adapter.close())

    def _abort(self, error: SupplierUnreachable | None) -> bytes:
        """End the reply early, by a revoked key or by the supplier's ``error``."""
        self._is_over = True
        end = KEY_REVOKED
        if error and not self._is_revoked:
            self._accounting.abandoned = error.gave_up
            end = make_no_response_error(self._call.request.id, self._channel.name, error)
        return self._restore(self._adapter.abort(end))

    async def _read_next_chunk(self) -> bytes:
        """Return the supplier's next bytes; a draining read survives cancellation."""
        if not self._drains:
            return await anext(self._chunks, b"")
        if self._pending_read is None:
            self._pending_read = asyncio.get_running_loop().create_task(_read_chunk(self._chunks))
        piece = await asyncio.shield(self._pending_read)
        self._pending_read = None
        return piece

    async def _read_trailing_chunk(self) -> bytes:
        """Wait briefly for the response to end, so that its connection can be reused."""
        try:
            async with asyncio.timeout(TRAILING_SECONDS):
                return await anext(self._chunks, b"")
        except TimeoutError:
            return b""

    def _restore(self, data: bytes) -> bytes:
        if self._kept is not None:
            self._kept.append(data)
        if self._restorer is None:
            return data
        data = self._restorer.feed(data)
        return data + self._restorer.close() if self._is_over else data

    async def _settle(self) -> None:
        end = self._adapter.end
        self._accounting.set_usage(self._adapter.usage, final=isinstance(end, ReplyFinished))
        if end is KEY_REVOKED:
            await self._close("left", "")
        elif isinstance(end, SupplierError):
            await self._close("broken", end.kind)
        else:
            await self._close("ok", "")

    async def _drain(self) -> None:
        try:
            async with asyncio.timeout(DRAINING_SECONDS):
                while not self._is_over and not self._adapter.end:
                    await self._read_output()
        except TimeoutError:
            pass
        finally:
            await self._abandon()

    async def _abandon(self) -> None:
        await self._release_upstream()
        await self._close_unfinished()

    async def _close_unfinished(self) -> None:
        if self._accounting.is_closed:  # its key was revoked while it was drained
            return
        self._accounting.set_usage(
            self._adapter.usage, final=isinstance(self._adapter.end, ReplyFinished)
        )
        await self._close("left", "")

    async def _release_upstream(self) -> None:
        """Close the supplier's response, wherever it is."""
        if self._pending_read:
            self._pending_read.cancel()
            await asyncio.wait([self._pending_read])
        try:
            await self._chunks.aclose()
        finally:
            self._response.close()


async def _read_chunk(chunks: AsyncGenerator[bytes, None]) -> bytes:
    return await anext(chunks, b"")
