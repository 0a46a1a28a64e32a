"""Calls the daemon's own endpoints as a request over HTTP would: one rule for both."""

import asyncio
from collections.abc import Iterable, Mapping
from contextlib import aclosing
from typing import Any, cast
from urllib.parse import quote, urlencode

from msgspec.structs import replace

from agentd.core.errors import TooLarge
from agentd.http.access import SAFE_METHODS
from agentd.http.json_body import encode_json
from agentd.http.request import Request, Response
from agentd.http.routing import Route, check_permission

MAX_ANSWER_BYTES = 8 * 1024 * 1024


class RouteCaller:
    """The routes that can be called, by method and path."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self._routes = {(route.method, route.path): route for route in routes}
        self._running: set[asyncio.Task[bytes]] = set()

    def get_route(self, method: str, path: str) -> Route:
        """Return a route, which must exist."""
        return self._routes[method, path]

    async def call(
        self,
        request: Request,
        route: Route,
        path_params: Mapping[str, str],
        query: Mapping[str, str] | None = None,
        body: Mapping[str, object] | None = None,
    ) -> bytes:
        """Return the body of a route's answer to the caller of ``request``.

        Raises what the endpoint raises, and ``Forbidden`` if the caller may not call it.
        What changes something is finished even if the caller leaves.
        """
        check_permission(request.caller, route)
        path = route.path
        for name, value in path_params.items():
            path = path.replace(f"{{{name}}}", quote(value, safe=""))
        asked = replace(
            request,
            method=route.method,
            path=path,
            path_params={name: quote(value, safe="") for name, value in path_params.items()},
            query_string=urlencode(query or {}),
            body=b"" if body is None else encode_json(body),
        )
        if route.method in SAFE_METHODS:
            return await _answer(route, asked)
        task = asyncio.get_running_loop().create_task(_answer(route, asked))
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return await asyncio.shield(task)


async def _answer(route: Route, asked: Request) -> bytes:
    found = route.endpoint(asked)
    response = found if isinstance(found, Response) else await found
    if response.chunks is None:
        body: Any = response.body
        return body if isinstance(body, bytes) else b"" if body is None else encode_json(body)
    data = bytearray()
    async with aclosing(cast(Any, response.chunks)):
        async for chunk in response.chunks:
            data += chunk
            if len(data) > MAX_ANSWER_BYTES:
                raise TooLarge("The answer is too large", "Ask for a part of it.")
    return bytes(data)
