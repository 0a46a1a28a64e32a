"""Calls of the daemon's own routes: by their roles, finished once begun, and bounded."""

import asyncio
from collections.abc import AsyncGenerator

import pytest
from tornado.httputil import HTTPHeaders

from agentd.core.errors import Forbidden, TooLarge
from agentd.http.access import Caller, Role, RouteGroup
from agentd.http.request import Request, Response
from agentd.http.routing import Route
from agentd.mcp import route_caller
from agentd.mcp.route_caller import RouteCaller
from agentd.mcp.tools import TOOLS, WAIT, ToolCatalog
from tests.auth.test_gate_matrix import EVERY

pytestmark = pytest.mark.gen_test(timeout=60)


def make_request(role: Role = "manager") -> Request:
    return Request("POST", "/mcp", "", {}, HTTPHeaders(), Caller("key", "k", role), "127.0.0.1")


class Endpoint:
    """Notes its requests, and answers once it may."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.begun = asyncio.Event()
        self.go_on = asyncio.Event()
        self.done = asyncio.Event()

    async def answer(self, request: Request) -> Response:
        self.requests.append(request)
        self.begun.set()
        await self.go_on.wait()
        self.done.set()
        return Response({"a": 1})

    def make_route(self, method: str) -> Route:
        return Route(method, "/x/{name}", RouteGroup.EXTENDED, self.answer, "An example.")


async def test_an_endpoint_sees_what_it_would_see_over_http() -> None:
    endpoint = Endpoint()
    endpoint.go_on.set()
    route = endpoint.make_route("POST")
    caller = RouteCaller([route])
    assert caller.get_route("POST", "/x/{name}") is route
    data = await caller.call(make_request(), route, {"name": "a b/c"}, {"q": "ü&"}, {"k": "v"})
    assert data == b'{"a":1}'
    (seen,) = endpoint.requests
    assert (seen.method, seen.path) == ("POST", "/x/a%20b%2Fc")
    assert seen.get_name() == "a b/c"
    assert seen.get_query("q") == "ü&"
    assert seen.body == b'{"k":"v"}'
    assert seen.caller.identity == "key:k"


async def test_a_viewer_reads_and_changes_nothing() -> None:
    endpoint = Endpoint()
    endpoint.go_on.set()
    read, change = endpoint.make_route("GET"), endpoint.make_route("POST")
    caller = RouteCaller([read, change])
    assert await caller.call(make_request("viewer"), read, {"name": "n"})
    with pytest.raises(Forbidden, match="manager"):
        await caller.call(make_request("viewer"), change, {"name": "n"})
    assert len(endpoint.requests) == 1


def test_a_viewer_is_offered_what_only_reads() -> None:
    catalog = ToolCatalog(RouteCaller(EVERY))
    offered = {one["name"] for one in catalog.list_descriptions(make_request("viewer").caller)}
    assert offered == {WAIT, *(one.name for one in TOOLS if one.method == "GET")}
    everything = {one["name"] for one in catalog.list_descriptions(make_request().caller)}
    assert everything == {WAIT, *(one.name for one in TOOLS)} == set(catalog.names)


async def test_a_change_is_finished_though_its_caller_leaves() -> None:
    endpoint = Endpoint()
    change = endpoint.make_route("POST")
    task = asyncio.create_task(RouteCaller([change]).call(make_request(), change, {"name": "n"}))
    await endpoint.begun.wait()
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()
    endpoint.go_on.set()
    await endpoint.done.wait()


async def test_an_answer_in_chunks_is_read_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    closed = []

    async def stream() -> AsyncGenerator[bytes, None]:
        try:
            yield b"a" * 10
            yield b"b" * 10
        finally:
            closed.append(1)

    route = Route(
        "GET", "/x", RouteGroup.EXTENDED, lambda _: Response(chunks=stream()), "An example."
    )
    caller = RouteCaller([route])
    assert len(await caller.call(make_request(), route, {})) == 20
    monkeypatch.setattr(route_caller, "MAX_ANSWER_BYTES", 15)
    with pytest.raises(TooLarge):
        await caller.call(make_request(), route, {})
    assert len(closed) == 2
