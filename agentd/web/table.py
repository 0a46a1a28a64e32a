"""The routes table's grammar: what a row tells, and how a path finds its row.

Dispatch, OpenAPI and the tests read the same rows. A path is looked up segment by segment, so
the cost does not grow with the number of rows.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Protocol, TypeAlias

from msgspec import Struct

from agentd.access.gate import Role, Surface
from agentd.access.login import needed
from agentd.errors import AgentdError
from agentd.web.call import Answer, Call
from agentd.web.envelope import Failure

Endpoint: TypeAlias = Callable[[Call], Answer | Awaitable[Answer]]

Schema: TypeAlias = dict[str, object]
"""A JSON Schema."""

HUB = "/liveChatHub"
"""The live connection's address (specification, section 6)."""

DOCUMENT: Schema = {"type": "object", "required": ["openapi", "paths"]}
"""An OpenAPI document."""

FORM = "multipart/form-data"
"""The media type of a form with files."""

JSON_LIMIT = 1024 * 1024
"""The largest JSON body, in bytes."""


STRICT_QUERY = (Surface.EXTENDED, Surface.LIVE, Surface.MANAGE)
"""Surfaces on which a query parameter that a route does not have is refused.

Clients of SignalR and of models add parameters of their own; the remote API passes over what it
does not know, as it does over an invalid ``since``.
"""


class Parameter(Struct, frozen=True):
    """A query parameter, a request header, or a part of the path that is no usual name or id.

    ``where`` is ``query``, ``header`` or ``path``.
    """

    name: str
    where: str
    description: str
    schema: Schema


class Telling(Protocol):
    """How a route's errors are told."""

    failures: tuple[Failure, ...]
    """All that can come."""
    schema: Schema
    """Of their bodies."""

    def __call__(self, error: Exception, request_id: str) -> Answer:
        """The answer to the request of that id."""
        ...


class Streamed(Struct, frozen=True):
    """A body that is read while it comes: the media types it may have, and its most bytes.

    ``image/*`` is any type that begins so.
    """

    types: tuple[str, ...]
    limit: int
    form: Schema = {}
    """The fields of a form, where it may be one."""

    def takes(self, kind: str) -> bool:
        """Whether a body may be of this media type."""
        return any(
            kind.startswith(one[:-1]) if one.endswith("*") else kind == one for one in self.types
        )


class Route(Struct, frozen=True):
    """One method on one path: who may, what goes in, what comes out, what can go wrong."""

    method: str
    path: str
    """Segments in braces are parameters: ``/api/remote/chats/{chatId}/status``."""
    surface: Surface
    endpoint: Endpoint
    summary: str
    operation: str = ""
    """What clients call it, a verb and a noun; empty: as the endpoint is called.

    Generated clients have functions of this name, so it stays when the endpoint is renamed.
    """
    takes: type | None = None
    """The type of the JSON body."""
    reads: Schema | None = None
    """Of a JSON body that the endpoint takes as bytes: it is passed on as it came."""
    streams: Streamed | None = None
    """Instead of JSON."""
    example: object = None
    """A body that is taken."""
    gives: type | None = None
    """The type of the answer's JSON body."""
    tells: Schema | None = None
    """Of an answer's JSON body that is no type of ours."""
    answer_headers: Mapping[str, str] = {}
    """Headers of a good answer that tell something of their own, and what."""
    also: tuple[str, ...] = ()
    """Media types that the answer may have beside JSON, or instead of it."""
    status: int = 200
    errors: tuple[type[AgentdError], ...] = ()
    """What can go wrong beyond what every route of its surface may answer."""
    parameters: tuple[Parameter, ...] = ()
    section: str = ""
    """Where the specification rules it."""
    role: Role | None = None
    """The least role that may call it, where it is another than its surface and method tell."""
    most: int = JSON_LIMIT
    """The most bytes of a body that is not streamed."""
    telling: Telling | None = None
    """How its errors are told, where not by the envelope."""
    ends_with_caller: bool = False
    """Whether nothing is to go on once the caller has left, be it a change."""

    @property
    def limit(self) -> int:
        """The most bytes of its body."""
        return self.streams.limit if self.streams else self.most

    @property
    def takes_body(self) -> bool:
        """Whether a body means anything to it."""
        return bool(self.takes or self.reads or self.streams)

    @property
    def needs(self) -> Role:
        """The least role that may call it."""
        return self.role or needed(self.surface, self.method)


class _Node(Struct):
    named: "dict[str, _Node]" = {}
    any: "_Node | None" = None
    parameter: str = ""
    methods: dict[str, Route] = {}


class Found(Struct, frozen=True):
    """The rows of a path by method, and the values of its parameters."""

    methods: dict[str, Route]
    params: dict[str, str]

    def route(self, method: str) -> Route | None:
        """The row for a method; ``HEAD`` is answered as ``GET``, without the body."""
        return self.methods.get("GET" if method == "HEAD" else method)

    @property
    def allowed(self) -> tuple[str, ...]:
        """The methods that this path has."""
        return (*self.methods, "HEAD") if "GET" in self.methods else tuple(self.methods)


class Table:
    """All rows, by path."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self.routes = tuple(routes)
        self._root = _Node()
        for route in self.routes:
            self._add(route)

    def find(self, path: str) -> Found | None:
        """The rows of a path as it was sent, not unescaped; None when there are none."""
        node = self._root
        params: dict[str, str] = {}
        for segment in path.split("/")[1:]:
            step = node.named.get(segment)
            if step is None:
                if node.any is None or not segment:
                    return None
                step = node.any
                params[step.parameter] = segment
            node = step
        return Found(node.methods, params) if node.methods else None

    def _add(self, route: Route) -> None:
        node = self._root
        for segment in route.path.split("/")[1:]:
            if segment.startswith("{"):
                node.any = node.any or _Node(parameter=segment[1:-1])
                node = node.any
                if node.parameter != segment[1:-1]:
                    raise ValueError(f"{route.path}: {segment} is {{{node.parameter}}} elsewhere")
            else:
                node = node.named.setdefault(segment, _Node())
        if route.method in node.methods:
            raise ValueError(f"two rows for {route.method} {route.path}")
        node.methods[route.method] = route
