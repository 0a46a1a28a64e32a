"""The suppliers' side of the dialects; the modules ``<name>/upstream.py`` implement ``Dialect``."""

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Protocol
from urllib.parse import urlsplit

from agentd.llm.conversation import Conversation, DialectName, ReplyEvent
from agentd.llm.dialects.anthropic import upstream as anthropic_upstream
from agentd.llm.dialects.gemini import upstream as gemini_upstream
from agentd.llm.dialects.openai_chat import upstream as openai_chat_upstream
from agentd.llm.dialects.openai_responses import upstream as openai_responses_upstream

_VERSION = re.compile(r"v\d+[a-z]*")
_OWN_VERSION = re.compile(r"^/v\d+[a-z]*(?=/)")


class ReplyReader(Protocol):
    """Parses one streamed response, however it was split into chunks; never raises."""

    def feed(self, data: bytes) -> list[ReplyEvent]:
        """Return the events in these bytes; none after ``ReplyFinished`` or ``SupplierError``."""
        ...

    def close(self) -> list[ReplyEvent]:
        """Return the last events of a stream that ended.

        These end with ``ReplyFinished``, or with a ``SupplierError`` of the kind ``broken``; empty
        if the reply had ended before.
        """
        ...


class Dialect(Protocol):
    """A dialect as suppliers speak it, implemented by a module of functions."""

    def get_path(self, model: str, *, stream: bool = True) -> str:
        """Return the path for requests, relative to the supplier's URL; see ``join_url``."""
        ...

    def build_headers(self, secret: str) -> dict[str, str]:
        """Return the headers of each request; ``secret`` is the API key, empty if none."""
        ...

    def encode_request(
        self, conversation: Conversation, model: str, *, stream: bool = True
    ) -> bytes:
        """Return the JSON body. Raises ``BadRequest`` for what this dialect cannot express."""
        ...

    def create_reader(self) -> ReplyReader:
        """Return a reader for one response of status 200 and type ``text/event-stream``."""
        ...

    def parse_response(self, body: bytes) -> list[ReplyEvent]:
        """Return the same events for a whole response of status 200."""
        ...


@lru_cache(1024)
def join_url(base: str, path: str) -> str:
    """Join a supplier's URL, with or without ``/v1``, and a path.

    A version in the URL is not repeated: ``https://host/v1`` and ``https://host`` are the same
    supplier, and ``https://host/api/v4`` keeps its own version.
    """
    base = base.rstrip("/")
    if any(_VERSION.fullmatch(part) for part in urlsplit(base).path.split("/")):
        path = _OWN_VERSION.sub("", path)
    return base + path


DIALECTS: Mapping[DialectName, Dialect] = {
    "openai-chat": openai_chat_upstream,
    "openai-responses": openai_responses_upstream,
    "anthropic": anthropic_upstream,
    "gemini": gemini_upstream,
}
"""Every dialect by its name in the settings."""
