"""How many tokens a reply has that no supplier counted: judged by what the caller was given."""

import re

from agentd.proxy.channel import ChannelDialect
from agentd.proxy.dialects.callers import estimate
from agentd.proxy.pricing import tokens_in

MOST_IN_EVENT = 100
"""Tokens that one event of a stream is taken to hold; what is longer only tells of the request."""

_EVENT_END = b"\n\n"

_NEW = b".delta"
"""In the type of each event of a Responses stream that tells something new. All others repeat: the
request at its beginning, each piece and then the whole reply at its end."""

_SAID = re.compile(
    rb'"(?:delta|content|text|arguments|reasoning_content|reasoning|thinking|partial_json)"'
    rb'\s*:\s*"((?:[^"\\]|\\.)+)"'
).search
"""A piece of the reply in an event of any dialect."""

_CALLS = re.compile(rb'"(?:functionCall|tool_use|function_call)"').search
"""A call of a tool in a whole reply."""


class Written:
    """What one caller was given of a reply; the tokens are rather too many than too few."""

    def __init__(self, dialect: ChannelDialect) -> None:
        self._repeats = dialect == "openai-responses"
        self._is_new = False
        """Whether the event under way tells something new, where others repeat."""
        self._body = b""
        self._size = self._events = 0
        """Bytes of the stream, and its events."""
        self._frame = 0
        """Bytes of an event beside what it says, by the first that says anything."""
        self._said = 0
        """Bytes beside the frames since then."""

    def whole(self, body: bytes) -> None:
        """The reply as one JSON object."""
        self._body = body

    def hear(self, portion: bytes) -> None:
        """The next bytes of a stream, cut anywhere."""
        if self._repeats:
            portion = self._new(portion)
        events = portion.count(_EVENT_END)
        self._events += events
        self._size += len(portion)
        if not self._frame:
            self._frame = _frame(portion)
        if self._frame:
            self._said += max(len(portion) - events * self._frame, 0)

    @property
    def says_anything(self) -> bool:
        """Whether there is a word or a call of a tool in the reply."""
        return bool(self._frame or _SAID(self._body) or _CALLS(self._body))

    @property
    def tokens(self) -> int:
        """An event is a token or more, and most of its bytes are a frame that is always the same.

        Of a whole reply all counts but what it repeats of the request.
        """
        if self._body:
            return estimate.written(self._body)
        tokens = tokens_in(self._said if self._frame else self._size)
        if self._events:
            tokens = min(max(tokens, self._events), self._events * MOST_IN_EVENT)
        return tokens

    def _new(self, portion: bytes) -> bytes:
        """The events that do not repeat what was told before."""
        *ended, rest = portion.split(_EVENT_END)
        new = []
        for event in ended:
            if self._is_new or _NEW in event:
                new.append(event + _EVENT_END)
            self._is_new = False
        self._is_new = self._is_new or _NEW in rest
        return b"".join([*new, rest]) if self._is_new else b"".join(new)


def _frame(portion: bytes) -> int:
    """The frame of the first whole event that says anything; 0: there is none."""
    if not (said := _SAID(portion)):
        return 0
    begin = portion.rfind(_EVENT_END, 0, said.start())
    end = portion.find(_EVENT_END, said.end())
    if end < 0:
        return 0
    begin = begin + len(_EVENT_END) if begin >= 0 else 0
    return end + len(_EVENT_END) - begin - len(said[1])
