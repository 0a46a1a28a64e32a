"""Clients and lines of one's own for each test; all of them end with it."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from typing import Any

import pytest

from tests.live.hub.support import HUB, ListeningClient, Socket, Wire, explain_missing
from tests.support.daemon import KEY, PATIENCE, Serving

Listen = Callable[..., ListeningClient]
Dial = Callable[..., Socket]


@pytest.fixture(autouse=True)
def _unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client on a slow machine is not taken for one that comes no more, or that hears nothing."""
    for name in ("HANDSHAKE_WITHIN", "SEQUENCE_WITHIN", "SILENCE"):
        monkeypatch.setattr(f"agentd.live.signalr.session.{name}", 2 * PATIENCE)
    for name in ("CONNECT_WITHIN", "RECONNECT_WITHIN", "SLOW_CLIENT_SECONDS"):
        monkeypatch.setattr(f"agentd.live.signalr.connection.{name}", 2 * PATIENCE)


@pytest.fixture
def listen(daemon: Serving) -> Iterator[Listen]:
    """Start real clients of the daemon, or of what stands at another ``url``."""
    with ExitStack() as stack:

        def start(client: str, *, key: str = KEY, url: str = "", **wish: Any) -> ListeningClient:
            if why := explain_missing(client):
                pytest.skip(why)
            address = f"{url or daemon.url}{HUB}?api_key={key}"
            return stack.enter_context(closing(ListeningClient(client, address, **wish)))

        yield start


@pytest.fixture
def wire(daemon: Serving) -> Iterator[Wire]:
    """A line to the daemon that can be cut."""
    with closing(Wire(daemon.port)) as made:
        yield made


@pytest.fixture
def dial(daemon: Serving) -> Iterator[Dial]:
    """Open WebSockets by hand."""
    with ExitStack() as stack:

        def open_one(query: str = "", *headers: str, key: str = KEY, **more: Any) -> Socket:
            asked = f"api_key={key}&{query}".rstrip("&")
            return stack.enter_context(Socket(daemon.port, asked, *headers, **more))

        yield open_one
