"""What each dialect can do; the modules beside this one are the dialects."""

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Protocol
from urllib.parse import urlsplit

from agentd.proxy.dialects import anthropic, gemini, openai_chat, openai_responses
from agentd.proxy.dialects.conversation import Conversation, DialectName, Event

_VERSION = re.compile(r"v\d+[a-z]*")
_OWN_VERSION = re.compile(r"^/v\d+[a-z]*(?=/)")


class Reader(Protocol):
    """Reads one streamed answer, however it was split on the way, and never raises."""

    def feed(self, data: bytes) -> list[Event]:
        """What these bytes tell. After ``Finished`` or ``SupplierError`` nothing is told."""
        ...

    def close(self) -> list[Event]:
        """The stream ended: ``Finished``, or ``SupplierError`` of the kind ``broken``.

        Nothing, when the end was told before.
        """
        ...


class Dialect(Protocol):
    """One way to speak to suppliers. A module of this folder is one."""

    def path(self, model: str, *, stream: bool = True) -> str:
        """Where requests are posted, from the supplier's address on; see ``address``."""
        ...

    def headers(self, secret: str) -> dict[str, str]:
        """What each request carries; ``secret`` is the supplier's key, empty if it needs none."""
        ...

    def request(self, conversation: Conversation, model: str, *, stream: bool = True) -> bytes:
        """The body, JSON. Raises ``BadRequest`` for what this dialect cannot say."""
        ...

    def reader(self) -> Reader:
        """For one streamed answer of status 200 and the type ``text/event-stream``."""
        ...

    def answer(self, body: bytes) -> list[Event]:
        """A whole answer of status 200, in the same events."""
        ...


@lru_cache(1024)
def address(base: str, path: str) -> str:
    """Where to post, for a supplier's address as people write it, with or without ``/v1``.

    A version in the address is not said twice: ``https://host/v1`` and ``https://host`` are the
    same supplier, and ``https://host/api/v4`` stays on its own version.
    """
    base = base.rstrip("/")
    if any(_VERSION.fullmatch(part) for part in urlsplit(base).path.split("/")):
        path = _OWN_VERSION.sub("", path)
    return base + path


DIALECTS: Mapping[DialectName, Dialect] = {
    "openai-chat": openai_chat,
    "openai-responses": openai_responses,
    "anthropic": anthropic,
    "gemini": gemini,
}
"""Every dialect by its name, as it stands in settings."""
