"""``/api/me``: the browser preferences of the signed-in person."""

import asyncio
from typing import Protocol

from msgspec import Struct

from agentd.core.errors import BadRequest, Conflict, Forbidden, Unavailable
from agentd.core.events import EventBus
from agentd.http.access import Caller, Role, RouteGroup
from agentd.http.request import Request, Response
from agentd.http.routing import Route
from agentd.ui.preference_events import MeUpdate, MeUpdateView
from agentd.ui.preferences import Id, LookName, LookValue, PreferenceChange, Preferences

MAX_BODY = 512 * 1024


class MeView(Struct, frozen=True):
    """A person and the person's preferences, the same on every device."""

    user: str
    role: Role
    seen: dict[Id, Id]
    """The number of messages the person has seen, by chat."""
    pins: tuple[Id, ...]
    """The pinned chats, in order."""
    look: dict[LookName, LookValue]
    """Settings of the look, such as theme: dark; the names are the interface's own."""


class PreferenceStore(Protocol):
    """The storage of preferences (``ui.preference_store.PreferenceFiles``). Both methods block."""

    def read(self, person: str) -> Preferences:
        """Return a person's preferences; ``Conflict`` for a broken file."""
        ...

    def change(self, person: str, change: PreferenceChange) -> Preferences:
        """Merge a change; durable when it returns."""
        ...


class PreferenceEndpoints:
    """The endpoints."""

    def __init__(self, store: PreferenceStore, bus: EventBus) -> None:
        self._store = store
        self._bus = bus
        self._lock = asyncio.Lock()

    async def get_me(self, request: Request) -> Response:
        """Return the signed-in user and the preferences; a key has none."""
        caller = request.caller
        if caller.kind != "user":
            return _respond(caller, Preferences())
        async with self._lock:
            found = await asyncio.to_thread(self._store.read, caller.name)
        return _respond(caller, found)

    async def change_me(self, request: Request) -> Response:
        """Merge a change into the preferences."""
        change = request.parse_json(PreferenceChange)
        person = _require_person(request.caller)
        async with self._lock:
            found = await asyncio.to_thread(self._store.change, person, change)
            seen = {chat: found.seen[chat] for chat in change.seen if chat in found.seen}
            view = MeUpdateView(seen, change.unseen, found.pins, found.look)
            self._bus.publish(MeUpdate(person, view))
        return _respond(request.caller, found)


def _require_person(caller: Caller) -> str:
    if caller.kind != "user":
        raise Forbidden("Only users have preferences", "Sign in instead of sending an API key.")
    return caller.name


def _respond(caller: Caller, found: Preferences) -> Response:
    return Response(MeView(caller.name, caller.role, found.seen, found.pins, found.look))


def routes(endpoints: PreferenceEndpoints) -> tuple[Route, ...]:
    """Return the routes; viewers too keep what they have seen."""
    return (
        Route(
            "GET",
            "/api/me",
            RouteGroup.EXTENDED,
            endpoints.get_me,
            "Get the caller and the preferences stored for a user.",
            operation_id="get_me",
            response_type=MeView,
            errors=(Conflict, Unavailable),
        ),
        Route(
            "PUT",
            "/api/me",
            RouteGroup.EXTENDED,
            endpoints.change_me,
            "Change preferences of the user; they are merged with the stored ones.",
            operation_id="change_me",
            request_type=PreferenceChange,
            example={"seen": {"7": 120}, "pin": [7], "look": {"theme": "dark"}},
            response_type=MeView,
            errors=(BadRequest, Conflict, Forbidden, Unavailable),
            role="viewer",
            max_body=MAX_BODY,
        ),
    )
