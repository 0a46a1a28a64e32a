"""Routes: what defines one, and how the route of a path is found.

Dispatch, OpenAPI and the tests use the same definitions. A path is looked up segment by segment,
so the cost does not grow with the number of routes.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from importlib import import_module
from typing import Protocol, TypeAlias

from msgspec import Struct

from agentd.core.errors import AgentdError, Forbidden
from agentd.http.access import (
    Caller,
    ManagementScope,
    Role,
    RouteGroup,
    get_min_role,
    get_scopes,
    has_role,
    require_answers,
)
from agentd.http.errors import ErrorKind
from agentd.http.request import Request, Response

Endpoint: TypeAlias = Callable[[Request], Response | Awaitable[Response]]

Schema: TypeAlias = dict[str, object]
"""A JSON Schema."""

HUB_PATH = "/liveChatHub"
"""The path of the live events hub (specification, section 6)."""

OPENAPI_SCHEMA: Schema = {"type": "object", "required": ["openapi", "paths"]}
"""An OpenAPI document."""

MULTIPART_FORM = "multipart/form-data"
"""The media type of a form with files."""

JSON_LIMIT = 1024 * 1024
"""The largest JSON body, in bytes."""


STRICT_QUERY_GROUPS = (RouteGroup.EXTENDED, RouteGroup.LIVE, RouteGroup.MANAGE)
"""Route groups that refuse unknown query parameters.

Clients of SignalR and of model APIs add parameters of their own; the remote API ignores unknown
ones, as it ignores an invalid ``since``.
"""


class Parameter(Struct, frozen=True):
    """A query parameter, a request header, or a path parameter that is not a plain name or id.

    ``location`` is ``query``, ``header`` or ``path``.
    """

    name: str
    location: str
    description: str
    schema: Schema


class ErrorRenderer(Protocol):
    """Renders the errors of routes that do not use ``ErrorBody``."""

    error_kinds: tuple[ErrorKind, ...]
    """All errors that can occur."""
    schema: Schema
    """The schema of their bodies."""

    def __call__(self, error: Exception, request_id: str) -> Response:
        """Return the response for an error of the request with that id."""
        ...

    def select(self, headers: Mapping[str, str], query: str) -> "ErrorRenderer":
        """Return the renderer for a request: this one, or one for the format of its client."""
        ...


class StreamedBody(Struct, frozen=True):
    """A body that is read while it arrives: its media types and its most bytes.

    ``image/*`` stands for all types with that prefix.
    """

    media_types: tuple[str, ...]
    max_bytes: int
    form_fields: Schema = {}
    """The schema of the fields, for multipart forms."""

    def accepts(self, kind: str) -> bool:
        """Return whether a body may have this media type."""
        return any(
            kind.startswith(one[:-1]) if one.endswith("*") else kind == one
            for one in self.media_types
        )


class Route(Struct, frozen=True):
    """A method of a path: its minimum role, its request, its response and its errors."""

    method: str
    path: str
    """Segments in braces are parameters: ``/api/remote/chats/{chatId}/status``."""
    group: RouteGroup
    endpoint: Endpoint
    summary: str
    operation_id: str = ""
    """The operation id in OpenAPI, a verb and a noun; empty: the name of the endpoint.

    Generated clients have functions of this name, so it stays when the endpoint is renamed.
    """
    request_type: type | None = None
    """The type of the JSON body."""
    raw_request_schema: Schema | None = None
    """The schema of a JSON body that the endpoint takes as bytes, to pass it on unchanged."""
    upload: StreamedBody | None = None
    """The streamed body, instead of a JSON body."""
    example: object = None
    """An example of the body."""
    response_type: type | None = None
    """The type of the response's JSON body."""
    raw_response_schema: Schema | None = None
    """The schema of a response's JSON body that has no type."""
    response_headers: Mapping[str, str] = {}
    """Descriptions of the headers of a successful response that clients may use, by name."""
    extra_media_types: tuple[str, ...] = ()
    """Media types that the response may have beside JSON, or instead of it."""
    status: int = 200
    errors: tuple[type[AgentdError], ...] = ()
    """The errors beyond those of every route of its group."""
    parameters: tuple[Parameter, ...] = ()
    section: str = ""
    """The section of the specification that defines it."""
    role: Role | None = None
    """The least role that may call it, if it differs from that of its group and method."""
    scopes: tuple[ManagementScope, ...] = ()
    """The scopes of management keys that may call it, if they differ from those of its method and
    path."""
    needs_answers: bool = False
    """True if an API key needs the scope ``answers`` for it."""
    max_body: int | Callable[[], int] = JSON_LIMIT
    """The most bytes of a body that is not streamed, or what returns them as of now."""
    error_renderer: ErrorRenderer | None = None
    """The renderer of errors; None: ``ErrorBody``."""
    is_page: bool = False
    """True if it is a page or file for browsers, which is not part of the OpenAPI document."""
    takes_bearer_key: bool = False
    """True if the API key may also come as ``Authorization: Bearer``."""
    ends_with_caller: bool = False
    """True if the request is cancelled when the client disconnects, even if it changes state."""
    takes_slashes: bool = False
    """True if its last segment, a parameter, is all the rest of a path: clients of models send
    names with slashes as they are."""

    @property
    def body_limit(self) -> int:
        """The most bytes of a body."""
        if self.upload:
            return self.upload.max_bytes
        return self.max_body if isinstance(self.max_body, int) else self.max_body()

    @property
    def accepts_body(self) -> bool:
        """True if it takes a body."""
        return bool(self.request_type or self.raw_request_schema or self.upload)

    @property
    def min_role(self) -> Role:
        """The least role that may call it."""
        return self.role or get_min_role(self.group, self.method)

    @property
    def allowed_scopes(self) -> tuple[ManagementScope, ...]:
        """The scopes of management keys that may call it."""
        return self.scopes or get_scopes(self.method, self.path)


def check_permission(caller: Caller, route: Route) -> None:
    """Raise ``Forbidden`` if the caller may not call the route."""
    if not has_role(caller.role, route.min_role):
        raise Forbidden(f"This needs the role {route.min_role}", f"Yours is {caller.role}.")
    if caller.kind == "management" and caller.scope not in route.allowed_scopes:
        needed = " or ".join(f'"{scope}"' for scope in route.allowed_scopes)
        raise Forbidden(
            f"This needs a management key of the scope {needed}",
            f'The scope of "{caller.name}" is "{caller.scope}".',
        )
    if route.needs_answers:
        require_answers(caller)


class _Node(Struct):
    children: "dict[str, _Node]" = {}
    wildcard: "_Node | None" = None
    parameter: str = ""
    takes_rest: bool = False
    """True if it is all the rest of a path."""
    methods: dict[str, Route] = {}


class RouteMatch(Struct, frozen=True):
    """The routes of a path by method, and the values of its parameters."""

    methods: dict[str, Route]
    path_params: dict[str, str]

    def find_route(self, method: str) -> Route | None:
        """Return the route of a method; ``HEAD`` is answered as ``GET``, without the body."""
        return self.methods.get("GET" if method == "HEAD" else method)

    @property
    def allowed_methods(self) -> tuple[str, ...]:
        """The methods that this path has."""
        return (*self.methods, "HEAD") if "GET" in self.methods else tuple(self.methods)


class DeferredRoutes(Struct, frozen=True):
    """The routes of ``prefix`` and all paths below it, built when one of them is first needed.

    A daemon that is never asked for them neither imports nor keeps what they need.
    """

    prefix: str
    modules: tuple[str, ...]
    """The modules that bring all that ``build`` imports: a thread imports them beforehand."""
    build: "Callable[[RouteTable], Iterable[Route]]"
    """Returns the routes; the table is theirs."""


class RouteTable:
    """All routes, indexed by path.

    ``fallback_error_renderer`` returns the error renderer for a path without a route; None: errors
    of that path are rendered as ``ErrorBody``.
    """

    def __init__(
        self,
        routes: Iterable[Route],
        fallback_error_renderer: Callable[[str], "ErrorRenderer | None"] = lambda path: None,
        deferred: Iterable[DeferredRoutes] = (),
    ) -> None:
        self.fallback_error_renderer = fallback_error_renderer
        self._routes: list[Route] = []
        self._root = _Node()
        self._deferred = list(deferred)
        self._add_all(routes)

    @property
    def routes(self) -> tuple[Route, ...]:
        """All routes, the deferred ones too, which are built for this."""
        while self._deferred:
            self._build(self._deferred[0])
        return tuple(self._routes)

    @property
    def built_routes(self) -> tuple[Route, ...]:
        """The routes without deferred ones that nobody has needed yet."""
        return tuple(self._routes)

    async def import_deferred(self, path: str = "") -> None:
        """Import what building the deferred routes of a path needs, or all; without blocking."""
        for one in tuple(self._deferred):
            if not path or _is_below(path, one.prefix):
                for module in one.modules:
                    await asyncio.to_thread(import_module, module)

    def find(self, path: str) -> RouteMatch | None:
        """Return the routes of a path as it was sent, not unescaped; None when there are none."""
        if self._deferred:
            self._build_below(path)
        node = self._root
        params: dict[str, str] = {}
        segments = path.split("/")[1:]
        for at, segment in enumerate(segments):
            step = node.children.get(segment)
            if step is None:
                if node.wildcard is None or not segment:
                    return None
                if node is self._root and not segment.isdecimal():
                    return None  # at the top only ids are variable: other words are mistyped paths
                step = node.wildcard
                params[step.parameter] = segment
                if step.takes_rest:
                    params[step.parameter] = "/".join(segments[at:])
                    return RouteMatch(step.methods, params)
            node = step
        return RouteMatch(node.methods, params) if node.methods else None

    def _build_below(self, path: str) -> None:
        for one in tuple(self._deferred):
            if _is_below(path, one.prefix):
                self._build(one)

    def _build(self, deferred: DeferredRoutes) -> None:
        self._add_all(deferred.build(self))
        self._deferred.remove(deferred)

    def _add_all(self, routes: Iterable[Route]) -> None:
        for route in routes:
            self._add(route)
            self._routes.append(route)

    def _add(self, route: Route) -> None:
        node = self._root
        for segment in route.path.split("/")[1:]:
            if segment.startswith("{"):
                node.wildcard = node.wildcard or _Node(parameter=segment[1:-1])
                node = node.wildcard
                if node.parameter != segment[1:-1]:
                    raise ValueError(
                        f"{route.path}: {segment} is named {{{node.parameter}}} in other routes"
                    )
            else:
                node = node.children.setdefault(segment, _Node())
        if route.method in node.methods:
            raise ValueError(f"two routes for {route.method} {route.path}")
        node.methods[route.method] = route
        node.takes_rest = node.takes_rest or route.takes_slashes


def _is_below(path: str, prefix: str) -> bool:
    """Tell whether a path, perhaps with a query, is ``prefix`` or below it."""
    return path.startswith(prefix) and path[len(prefix) : len(prefix) + 1] in ("", "/", "?")
