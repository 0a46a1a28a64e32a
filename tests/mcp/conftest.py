"""A daemon whose agent asks, and clients that speak the protocol by hand."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from agentd.mcp.revisions import REVISIONS
from tests.mcp.support import AskingEngine, McpHandClient
from tests.support.daemon import Serving

Connect = Callable[..., McpHandClient]


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """One daemon for all tests of a module, whose agent asks."""
    with Serving(tmp_path_factory.mktemp("daemon"), AskingEngine()) as serving:
        yield serving


@pytest.fixture
def connect(house: Serving) -> Iterator[Connect]:
    """Connect clients, each with a revision; all of them hang up with the test."""
    with ExitStack() as stack:

        def begin(revision: str, **wish: Any) -> McpHandClient:
            return stack.enter_context(McpHandClient(house, revision, **wish))

        yield begin


@pytest.fixture(params=REVISIONS)
def mcp(request: pytest.FixtureRequest, connect: Connect) -> McpHandClient:
    """A client, once in each revision."""
    return connect(request.param)
