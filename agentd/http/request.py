"""Requests and responses as endpoints see them, without the details of HTTP."""

import hashlib
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Protocol, TypeVar
from urllib.parse import parse_qs, unquote

from msgspec import Struct
from tornado.httputil import HTTPHeaders

from agentd.core.errors import BadRequest, NotFound
from agentd.core.idempotency import IdempotencyKey
from agentd.core.ids import MAX_ID
from agentd.http.access import Caller, stay_admitted
from agentd.http.json_body import decode_json
from agentd.http.upgrade import Upgrade

T = TypeVar("T")
C = TypeVar("C", bound=str)

_ID = re.compile("[1-9][0-9]{0,15}")
_NUMBER = re.compile("0|[1-9][0-9]{0,15}")
_KEY_LIMIT = 255


SECURITY_HEADERS: Mapping[str, str] = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",  # a URL may contain a key
    "Content-Security-Policy": (
        "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
}
"""Headers of every response, so that a browser renders none of them as a page of our origin.

An endpoint that does serve a page sets its own policy in ``Response.headers``.
"""


class ChunkStream(Protocol):
    """A response body that is sent while it is made: an asynchronous generator is one."""

    def __aiter__(self) -> AsyncIterator[bytes]:
        """Yield the chunks, in order."""
        ...

    def aclose(self) -> Awaitable[None]:
        """Release what the stream holds; called in any case, also after the last chunk."""
        ...


class Request(Struct):
    """An authenticated request to an endpoint."""

    method: str
    path: str
    query_string: str
    path_params: Mapping[str, str]
    headers: HTTPHeaders
    caller: Caller
    remote_ip: str
    request_id: str = ""
    is_https: bool = False
    """True if a trusted proxy says that the client uses https."""
    body: bytes = b""
    body_stream: AsyncIterator[bytes] | None = None
    """The chunks of the body as they arrive, for routes with ``upload``."""
    confirm_caller: Callable[[], Awaitable[None]] = stay_admitted
    """Raises ``Unauthorized`` or ``Forbidden`` unless the caller may still call this.

    To be awaited by what hands out keys, or what they open, once it has waited for its turn: the
    caller's own may have been revoked meanwhile.
    """

    def get_id(self, name: str, what: str) -> int:
        """Return an id from the path; ``NotFound`` when it cannot be an id."""
        text = self.path_params[name]
        if not _ID.fullmatch(text) or int(text) > MAX_ID:
            raise NotFound(f"{what} {text[:40]} not found")
        return int(text)

    def get_name(self, name: str = "name") -> str:
        """Return a name from the path, unescaped; ``NotFound`` when it is not UTF-8."""
        try:
            return unquote(self.path_params[name], errors="strict")
        except UnicodeDecodeError:
            raise NotFound(f"{self.path_params[name][:40]} is not a name in UTF-8") from None

    def get_int(self, name: str, least: int, most: int) -> int | None:
        """Return an integer query parameter; None when it is absent; raises ``BadRequest``."""
        text = self.get_query(name)
        if text is None:
            return None
        if not _NUMBER.fullmatch(text) or not least <= int(text) <= most:
            raise BadRequest(f"{name} must be a whole number from {least} to {most}")
        return int(text)

    def get_query(self, name: str) -> str | None:
        """Return the last value of a query parameter; None when it is absent."""
        if not self.query_string:
            return None
        try:
            values = parse_qs(self.query_string, keep_blank_values=True, max_num_fields=100)
        except ValueError as error:
            raise BadRequest("The query has too many parameters") from error
        return values[name][-1] if name in values else None

    def get_flag(self, name: str) -> bool:
        """Return whether a query parameter is ``true``; ``BadRequest`` unless true or false.

        A misspelled value must not be taken for false: with ``children=yes`` a leaked key would
        be revoked without the keys that it made.
        """
        return self.get_optional_flag(name) or False

    def get_optional_flag(self, name: str) -> bool | None:
        """Return a query parameter that is ``true`` or ``false``; None when it is absent."""
        value = self.get_query(name)
        if value not in (None, "true", "false"):
            raise BadRequest(f"{name} must be true or false")
        return None if value is None else value == "true"

    def get_choice(self, name: str, known: tuple[C, ...], usual: C) -> C:
        """Return a query parameter that is one of ``known``; ``usual`` when it is absent."""
        value = self.get_query(name)
        if value is None:
            return usual
        for one in known:
            if one == value:
                return one
        raise BadRequest(f"'{name}' is {value[:40]!r}", f"Known are: {', '.join(known)}.")

    def parse_json(self, kind: type[T]) -> T:
        """Return the body as a typed value; ``BadRequest`` names the path of what is invalid."""
        return decode_json(self.body, kind)

    def get_idempotency_key(self) -> IdempotencyKey | None:
        """Return the ``Idempotency-Key`` with the digest of the body, if there is one.

        It is qualified by caller and path, so that two callers never share a key.
        """
        key = self.headers.get("Idempotency-Key")
        if key is None:
            return None
        if not 0 < len(key) <= _KEY_LIMIT:
            raise BadRequest(f"Idempotency-Key must have 1 to {_KEY_LIMIT} characters")
        digest = hashlib.sha256(self.body).hexdigest()
        return IdempotencyKey(f"{self.caller.identity} {self.path} {key}", digest)


class Response(Struct):
    """A response; its body is a struct or dict to encode as JSON, bytes, or ``chunks``."""

    body: object = None
    status: int = 200
    headers: dict[str, str] = {}
    """Extra headers; they replace those of ``SECURITY_HEADERS`` with the same name."""
    chunks: ChunkStream | None = None
    upgrade: Upgrade | None = None
    """Takes over the connection as a WebSocket."""
    on_sent: Callable[[bool], object] | None = None
    """Called once a complete response was sent, with whether the client was still connected."""

    @classmethod
    def from_parts(cls, status: int, headers: dict[str, str], body: object) -> "Response":
        """Return a response of these parts, in the order of the wire."""
        return cls(body, status, headers)

    @property
    def is_complete(self) -> bool:
        """True if it can be sent at once: neither a stream nor a WebSocket."""
        return self.chunks is None and self.upgrade is None

    @property
    def is_event_stream(self) -> bool:
        """True if it is a stream of live events, which ends only with its connection."""
        return self.headers.get("Content-Type", "").startswith("text/event-stream")
