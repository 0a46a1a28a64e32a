"""The head of a request: what is asked for, and who is asking."""

from difflib import get_close_matches
from urllib.parse import parse_qs

from tornado.httputil import HTTPHeaders, RequestStartLine

from agentd.access.gate import NOBODY, Caller, Presented, Surface
from agentd.access.login import reaches
from agentd.errors import (
    BadRequest,
    Forbidden,
    MethodNotAllowed,
    Misdirected,
    NoAddress,
    UnsupportedMedia,
    nearest,
)
from agentd.web.call import Call
from agentd.web.cookies import NO_LOGIN, check_by_cookie, login_of
from agentd.web.desk import Desk
from agentd.web.table import HUB, STRICT_QUERY, Route, Telling
from agentd.web.telling import telling_nowhere

_ACCESS_KEYS = ("X-Api-Key", "X-Goog-Api-Key", "Api-Key")
"""Where clients of models put their key, beside ``Authorization: Bearer``."""


class Head:
    """One request's head; ``by`` names the caller once the gate has let him in.

    ``row`` is the route of the path, if any: with another method, one of its others. ``surface``
    is the door that it stands before.
    """

    def __init__(
        self, desk: Desk, start_line: RequestStartLine, headers: HTTPHeaders, remote_ip: str
    ) -> None:
        self.start_line = start_line
        self.headers = headers
        self.has_body = "Content-Length" in headers or "Transfer-Encoding" in headers
        """Whether it announces a body, be it an empty one."""
        self.method = start_line.method
        path, _, self.query = start_line.path.partition("?")
        self.path = hub_path(path)
        self.remote_ip = remote_ip
        self.by_https = False
        """Whether a proxy that is trusted says that the client came by https."""
        self.by = ""
        self._caller = NOBODY
        self._desk = desk
        self._found = desk.table.find(self.path)
        self.row = self._row()
        self.surface = self.row.surface if self.row else surface_of(self.path)
        self._login = NO_LOGIN if self.surface is Surface.MODELS else login_of(headers)
        self._presented = Presented()

    @property
    def has_key(self) -> bool:
        """Whether it brought a key, good or not, where one is looked for."""
        presented = self._presented
        brought = (presented.header, presented.query, presented.access)
        return any(one is not None for one in brought)

    @property
    def telling(self) -> Telling | None:
        """How its errors are told; None: by the envelope."""
        return self.row.telling if self.row else telling_nowhere(self.path)

    @property
    def length(self) -> int:
        """The bytes of body that it announces; 0 when it does not tell."""
        told = self.headers.get("Content-Length", "0")
        return int(told[:16]) if told.isdecimal() else 0

    @property
    def polls(self) -> bool:
        """Whether it is a long poll of the hub, or a stream of it."""
        return self.path == HUB and self.method == "GET" and "Upgrade" not in self.headers

    async def fresh(self) -> None:
        """Return once the gate knows what was brought as it is now."""
        if self.surface is Surface.MODELS:
            await self._desk.access.fresh()
            return
        await self._desk.keys.fresh()
        if self._login.token:
            await self._desk.logins.fresh()

    def admit(self, request_id: str) -> tuple[Route, Call]:
        """The right host, the gate, a known path, the method, the role; raises what is wrong."""
        desk = self._desk
        if not desk.hosts.serves(self.headers.get("Host", "")):
            raise Misdirected(
                "This daemon does not answer to that host name",
                "Add it to 'hosts' in agentd.yml if it is yours.",
            )
        found = self._found
        self._presented = self._brought()
        caller = self.welcome()
        if caller.kind == "user" and self._login.by_cookie:
            check_by_cookie(self.method, self.headers, self._login.token or "")
        if found is None:
            raise self._nowhere()
        route = found.route(self.method)
        if route is None:
            told = f"{self.method} is not possible here; possible: {', '.join(found.allowed)}"
            raise MethodNotAllowed(told, found.allowed)
        if not reaches(caller.role, route.needs):
            raise Forbidden(f"This needs the role {route.needs}", f"Yours is {caller.role}.")
        if self.query and route.surface in STRICT_QUERY and not self.path.startswith(HUB):
            _refuse_stray(route, self.query)
        return route, Call(
            method=self.method,
            path=self.path,
            query_text=self.query,
            params=found.params,
            headers=self.headers,
            caller=caller,
            remote_ip=self.remote_ip,
            request_id=request_id,
            by_https=self.by_https,
        )

    def welcome(self) -> Caller:
        """Who is calling, by what is good in this turn of the loop; raises as the gate.

        To be called again when time has passed since: a key may have been revoked.
        """
        self._caller = self._desk.gate.admit(self.surface, self._presented)
        self.by = self._caller.by
        return self._caller

    def _nowhere(self) -> NoAddress:
        """That the path has no row, and which may be meant: of those of the same door.

        Most clients of models that come astray have a base address with ``/v1`` too much or too
        little.
        """
        table, path = self._desk.table, self.path.rstrip("/")
        without = path.removeprefix("/v1") if path.startswith("/v1/") else path
        meant = [one for one in (path, f"/v1{path}", without) if table.find(one)]
        if not meant and self.surface in (Surface.MODELS, Surface.MANAGE):
            own = (route.path for route in table.routes if route.surface is self.surface)
            meant = get_close_matches(path[:200], [one for one in own if "{" not in one], 1)
        near = f'; did you mean "{meant[0][:200]}"?' if meant else ""
        listed = "/api/agent" if self.surface is Surface.MANAGE else "/api/openapi.json"
        return NoAddress(f"Nothing is here{near}", f"GET {listed} lists all that is.")

    def _row(self) -> Route | None:
        found = self._found
        if found is None:
            return None
        return found.route(self.method) or next(iter(found.methods.values()))

    def _brought(self) -> Presented:
        if self.surface is Surface.MODELS:
            return Presented(access=_access_key(self.headers, self.query))
        query = _in_query(self.query, "api_key") if self.surface is Surface.LIVE else None
        return Presented(self.headers.get("X-API-Key"), query, self._login.token)

    def check_type(self, route: Route) -> None:
        """Raise ``UnsupportedMedia`` for a body of another type than the route takes.

        Only beside a key it may be left untold: pages of others can send bodies of no type.
        """
        if route.streams:
            kind = self.headers.get("Content-Type", "").partition(";")[0].strip().lower()
            if self.has_body and not route.streams.takes(kind):
                raise UnsupportedMedia(
                    "The body is of a type that is not taken here",
                    f"Send Content-Type: {' or '.join(route.streams.types)}.",
                )
        if route.takes is None:
            return
        otherwise = "application/json" if self._caller.kind == "key" else ""
        kind, _, options = self.headers.get("Content-Type", otherwise).partition(";")
        charset = options.strip().lower().removeprefix("charset=").strip('"')
        if kind.strip().lower() != "application/json" or charset not in ("", "utf-8"):
            raise UnsupportedMedia(
                "The body must be JSON in UTF-8", "Send Content-Type: application/json."
            )


def hub_path(path: str) -> str:
    """The hub's addresses are matched without case, and with a slash at the end or without."""
    lower = path.lower().rstrip("/")
    if lower == HUB.lower():
        return HUB
    return f"{HUB}/negotiate" if lower == f"{HUB}/negotiate".lower() else path


def _in_query(query: str, name: str) -> str | None:
    """The key in an address (specification, section 5.2); given twice, it is none."""
    values = _parameters(query).get(name) if query else None
    return None if values is None else ",".join(values)


def _parameters(query: str) -> dict[str, list[str]]:
    try:
        return parse_qs(query, keep_blank_values=True, max_num_fields=100)
    except ValueError as error:
        raise BadRequest("The query has too many parameters") from error


def _refuse_stray(route: Route, query: str) -> None:
    """Raise for a parameter that the route does not have.

    With a mistyped ``dry_run`` it would be done, and with a mistyped filter everything listed.
    """
    known = [one.name for one in route.parameters if one.where == "query"]
    stray = [name for name in _parameters(query) if name not in known]
    if known and stray:
        raise BadRequest(f'"{stray[0][:40]}" is no parameter here{nearest(stray[0], known)}')


def _access_key(headers: HTTPHeaders, query: str) -> str | None:
    """The key of a client of models, wherever it is; two that differ are none."""
    kind, _, bearer = headers.get("Authorization", "").partition(" ")
    brought = {bearer.strip()} if kind.lower() == "bearer" else set()
    brought |= {headers[name].strip() for name in _ACCESS_KEYS if name in headers}
    if (asked := _in_query(query, "key")) is not None:  # Gemini's clients
        brought.add(asked)
    return ",".join(brought) if brought else None


def surface_of(path: str) -> Surface:
    """Whose door stands before a path that leads nowhere."""
    if path == "/api/remote" or path.startswith("/api/remote/"):
        return Surface.REMOTE
    if path == HUB or path.startswith(f"{HUB}/"):
        return Surface.LIVE
    if path.startswith(("/v1/", "/v1beta/")):
        return Surface.MODELS
    if path == "/api/agent" or path.startswith("/api/agent/"):
        return Surface.MANAGE
    if path == "/api" or path.startswith("/api/"):
        return Surface.EXTENDED
    return Surface.PUBLIC
