"""The languages of the gateway's callers."""

from collections.abc import Callable, Iterable, Mapping

from msgspec import Struct

from agentd.proxy import price
from agentd.proxy.channel import ChannelDialect
from agentd.proxy.dialects.caller import GatewayError, Glance, Tap, Writer
from agentd.proxy.dialects.callers import (
    asked_anthropic,
    asked_chat,
    asked_gemini,
    asked_responses,
    errors,
    taps,
    told_anthropic,
    told_chat,
    told_gemini,
    told_responses,
)
from agentd.proxy.dialects.conversation import Conversation, Event
from agentd.proxy.price import Usage


class CallerDialect(Struct, frozen=True):
    """One dialect as callers speak it."""

    name: ChannelDialect
    glance: Callable[[bytes], Glance]
    """Raises ``BadRequest`` for what is no request: no JSON object, no model, a name twice."""
    understood: Callable[[bytes], Conversation]
    """All of a request. ``BadRequest`` says what has no counterpart; nothing is dropped."""
    passed_on: Callable[[bytes, str], bytes]
    """The request for a supplier of the same dialect: its model named, usage asked for.

    All else stays as it was written.
    """
    tap: Callable[[Glance], Tap]
    """For a streamed answer that is passed on."""
    counts: Callable[[object], Usage]
    """What the words of its usage mean."""
    writer: Callable[[Glance, str, int], Writer]
    """For a reply that is translated: the request's id, and the seconds since 1970."""
    whole: Callable[[Iterable[Event], Glance, str, int], bytes]
    """A translated reply at once; the events end with ``Finished``."""

    def usage(self, body: bytes) -> Usage | None:
        """What a whole answer that is passed on counts; None: nothing."""
        return taps.counted(body, self.counts)

    def error(self, kind: GatewayError, message: str, request_id: str) -> tuple[int, bytes]:
        """Status and body of an error, as a caller of this dialect expects it."""
        return errors.error(self.name, kind, message, request_id)

    def error_event(self, kind: GatewayError, message: str, request_id: str) -> bytes:
        """What ends a stream that broke: an error event, and no success terminator."""
        return errors.error_event(self.name, kind, message, request_id)


CALLERS: Mapping[ChannelDialect, CallerDialect] = {
    "openai-chat": CallerDialect(
        "openai-chat",
        asked_chat.glance,
        asked_chat.understood,
        asked_chat.passed_on,
        taps.chat,
        price.from_openai_chat,
        told_chat.Writer,
        told_chat.whole,
    ),
    "openai-responses": CallerDialect(
        "openai-responses",
        asked_responses.glance,
        asked_responses.understood,
        asked_responses.passed_on,
        taps.responses,
        price.from_openai_responses,
        told_responses.Writer,
        told_responses.whole,
    ),
    "anthropic": CallerDialect(
        "anthropic",
        asked_anthropic.glance,
        asked_anthropic.understood,
        asked_anthropic.passed_on,
        taps.messages,
        price.from_anthropic,
        told_anthropic.Writer,
        told_anthropic.whole,
    ),
    "gemini": CallerDialect(
        "gemini",
        asked_gemini.glance,
        asked_gemini.understood,
        asked_gemini.passed_on,
        taps.pieces,
        price.from_gemini,
        told_gemini.Writer,
        told_gemini.whole,
    ),
}
"""Every dialect by its name, as it stands in a channel's ``dialects``."""
