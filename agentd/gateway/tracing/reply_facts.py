"""What a reply says of itself in any dialect: its model, and why it ended. Pure.

Only these names are read, never any content. A stream's events are decoded only where they can
carry one of them, and are forgotten as soon as they are complete.
"""

import re

import msgspec
from msgspec import Struct

from agentd.core.errors import TooLarge
from agentd.core.sse import SseReader

MAX_EVENT = 256 * 1024
"""After a longer event nothing more is read of a stream."""
MAX_REASONS = 16
LONGEST_NAME = 128

_ENDS_REPLY = re.compile(
    r'"(?:finish_reason|stop_reason|finishReason)"\s*:\s*"|"response\.(?:completed|incomplete)"'
).search


class ReplyFacts:
    """Reads a whole reply or the chunks of a stream, as they are sent to the caller."""

    def __init__(self) -> None:
        self.model = ""
        """The model that answered; empty: not stated."""
        self.finish_reasons: list[str] = []
        """Why each reply ended, in the dialect's own words."""
        self._stream: SseReader | None = SseReader(MAX_EVENT)

    def set_body(self, body: bytes) -> None:
        """Read a whole reply; or a stream that came at once."""
        if body.lstrip()[:1] == b"{":
            self._read(body)
        else:
            self.feed(body)

    def feed(self, chunk: bytes) -> None:
        """Read the next bytes of a stream, split anywhere."""
        if self._stream is None:
            return
        try:
            for event in self._stream.feed(chunk):
                if not self.model or _ENDS_REPLY(event.data):
                    self._read(event.data)
        except TooLarge:
            self._stream = None

    def _read(self, data: bytes | str) -> None:
        try:
            reply = _decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return
        self.model = self.model or reply.find_model()[:LONGEST_NAME]
        for reason in reply.list_reasons():
            if len(self.finish_reasons) < MAX_REASONS:
                self.finish_reasons.append(reason[:LONGEST_NAME])


class _Choice(Struct):
    finish_reason: str | None = None


class _Candidate(Struct):
    finishReason: str | None = None  # noqa: N815


class _Delta(Struct):
    stop_reason: str | None = None


class _Message(Struct):
    model: str | None = None


class _Details(Struct):
    reason: str | None = None


class _Response(Struct):
    model: str | None = None
    status: str | None = None
    incomplete_details: _Details | None = None


class _Reply(Struct):
    """The fields of all dialects, of whole replies and of events."""

    model: str | None = None
    modelVersion: str | None = None  # noqa: N815
    message: _Message | None = None
    response: _Response | None = None
    choices: list[_Choice] | None = None
    candidates: list[_Candidate] | None = None
    stop_reason: str | None = None
    delta: _Delta | str | None = None
    object: str | None = None
    status: str | None = None
    incomplete_details: _Details | None = None

    def find_model(self) -> str:
        inner = self.message or self.response
        return self.model or self.modelVersion or (inner.model if inner else "") or ""

    def list_reasons(self) -> list[str]:
        found = [one.finish_reason for one in self.choices or ()]
        found += [one.finishReason for one in self.candidates or ()]
        found.append(self.stop_reason)
        if isinstance(self.delta, _Delta):
            found.append(self.delta.stop_reason)
        if self.object == "response":
            found.append(_name_end(self.status, self.incomplete_details))
        elif self.response:
            found.append(_name_end(self.response.status, self.response.incomplete_details))
        return [reason for reason in found if reason]


_decode = msgspec.json.Decoder(_Reply).decode


def _name_end(status: str | None, details: _Details | None) -> str:
    """Return why a reply of the Responses API ended; empty while it is under way."""
    if status == "incomplete":
        return (details.reason if details else "") or status
    return status if status in ("completed", "failed", "cancelled") else ""
