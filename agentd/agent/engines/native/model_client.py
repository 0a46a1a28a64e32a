"""Asks a model over HTTP, and reads its reply as it comes."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing, suppress
from decimal import Decimal

from msgspec import structs

from agentd.agent.engine import EngineEvent
from agentd.agent.engines.native.supplier import SupplierProblem
from agentd.agent.engines.native.web_search import ReplyProgress
from agentd.core.errors import BadRequest, SupplierUnreachable, TooLarge
from agentd.llm.conversation import (
    Conversation,
    DialectName,
    ReplyBuilder,
    ReplyEvent,
    ReplyFinished,
    SupplierError,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
)
from agentd.llm.dialects.anthropic import upstream as anthropic_upstream
from agentd.llm.dialects.dialect import Dialect, join_url
from agentd.llm.dialects.openai_chat import upstream as openai_chat_upstream
from agentd.llm.dialects.openai_chat.strict_suppliers import adapt_to_supplier
from agentd.llm.dialects.openai_responses import upstream as openai_responses_upstream
from agentd.llm.dialects.supplier_errors import parse_error_response
from agentd.llm.endpoint import SupplierAccess
from agentd.llm.price import NO_USAGE, Usage
from agentd.llm.upstream.protocol import Timeouts, Upstream, UpstreamRequest, UpstreamResponse

DIALECTS: Mapping[DialectName, Dialect] = {
    "openai-chat": openai_chat_upstream,
    "openai-responses": openai_responses_upstream,
    "anthropic": anthropic_upstream,
}

_LARGEST_ERROR = 256 * 1024
_DRAIN = 0.5
_BYTES_PER_TOKEN = 4
"""Of a reply, about."""


class Attempt:
    """A request and its response, as far as it was received.

    ``asked`` is about how many tokens the request has.
    """

    def __init__(self, asked: int, *, own: bool = True) -> None:
        self.own = own
        """True if its text belongs to the turn's conversation."""
        self.draft = ReplyBuilder()
        self.broken: SupplierProblem | None = None
        self.price: Decimal | None = None
        self._asked = asked
        self._received = 0
        """Bytes of text, thinking and calls, unfinished ones included."""

    def add(self, event: ReplyEvent) -> None:
        """Add an event of the response."""
        self.draft.add(event)
        if isinstance(event, TextDelta | ThinkingDelta | ToolCallDelta):
            self._received += len(event.text.encode("utf-8", "replace"))

    @property
    def usage(self) -> Usage:
        """The tokens of the request, estimated where its reply broke off before they were told.

        Suppliers report it at the end, and before that at most the input and the first token of
        the output. Without any response nothing was used.
        """
        usage = self.draft.usage
        if self.problem is None or not (self._received or usage != NO_USAGE):
            return usage
        if usage == NO_USAGE:
            usage = Usage(input=self._asked)
        received = round(self._received / _BYTES_PER_TOKEN)
        return structs.replace(usage, output=max(usage.output, received - usage.reasoning))

    @property
    def problem(self) -> SupplierProblem | None:
        """Why the reply is not complete; None when it is."""
        if self.broken or isinstance(self.draft.end, ReplyFinished):
            return self.broken
        return self.draft.end or SupplierError("broken", "The answer ended too early")


class ModelClient:
    """Sends conversations to suppliers."""

    def __init__(self, upstream: Upstream, timeouts: Timeouts) -> None:
        self._upstream = upstream
        self._timeouts = timeouts

    async def send(
        self,
        access: SupplierAccess,
        model: str,
        conversation: Conversation,
        seconds: float,
        attempt: Attempt,
    ) -> AsyncGenerator[EngineEvent, None]:
        """Send one request that may take so long, and record the response in the attempt."""
        dialect = DIALECTS[access.dialect]
        shown = ReplyProgress()
        total = min(self._timeouts.total, max(seconds, 1.0))
        try:
            request = UpstreamRequest(
                "POST",
                join_url(access.url, dialect.get_path(model)),
                dialect.build_headers(access.key),
                adapt_to_supplier(
                    dialect.encode_request(conversation, model), access.dialect, access.url
                ),
                structs.replace(self._timeouts, total=total),
            )
            async with (
                self._upstream.send(request) as response,
                aclosing(_iter_events(dialect, response)) as events,
            ):
                async for event in events:
                    attempt.add(event)
                    if progress := shown.read(event):
                        yield progress
        except SupplierUnreachable as error:
            attempt.broken = error
        except (BadRequest, TooLarge) as error:
            attempt.broken = SupplierError("invalid_request", error.message)
        for unfinished in shown.end():
            yield unfinished


async def _iter_events(
    dialect: Dialect, response: UpstreamResponse
) -> AsyncGenerator[ReplyEvent, None]:
    """Yield the events of a response, whether streamed, whole or an error."""
    if not 200 <= response.status < 300:
        yield parse_error_response(response.status, response.headers, await _read_error(response))
    elif "application/json" in response.headers.get("content-type", ""):
        for event in dialect.parse_response(await response.read()):
            yield event
    else:
        reader = dialect.create_reader()
        chunks = response.iter_chunks()
        async for data in chunks:
            for event in reader.feed(data):
                if isinstance(event, ReplyFinished):
                    await _drain(chunks)
                yield event
                if isinstance(event, SupplierError):
                    return
        for event in reader.close():
            yield event


async def _drain(chunks: AsyncIterator[bytes]) -> None:
    """Wait briefly for the body's end, so that the connection can be reused."""
    with suppress(TimeoutError, SupplierUnreachable):
        async with asyncio.timeout(_DRAIN):
            async for _ in chunks:
                pass


async def _read_error(response: UpstreamResponse) -> bytes:
    """Read the body of an error; empty if it is too large to be one."""
    try:
        return await response.read(_LARGEST_ERROR)
    except TooLarge:
        return b""
