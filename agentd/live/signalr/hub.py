"""The hub's methods: ``Subscribe(chatIds, sinceSeq?, runId?)`` and ``Unsubscribe(chatIds)``.

``chatIds`` is a list, or ``"all"``; ``sinceSeq`` and ``runId`` are of the last ``chatUpdate``.
A connection that calls neither gets every event. The first list of chats restricts it to these,
further lists add to them, ``"all"`` lifts the restriction. Events about no chat are always sent.
"""

from typing import Any, TypeAlias

from msgspec import Struct

from agentd.core.errors import BadRequest
from agentd.live.signalr.messages import Call

CHATS_LIMIT = 10_000
"""The most chats that one connection may list."""

LARGEST = 2**53 - 1
"""The largest integer that every client can represent."""

Chats: TypeAlias = frozenset[int] | None
"""Chats by id; None is all of them."""


class Subscribe(Struct, frozen=True):
    """Send events of these chats too; with ``since``, first those after that seq.

    ``run_id`` is the run of the daemon that sent that seq; empty when the client does not say.
    """

    chats: Chats
    since: int | None = None
    run_id: str = ""


class Unsubscribe(Struct, frozen=True):
    """Stop sending events of these chats."""

    chats: Chats


HubCommand: TypeAlias = Subscribe | Unsubscribe


def parse_command(call: Call) -> HubCommand:
    """Return the command of a call.

    Raises ``BadRequest``, whose message is the error of its Completion: unknown method or invalid
    arguments.
    """
    name = call.target if isinstance(call.target, str) else ""
    method = name.lower()
    if method not in ("subscribe", "unsubscribe"):
        raise BadRequest(f"Unknown hub method '{name[:80]}'")
    if call.stream:
        raise BadRequest(f"{method.capitalize()} must be invoked, not streamed")
    arguments = call.arguments
    most = 3 if method == "subscribe" else 1
    if not isinstance(arguments, list) or not 1 <= len(arguments) <= most:
        raise BadRequest(
            'Expected Subscribe(chatIds | "all", sinceSeq?, runId?), Unsubscribe(chatIds | "all")'
        )
    if method == "unsubscribe":
        return Unsubscribe(_parse_chats(arguments[0]))
    chats, since, run_id = [*arguments, None, None][:3]
    return Subscribe(_parse_chats(chats), _parse_since(since), _parse_run_id(run_id))


class Subscription:
    """The chats whose events one connection receives."""

    def __init__(self) -> None:
        self._chats: Chats = None

    def wants(self, chat: int | None) -> bool:
        """Return whether to send an event of this chat (None: of no chat)."""
        return chat is None or self._chats is None or chat in self._chats

    def change(self, command: HubCommand) -> None:
        """Execute a command; raises ``BadRequest`` and changes nothing if that is not possible."""
        match command:
            case Subscribe(chats=None):
                self._chats = None
            case Subscribe(chats=frozenset() as chats):
                wanted = chats | (self._chats or frozenset())
                if len(wanted) > CHATS_LIMIT:
                    raise BadRequest(f'At most {CHATS_LIMIT} chats; subscribe to "all" instead')
                self._chats = wanted
            case Unsubscribe(chats=None):
                self._chats = frozenset()
            case Unsubscribe(chats=frozenset() as chats):
                if self._chats is None:
                    raise BadRequest("All chats are subscribed to: subscribe to some by id first")
                self._chats -= chats


def _parse_chats(given: Any) -> Chats:
    if given == "all":
        return None
    if not isinstance(given, list) or not all(_is_number(chat, 1) for chat in given):
        raise BadRequest('chatIds is a list of positive integers, or "all"')
    return frozenset(given)


def _parse_since(given: Any) -> int | None:
    if given is not None and not _is_number(given, 0):
        raise BadRequest("sinceSeq is an integer from 0")
    return int(given) if given is not None else None


def _parse_run_id(given: Any) -> str:
    if given is not None and not isinstance(given, str):
        raise BadRequest("runId must be a string: the runId of a chatUpdate")
    return given or ""


def _is_number(given: Any, least: int) -> bool:
    return type(given) is int and least <= given <= LARGEST
