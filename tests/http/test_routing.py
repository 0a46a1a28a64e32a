"""The table of routes: deferred ones are built once, when the first of them is needed."""

import pytest
from msgspec import structs

from agentd.http.access import RouteGroup
from agentd.http.request import Request, Response
from agentd.http.routing import DeferredRoutes, Route, RouteTable


def answer(_: Request) -> Response:
    """Answer nothing."""
    return Response()


def make_route(path: str) -> Route:
    return Route("GET", path, RouteGroup.EXTENDED, answer, "A route.")


class Builder:
    """Builds deferred routes, and counts how often."""

    def __init__(self, *paths: str) -> None:
        self.paths = paths
        self.built = 0

    def build(self, table: RouteTable) -> tuple[Route, ...]:
        self.built += 1
        return tuple(make_route(path) for path in self.paths)


@pytest.fixture
def builder() -> Builder:
    return Builder("/api/agent", "/api/agent/keys/{name}")


@pytest.fixture
def table(builder: Builder) -> RouteTable:
    return RouteTable(
        [make_route("/api/chats"), make_route("/api/agents")],
        deferred=[DeferredRoutes("/api/agent", ("json",), builder.build)],
    )


@pytest.mark.parametrize("path", ["/api/chats", "/api/agents", "/api/none", "/", "/api"])
def test_other_paths_build_no_deferred_routes(
    table: RouteTable, builder: Builder, path: str
) -> None:
    table.find(path)
    assert builder.built == 0


@pytest.mark.parametrize("path", ["/api/agent", "/api/agent/keys/ann"])
def test_a_path_below_the_prefix_builds_them_once(
    table: RouteTable, builder: Builder, path: str
) -> None:
    assert table.find(path)
    assert table.find("/api/agent/none") is None
    assert table.find(path)
    assert builder.built == 1


def test_all_routes_include_the_deferred_ones(table: RouteTable, builder: Builder) -> None:
    paths = ["/api/chats", "/api/agents", *builder.paths]
    assert [route.path for route in table.routes] == paths
    assert [route.path for route in table.routes] == paths
    assert builder.built == 1


def test_deferred_routes_that_cannot_be_built_are_tried_again() -> None:
    failures = [ValueError("not yet")]

    def build(table: RouteTable) -> tuple[Route, ...]:
        if failures:
            raise failures.pop()
        return (make_route("/mcp"),)

    table = RouteTable([], deferred=[DeferredRoutes("/mcp", ("json",), build)])
    with pytest.raises(ValueError, match="not yet"):
        table.find("/mcp")
    assert table.find("/mcp")


def test_the_last_parameter_takes_slashes_only_where_its_route_says_so() -> None:
    named = structs.replace(make_route("/v1/models/{name}"), takes_slashes=True)
    table = RouteTable([make_route("/v1/models"), named, make_route("/v1/files/{name}")])
    for name in ("one", "one/two", "one/two%2F3:four/"):
        found = table.find(f"/v1/models/{name}")
        assert found and found.find_route("GET") == named
        assert found.path_params == {"name": name}
    for path in ("/v1/models/", "/v1/models//one", "/v1/files/one/two", "/v1/files/"):
        assert table.find(path) is None
