"""Estimates the tokens of a reply that no supplier counted, from what was sent."""

import re

from agentd.gateway.pricing.bounds import estimate_tokens
from agentd.llm.dialects import token_estimate
from agentd.llm.endpoint import ChannelDialect

MAX_TOKENS_PER_EVENT = 100
"""Tokens counted for one event of a stream at most; longer ones repeat the request."""

_EVENT_END = b"\n\n"

_NEW = b".delta"
"""Part of the type of each event of a Responses stream with new content. All others repeat: the
request at the beginning, each piece and then the whole reply at the end."""

_SAID = re.compile(
    rb'"(?:delta|content|text|arguments|reasoning_content|reasoning|thinking|partial_json)"'
    rb'\s*:\s*"((?:[^"\\]|\\.)+)"'
).search
"""A piece of the reply in an event of any dialect."""

_CALLS = re.compile(rb'"(?:functionCall|tool_use|function_call)"').search
"""A tool call in a complete reply."""


class OutputTokenEstimator:
    """Estimates the tokens of one reply; rather too many than too few."""

    def __init__(self, dialect: ChannelDialect) -> None:
        self._repeats = dialect == "openai-responses"
        self._is_new = False
        """True if the current event has new content, where others repeat."""
        self._body = b""
        self._size = self._events = 0
        """Bytes of the stream, and its events."""
        self._frame = 0
        """Bytes of an event beside its content, measured at the first one with content."""
        self._payload_size = 0
        """Bytes beside the frames since then."""

    def set_body(self, body: bytes) -> None:
        """Set the reply, one JSON object."""
        self._body = body

    def feed(self, chunk: bytes) -> None:
        """Feed the next bytes of a stream, split anywhere."""
        if self._repeats:
            chunk = self._drop_repeats(chunk)
        events = chunk.count(_EVENT_END)
        self._events += events
        self._size += len(chunk)
        if not self._frame:
            self._frame = _measure_frame(chunk)
        if self._frame:
            self._payload_size += max(len(chunk) - events * self._frame, 0)

    @property
    def has_output(self) -> bool:
        """True if the reply contains text or a tool call."""
        return bool(self._frame or _SAID(self._body) or _CALLS(self._body))

    @property
    def tokens(self) -> int:
        """The estimate: an event is at least one token, and most of its bytes are a fixed frame.

        A complete reply counts as a whole, except for what it repeats of the request.
        """
        if self._body:
            return token_estimate.estimate_reply_tokens(self._body)
        tokens = estimate_tokens(self._payload_size if self._frame else self._size)
        if self._events:
            tokens = min(max(tokens, self._events), self._events * MAX_TOKENS_PER_EVENT)
        return tokens

    def _drop_repeats(self, chunk: bytes) -> bytes:
        """Return the events that do not repeat earlier ones."""
        *ended, rest = chunk.split(_EVENT_END)
        new = []
        for event in ended:
            if self._is_new or _NEW in event:
                new.append(event + _EVENT_END)
            self._is_new = False
        self._is_new = self._is_new or _NEW in rest
        return b"".join([*new, rest]) if self._is_new else b"".join(new)


def _measure_frame(chunk: bytes) -> int:
    """Return the frame size of the first complete event with content; 0: none."""
    if not (match := _SAID(chunk)):
        return 0
    begin = chunk.rfind(_EVENT_END, 0, match.start())
    end = chunk.find(_EVENT_END, match.end())
    if end < 0:
        return 0
    begin = begin + len(_EVENT_END) if begin >= 0 else 0
    return end + len(_EVENT_END) - begin - len(match[1])
