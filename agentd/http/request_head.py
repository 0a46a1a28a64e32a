"""The head of a request: its route and its caller."""

from difflib import get_close_matches
from functools import partial
from urllib.parse import parse_qs

from tornado.httputil import HTTPHeaders, RequestStartLine

from agentd.core.errors import (
    BadRequest,
    MethodNotAllowed,
    RouteNotFound,
    UnsupportedMedia,
    WrongHost,
    suggest_name,
)
from agentd.http.access import ANONYMOUS, Caller, Credentials, RouteGroup
from agentd.http.context import ServerContext
from agentd.http.cookies import NO_TOKEN, check_csrf
from agentd.http.errors import BEARER_CHALLENGE, KEY_CHALLENGE
from agentd.http.request import Request
from agentd.http.routing import (
    HUB_PATH,
    STRICT_QUERY_GROUPS,
    ErrorRenderer,
    Route,
    check_permission,
)

_ACCESS_KEYS = ("X-Api-Key", "X-Goog-Api-Key", "Api-Key")
"""The headers in which clients of model APIs send their key, beside ``Authorization: Bearer``."""


class RequestHead:
    """The head of a request; ``caller_name`` is empty until the caller is authenticated.

    ``route`` is the one of path and method; if the path has no such method, any of its routes, and
    None if there is no such path.
    """

    def __init__(
        self,
        context: ServerContext,
        start_line: RequestStartLine,
        headers: HTTPHeaders,
        remote_ip: str,
    ) -> None:
        self.start_line = start_line
        self.headers = headers
        self.has_body = "Content-Length" in headers or "Transfer-Encoding" in headers
        """True if a body is announced, even an empty one."""
        self.method = start_line.method
        path, _, self.query = start_line.path.partition("?")
        self.path = normalize_hub_path(path)
        self.remote_ip = remote_ip
        self.is_https = False
        """True if a trusted proxy says that the client uses https."""
        self.caller_name = ""
        self._caller = ANONYMOUS
        self._context = context
        self._match = context.table.find(self.path)
        self.route = self._find_route()
        self.group = self.route.group if self.route else get_route_group(self.path)
        self._login = (
            NO_TOKEN
            if self.group is RouteGroup.MODELS
            else context.session_cookie.read_token(headers)
        )
        self._credentials = Credentials()

    @property
    def has_key(self) -> bool:
        """True if the request has a key, valid or not, where its route group expects one."""
        sent = self._credentials
        return any(key is not None for key in (sent.header, sent.query, sent.access))

    @property
    def error_renderer(self) -> ErrorRenderer | None:
        """The renderer of this request's errors; None: ``ErrorBody``."""
        renderer = (
            self.route.error_renderer
            if self.route
            else self._context.table.fallback_error_renderer(self.path)
        )
        return renderer.select(self.headers, self.query) if renderer else None

    @property
    def challenge(self) -> str:
        """How this request's client is told to authenticate."""
        takes_bearer = self.route is not None and self.route.takes_bearer_key
        return BEARER_CHALLENGE if takes_bearer else KEY_CHALLENGE

    @property
    def content_length(self) -> int:
        """The announced length of the body in bytes; 0 when it is not announced."""
        value = self.headers.get("Content-Length", "0")
        return int(value[:16]) if value.isdecimal() else 0

    @property
    def is_poll(self) -> bool:
        """True if it is a long poll of the hub, or a server-sent events stream of it."""
        return self.path == HUB_PATH and self.method == "GET" and "Upgrade" not in self.headers

    async def ensure_current(self) -> None:
        """Return once the last edits of keys and logins are in effect at the gate."""
        if self.group is RouteGroup.MODELS:
            await self._context.access_keys.ensure_current()
            return
        await self._context.keys.ensure_current()
        if self.group is RouteGroup.MANAGE and "X-API-Key" in self.headers:
            await self._context.management_keys.ensure_current()
        if self._login.token:
            await self._context.sessions.ensure_current()

    def admit(self, request_id: str) -> tuple[Route, Request]:
        """Check host, authentication, path, method, role and query; return route and request.

        Raises the error of the first check that fails.
        """
        context = self._context
        if not context.hosts.serves(self.headers.get("Host", "")):
            raise WrongHost(
                "This daemon does not answer to that host name",
                "If the name is yours, add it to 'hosts' in agentd.yml.",
            )
        found = self._match
        self._credentials = self._read_credentials()
        caller = self.authenticate()
        if caller.kind == "user" and self._login.by_cookie:
            check_csrf(self.method, self.headers, self._login.token or "")
        if found is None:
            raise self._build_not_found()
        route = found.find_route(self.method)
        if route is None:
            allowed = ", ".join(found.allowed_methods)
            raise MethodNotAllowed(
                f"{self.method} is not allowed here; allowed: {allowed}", found.allowed_methods
            )
        self.check_permission(route)
        if self.query and route.group in STRICT_QUERY_GROUPS and not self.path.startswith(HUB_PATH):
            _check_query_names(route, self.query)
        return route, Request(
            method=self.method,
            path=self.path,
            query_string=self.query,
            path_params=found.path_params,
            headers=self.headers,
            caller=caller,
            remote_ip=self.remote_ip,
            request_id=request_id,
            is_https=self.is_https,
            confirm_caller=partial(self._confirm_caller, route),
        )

    async def _confirm_caller(self, route: Route) -> None:
        await self.ensure_current()
        self.authenticate()
        self.check_permission(route)

    def authenticate(self) -> Caller:
        """Return the caller by the keys and logins of this moment; raises as the gate does.

        To be called again after every wait, since a key may have been revoked meanwhile.
        """
        self._caller = self._context.gate.authenticate(self.group, self._credentials)
        self.caller_name = self._caller.identity
        return self._caller

    def check_permission(self, route: Route) -> None:
        """Raise ``Forbidden`` if the caller of the last ``authenticate`` may not call the route."""
        check_permission(self._caller, route)

    def _build_not_found(self) -> RouteNotFound:
        """Return the error for an unknown path, with a suggestion from the same route group.

        Most misconfigured clients of model APIs have a base URL with ``/v1`` missing or doubled.
        """
        table, path = self._context.table, self.path.rstrip("/")
        without = path.removeprefix("/v1") if path.startswith("/v1/") else path
        similar = [one for one in (path, f"/v1{path}", without) if table.find(one)]
        if not similar and self.group in (RouteGroup.MODELS, RouteGroup.MANAGE):
            own = (route.path for route in table.built_routes if route.group is self.group)
            similar = get_close_matches(path[:200], [one for one in own if "{" not in one], 1)
        suggestion = f'; did you mean "{similar[0][:200]}"?' if similar else ""
        index = "/api/agent" if self.group is RouteGroup.MANAGE else "/api/openapi.json"
        return RouteNotFound(
            f"There is no such route{suggestion}", f"GET {index} lists all routes."
        )

    def _find_route(self) -> Route | None:
        found = self._match
        if found is None:
            return None
        return found.find_route(self.method) or next(iter(found.methods.values()))

    def _read_credentials(self) -> Credentials:
        if self.group is RouteGroup.MODELS:
            return Credentials(
                access=_read_access_key(self.headers, self.query), address=self.remote_ip
            )
        query = _read_query_key(self.query, "api_key") if self.group is RouteGroup.LIVE else None
        header = self.headers.get("X-API-Key")
        takes_bearer = self.route is not None and self.route.takes_bearer_key
        if header is None and takes_bearer and not self._login.by_cookie:
            header = self._login.token
        return Credentials(header, query, self._login.token)

    def check_content_type(self, route: Route) -> None:
        """Raise ``UnsupportedMedia`` for a body of another type than the route takes.

        A compressed body is refused too, except on routes that take the bytes themselves.
        Content-Type may be omitted only with an API key: pages of other origins can post without
        one (CSRF).
        """
        if route.upload:
            kind = self.headers.get("Content-Type", "").partition(";")[0].strip().lower()
            if self.has_body and not route.upload.accepts(kind):
                raise UnsupportedMedia(
                    "The Content-Type of the body is not supported here",
                    f"Send Content-Type: {' or '.join(route.upload.media_types)}.",
                )
        if route.request_type is None:
            return
        if self.headers.get("Content-Encoding", "").strip().lower() not in ("", "identity"):
            raise UnsupportedMedia(
                "A compressed body is not supported here", "Send it without Content-Encoding."
            )
        default = "application/json" if self._caller.kind == "key" else ""
        kind, _, options = self.headers.get("Content-Type", default).partition(";")
        charset = options.strip().lower().removeprefix("charset=").strip('"')
        if kind.strip().lower() != "application/json" or charset not in ("", "utf-8"):
            raise UnsupportedMedia(
                "The body must be JSON in UTF-8", "Send Content-Type: application/json."
            )


def normalize_hub_path(path: str) -> str:
    """Return the hub's own spelling of a path, whatever its case and with or without a slash."""
    lower = path.lower().rstrip("/")
    if lower == HUB_PATH.lower():
        return HUB_PATH
    return f"{HUB_PATH}/negotiate" if lower == f"{HUB_PATH}/negotiate".lower() else path


def _read_query_key(query: str, name: str) -> str | None:
    """Return the key in a query (specification, section 5.2).

    Sent twice, the values are joined by a comma, which no key contains: it is invalid then.
    """
    values = _parse_query(query).get(name) if query else None
    return None if values is None else ",".join(values)


def _parse_query(query: str) -> dict[str, list[str]]:
    try:
        return parse_qs(query, keep_blank_values=True, max_num_fields=100)
    except ValueError as error:
        raise BadRequest("The query has too many parameters") from error


def _check_query_names(route: Route, query: str) -> None:
    """Raise ``BadRequest`` for a parameter that the route does not have.

    A mistyped ``dry_run`` would change something, and a mistyped filter would list everything.
    """
    known = [one.name for one in route.parameters if one.location == "query"]
    unknown = [name for name in _parse_query(query) if name not in known]
    if known and unknown:
        suggestion = suggest_name(unknown[0], known)
        raise BadRequest(f'Unknown query parameter "{unknown[0][:40]}"{suggestion}')


def _read_access_key(headers: HTTPHeaders, query: str) -> str | None:
    """Return the access key from any place where clients of model APIs put it.

    Two different keys are joined by a comma, which no key contains: they are invalid then.
    """
    kind, _, bearer = headers.get("Authorization", "").partition(" ")
    sent = {bearer.strip()} if kind.lower() == "bearer" else set()
    sent |= {headers[name].strip() for name in _ACCESS_KEYS if name in headers}
    if (in_query := _read_query_key(query, "key")) is not None:  # Gemini's clients
        sent.add(in_query)
    return ",".join(sent) if sent else None


def get_route_group(path: str) -> RouteGroup:
    """Return the group whose rules apply to a path without a route."""
    if path == "/api/remote" or path.startswith("/api/remote/"):
        return RouteGroup.REMOTE
    if path == HUB_PATH or path.startswith(f"{HUB_PATH}/"):
        return RouteGroup.LIVE
    if path.startswith(("/v1/", "/v1beta/")):
        return RouteGroup.MODELS
    if path == "/api/agent" or path.startswith("/api/agent/"):
        return RouteGroup.MANAGE
    if path == "/api" or path.startswith("/api/"):
        return RouteGroup.EXTENDED
    return RouteGroup.PUBLIC
