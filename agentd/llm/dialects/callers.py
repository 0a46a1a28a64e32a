"""The dialects of the gateway's callers."""

from collections.abc import Callable, Iterable, Mapping

from msgspec import Struct

from agentd.llm import price
from agentd.llm.conversation import Conversation, ReplyEvent
from agentd.llm.dialects import error_bodies, stream_observers
from agentd.llm.dialects.anthropic import request as anthropic_request
from agentd.llm.dialects.anthropic import response as anthropic_response
from agentd.llm.dialects.caller import GatewayErrorKind, RequestSummary, StreamWriter, UsageObserver
from agentd.llm.dialects.gemini import request as gemini_request
from agentd.llm.dialects.gemini import response as gemini_response
from agentd.llm.dialects.openai_chat import request as openai_chat_request
from agentd.llm.dialects.openai_chat import response as openai_chat_response
from agentd.llm.dialects.openai_responses import request as openai_responses_request
from agentd.llm.dialects.openai_responses import response as openai_responses_response
from agentd.llm.endpoint import ChannelDialect
from agentd.llm.price import Usage


class CallerDialect(Struct, frozen=True):
    """A dialect as callers speak it."""

    name: ChannelDialect
    peek: Callable[[bytes], RequestSummary]
    """Raises ``BadRequest`` for what is no request: no JSON object, no model, a name twice."""
    parse_request: Callable[[bytes], Conversation]
    """All of a request. ``BadRequest`` says what has no counterpart; nothing is dropped."""
    rewrite_for_passthrough: Callable[[bytes, str], bytes]
    """The request for a supplier of the same dialect: its model named, usage asked for.

    All else stays as it was written.
    """
    create_observer: Callable[[RequestSummary], UsageObserver]
    """The factory of the observer of a streamed answer that is passed on."""
    parse_usage: Callable[[object], Usage]
    """The parser of the dialect's usage object."""
    create_writer: Callable[[RequestSummary, str, int], StreamWriter]
    """The factory of the writer of a translated reply: the request's id, the seconds since 1970."""
    render_response: Callable[[Iterable[ReplyEvent], RequestSummary, str, int], bytes]
    """A translated reply at once; the events end with ``ReplyFinished``."""

    def read_usage(self, body: bytes) -> Usage | None:
        """Return the usage in a whole response that is passed through, or None."""
        return stream_observers.read_usage(body, self.parse_usage)

    def render_error(
        self, kind: GatewayErrorKind, message: str, request_id: str
    ) -> tuple[int, bytes]:
        """Return status and body of an error in this dialect."""
        return error_bodies.render_error(self.name, kind, message, request_id)

    def render_error_event(self, kind: GatewayErrorKind, message: str, request_id: str) -> bytes:
        """Return the error event that ends a broken stream, without a success terminator."""
        return error_bodies.render_error_event(self.name, kind, message, request_id)


CALLERS: Mapping[ChannelDialect, CallerDialect] = {
    "openai-chat": CallerDialect(
        "openai-chat",
        openai_chat_request.peek,
        openai_chat_request.parse_request,
        openai_chat_request.rewrite_for_passthrough,
        stream_observers.observe_chat,
        price.parse_chat_usage,
        openai_chat_response.ChatStreamWriter,
        openai_chat_response.render_response,
    ),
    "openai-responses": CallerDialect(
        "openai-responses",
        openai_responses_request.peek,
        openai_responses_request.parse_request,
        openai_responses_request.rewrite_for_passthrough,
        stream_observers.observe_responses,
        price.parse_responses_usage,
        openai_responses_response.ResponsesStreamWriter,
        openai_responses_response.render_response,
    ),
    "anthropic": CallerDialect(
        "anthropic",
        anthropic_request.peek,
        anthropic_request.parse_request,
        anthropic_request.rewrite_for_passthrough,
        stream_observers.observe_anthropic,
        price.parse_anthropic_usage,
        anthropic_response.AnthropicStreamWriter,
        anthropic_response.render_response,
    ),
    "gemini": CallerDialect(
        "gemini",
        gemini_request.peek,
        gemini_request.parse_request,
        gemini_request.rewrite_for_passthrough,
        stream_observers.observe_gemini,
        price.parse_gemini_usage,
        gemini_response.GeminiStreamWriter,
        gemini_response.render_response,
    ),
}
"""Every dialect by its name in a channel's ``dialects``."""
