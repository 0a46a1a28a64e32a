"""The preferences of each person in the browser: read marks, pins, and appearance.

Changes say what is different, never how all should be, and merge: two tabs or two devices that
change something at the same time lose nothing of each other's.
"""

from typing import Annotated, TypeAlias

from msgspec import Meta, Struct

from agentd.core.ids import MAX_ID

_ID_NAMES = {"propertyNames": {"pattern": "^[1-9][0-9]{0,14}$"}}
"""The schema of the names in a map by identifiers, which msgspec leaves out."""
MAX_SEEN = 10_000
"""Chats whose seen messages are counted; those with the fewest go first."""
MAX_PINS = 200
MAX_LOOK = 40
"""Settings of the look."""

Id: TypeAlias = Annotated[int, Meta(ge=1, le=MAX_ID)]
LookName: TypeAlias = Annotated[str, Meta(pattern=r"^[A-Za-z][A-Za-z0-9]{0,39}$")]
LookValue: TypeAlias = Annotated[str, Meta(max_length=200)]


class Preferences(Struct, frozen=True):
    """A person's preferences."""

    seen: dict[Id, Id] = {}
    """The number of messages the person has seen, by chat."""
    pins: tuple[Id, ...] = ()
    """The pinned chats, in order."""
    look: dict[LookName, LookValue] = {}
    """Settings of the look, such as ``theme: dark``; the names are the interface's own."""


class PreferenceChange(Struct, frozen=True):
    """The preferences to change; all others stay unchanged."""

    seen: Annotated[dict[Id, Id], Meta(max_length=MAX_SEEN, extra_json_schema=_ID_NAMES)] = {}
    """The number of seen messages by chat; the larger of two counts is kept. The user is not sent
    the push notifications of these chats that are about to be sent."""
    unseen: Annotated[tuple[Id, ...], Meta(max_length=MAX_SEEN)] = ()
    """Chats to show as not seen."""
    pin: Annotated[tuple[Id, ...], Meta(max_length=MAX_PINS)] = ()
    """Chats to pin, below those already pinned; a pinned one moves there."""
    unpin: Annotated[tuple[Id, ...], Meta(max_length=MAX_PINS)] = ()
    look: Annotated[dict[LookName, LookValue | None], Meta(max_length=MAX_LOOK)] = {}
    """Settings of the look; null removes one."""


def merge(current: Preferences, change: PreferenceChange) -> Preferences:
    """Return the preferences with a change; the same change twice is one."""
    seen = {chat: last for chat, last in current.seen.items() if chat not in change.unseen}
    for chat, last in change.seen.items():
        seen[chat] = max(seen.get(chat, 0), last)
    if len(seen) > MAX_SEEN:
        latest = sorted(seen.items(), key=lambda entry: entry[1])[-MAX_SEEN:]
        seen = dict(sorted(latest))
    moved = {*change.pin, *change.unpin}
    pins = [chat for chat in current.pins if chat not in moved]
    pins += dict.fromkeys(change.pin)
    look = current.look | change.look
    kept = {name: value for name, value in look.items() if value is not None}
    return Preferences(
        seen=seen, pins=tuple(pins[-MAX_PINS:]), look=dict(list(kept.items())[-MAX_LOOK:])
    )
