"""What an endpoint is given and what it gives back; HTTP ends here."""

import hashlib
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Protocol, TypeAlias, TypeVar
from urllib.parse import parse_qs, unquote

from msgspec import Struct
from tornado.http1connection import HTTP1Connection
from tornado.httputil import HTTPHeaders, HTTPMessageDelegate, RequestStartLine

from agentd.access.gate import Caller
from agentd.chats.chat import LARGEST_ID
from agentd.chats.records import Once
from agentd.errors import BadRequest, NotFound
from agentd.web.body import decoded

T = TypeVar("T")

_ID = re.compile("[1-9][0-9]{0,15}")
_NUMBER = re.compile("0|[1-9][0-9]{0,15}")
_KEY_LIMIT = 255


DEFENCES: Mapping[str, str] = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",  # an address may hold a key
    "Content-Security-Policy": (
        "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
}
"""Headers of every answer, so that a browser takes none of them for a page of our origin.

An endpoint that does answer with a page names its own policy in ``Answer.headers``.
"""


Upgrade: TypeAlias = Callable[[HTTP1Connection, RequestStartLine, HTTPHeaders], HTTPMessageDelegate]


class Portions(Protocol):
    """The body of an answer, as it is made: an asynchronous generator is one."""

    def __aiter__(self) -> AsyncIterator[bytes]:
        """The portions, in their order."""
        ...

    def aclose(self) -> Awaitable[None]:
        """No more is wanted: called in any case, at the end too."""
        ...


class Call(Struct):
    """One request to one endpoint, admitted by the gate."""

    method: str
    path: str
    query_text: str
    params: Mapping[str, str]
    headers: HTTPHeaders
    caller: Caller
    remote_ip: str
    request_id: str = ""
    by_https: bool = False
    """Whether a proxy that is trusted says that the client came by https."""
    body: bytes = b""
    incoming: AsyncIterator[bytes] | None = None
    """The body while it comes, of a route that streams."""

    def id(self, name: str, what: str) -> int:
        """A number in the path; ``NotFound`` when it cannot be one of ours."""
        text = self.params[name]
        if not _ID.fullmatch(text) or int(text) > LARGEST_ID:
            raise NotFound(f"{what} {text[:40]} not found")
        return int(text)

    def name(self, name: str = "name") -> str:
        """A name in the path, unescaped; ``NotFound`` when it is no text."""
        try:
            return unquote(self.params[name], errors="strict")
        except UnicodeDecodeError:
            raise NotFound(f"{self.params[name][:40]} is no name in UTF-8") from None

    def number(self, name: str, least: int, most: int) -> int | None:
        """A whole number among the query parameters; None when it is absent; ``BadRequest``."""
        text = self.query(name)
        if text is None:
            return None
        if not _NUMBER.fullmatch(text) or not least <= int(text) <= most:
            raise BadRequest(f"{name} must be a whole number from {least} to {most}")
        return int(text)

    def query(self, name: str) -> str | None:
        """The last value of a query parameter; None when it is absent."""
        if not self.query_text:
            return None
        try:
            values = parse_qs(self.query_text, keep_blank_values=True, max_num_fields=100)
        except ValueError as error:
            raise BadRequest("The query has too many parameters") from error
        return values[name][-1] if name in values else None

    def flag(self, name: str) -> bool:
        """Whether a query parameter is ``true``; ``BadRequest`` for anything but true or false.

        What is meant to do more, such as to revoke more keys, must not pass by a misspelling.
        """
        value = self.query(name)
        if value not in (None, "true", "false"):
            raise BadRequest(f"{name} must be true or false")
        return value == "true"

    def json(self, kind: type[T]) -> T:
        """The body as a typed value; ``BadRequest`` names the path of what is wrong."""
        return decoded(self.body, kind)

    def once(self) -> Once | None:
        """The ``Idempotency-Key``, made this caller's own, with the digest of the request."""
        key = self.headers.get("Idempotency-Key")
        if key is None:
            return None
        if not 0 < len(key) <= _KEY_LIMIT:
            raise BadRequest(f"Idempotency-Key must have 1 to {_KEY_LIMIT} characters")
        digest = hashlib.sha256(self.body).hexdigest()
        return Once(f"{self.caller.by} {self.path} {key}", digest)


class Answer(Struct):
    """What to send: a struct or a dict to encode, bytes as they are, or portions of bytes."""

    body: object = None
    status: int = 200
    headers: dict[str, str] = {}
    """They replace those of ``DEFENCES`` that have the same name."""
    portions: Portions | None = None
    upgrade: Upgrade | None = None
    """Hands the connection over to a WebSocket."""
    sent: Callable[[bool], object] | None = None
    """Called once a whole answer was sent, with whether its caller was still there to take it."""

    @classmethod
    def of(cls, status: int, headers: dict[str, str], body: object) -> "Answer":
        """An answer by its parts in the order of the wire."""
        return cls(body, status, headers)

    @property
    def whole(self) -> bool:
        """True when it can be sent at once."""
        return self.portions is None and self.upgrade is None
