"""Wires push notifications: their file, their client for push services, and their endpoints."""

from collections.abc import Callable
from typing import Self

from agentd.app.auth import AuthServices
from agentd.chats.state import ChatSummary
from agentd.core.clock import Clock
from agentd.core.events import EventBus
from agentd.http.routing import Route
from agentd.llm.upstream.client import HttpUpstream
from agentd.llm.upstream.dial import dial_directly
from agentd.storage.layout import Layout
from agentd.ui.push import api as push_api
from agentd.ui.push.api import PushEndpoints
from agentd.ui.push.service import PushService
from agentd.ui.push.store import PushFile


class PushComponent:
    """Sends notifications for as long as its block lasts."""

    def __init__(
        self,
        layout: Layout,
        auth: AuthServices,
        get_summary: Callable[[int], ChatSummary],
        clock: Clock,
        bus: EventBus,
    ) -> None:
        self._auth = auth
        self._bus = bus
        self._upstream = create_push_client()
        self._service = PushService(
            PushFile(layout), auth.sessions, get_summary, clock, self._upstream
        )
        self.rows: tuple[Route, ...] = push_api.routes(PushEndpoints(self._service))
        """The routes of push notifications."""

    async def __aenter__(self) -> Self:
        """Read the file and follow the events."""
        await self._service.start(self._bus)
        self._auth.on_sessions_end.append(self._service.end_logins)
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop sending."""
        await self._service.stop()
        await self._upstream.close()


def create_push_client() -> HttpUpstream:
    """Return the client for push services, which are public hosts only."""
    return HttpUpstream(dial=dial_directly(local=False))
