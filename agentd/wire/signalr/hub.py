"""The hub's methods: ``Subscribe(chatIds, sinceSeq?, life?)`` and ``Unsubscribe(chatIds)``.

``chatIds`` is a list, or ``"all"``; ``sinceSeq`` and ``life`` are those of the last ``chatUpdate``.
A connection that calls neither gets every event. The first list of chats narrows it to these,
further lists add to them, ``"all"`` widens it again. Events that concern no chat always come.
"""

from typing import Any, TypeAlias

from msgspec import Struct

from agentd.errors import BadRequest
from agentd.wire.signalr.messages import Call

CHATS_LIMIT = 10_000
"""The chats that one connection may name."""

LARGEST = 2**53 - 1
"""The largest integer that every client can hold."""

Chats: TypeAlias = frozenset[int] | None
"""Chats by id; None is all of them."""


class Subscribe(Struct, frozen=True):
    """The client wants events of these chats too; with ``since``, also what came after that seq.

    ``life`` is that of the daemon that told it; empty when the client does not say.
    """

    chats: Chats
    since: int | None = None
    life: str = ""


class Unsubscribe(Struct, frozen=True):
    """The client wants no more events of these chats."""

    chats: Chats


Command: TypeAlias = Subscribe | Unsubscribe


def command(call: Call) -> Command:
    """What a call asks for.

    Raises ``BadRequest``, whose message is the error of its Completion: no such method, or
    arguments of another form.
    """
    name = call.target if isinstance(call.target, str) else ""
    method = name.lower()
    if method not in ("subscribe", "unsubscribe"):
        raise BadRequest(f"Unknown hub method '{name[:80]}'")
    if call.stream:
        raise BadRequest(f"{method.capitalize()} is to be invoked, it is no stream")
    arguments = call.arguments
    most = 3 if method == "subscribe" else 1
    if not isinstance(arguments, list) or not 1 <= len(arguments) <= most:
        raise BadRequest(
            'Expected Subscribe(chatIds | "all", sinceSeq?, life?), Unsubscribe(chatIds | "all")'
        )
    if method == "unsubscribe":
        return Unsubscribe(_chats(arguments[0]))
    chats, since, life = [*arguments, None, None][:3]
    return Subscribe(_chats(chats), _since(since), _life(life))


class Subscription:
    """The chats of which one connection gets the events."""

    def __init__(self) -> None:
        self._chats: Chats = None

    def wants(self, chat: int | None) -> bool:
        """Whether an event of this chat (None: of no chat) goes to this connection."""
        return chat is None or self._chats is None or chat in self._chats

    def change(self, wish: Command) -> None:
        """Carry out a command; raises ``BadRequest``, and changes nothing, when it cannot be."""
        match wish:
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


def _chats(given: Any) -> Chats:
    if given == "all":
        return None
    if not isinstance(given, list) or not all(_is_number(chat, 1) for chat in given):
        raise BadRequest('chatIds is a list of positive integers, or "all"')
    return frozenset(given)


def _since(given: Any) -> int | None:
    if given is not None and not _is_number(given, 0):
        raise BadRequest("sinceSeq is an integer from 0")
    return int(given) if given is not None else None


def _life(given: Any) -> str:
    if given is not None and not isinstance(given, str):
        raise BadRequest("life is a text, as chatUpdate tells it")
    return given or ""


def _is_number(given: Any, least: int) -> bool:
    return type(given) is int and least <= given <= LARGEST
