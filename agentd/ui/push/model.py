"""Push notifications: who is subscribed, what is told, and in which words."""

import base64
import binascii
from typing import Annotated, Literal, TypeAlias

from msgspec import Meta, Struct

from agentd.chats.approval import Approval, ApprovalKind
from agentd.chats.model import strip_buttons
from agentd.chats.state import ChatSummary
from agentd.core.clock import Timestamp, parse_iso
from agentd.core.markdown import strip_markdown

MAX_ENDPOINT = 1000
"""Characters of the address of a subscription; those of the large services have 100 to 400."""
MAX_TITLE, MAX_BODY = 120, 300
"""Characters of a notification: phones show fewer, and a payload may have 4,096 bytes."""
MAX_SUBSCRIPTIONS = 1000
"""Subscriptions of all logins together."""

_POINT_BYTES, _SECRET_BYTES, _PRIVATE_KEY_BYTES = 65, 16, 32
_TURN_TTL = 24 * 3600
"""Seconds for which a push service keeps the notification of a finished turn for a phone."""

Base64Url: TypeAlias = Annotated[str, Meta(pattern="^[A-Za-z0-9_-]+={0,2}$", max_length=200)]

_TITLES: dict[ApprovalKind, str] = {
    "shell": "Run this command?",
    "write": "Change a file of the workspace?",
    "outside": "Change a file outside the workspace?",
    "read": "Read this file?",
    "network": "Open this address?",
    "question": "The agent asks you",
    "budget": "Spend more than the limit?",
}


class PushSubscription(Struct, frozen=True):
    """A browser that wants to be notified. The login is named by its id, which opens nothing."""

    session: str
    user: str
    endpoint: str
    """The address of the push service; whoever has it can send notifications."""
    p256dh: str
    """The browser's public key: an uncompressed P-256 point, base64url."""
    auth: str
    """The browser's authentication secret: 16 bytes, base64url."""
    created: Timestamp


class PushNotice(Struct, frozen=True, rename="camel", omit_defaults=True):
    """A notification as the service worker receives it, encrypted on the way."""

    kind: Literal["question", "turn"]
    chat_id: int
    id: int
    """The question's id; of a finished turn, the number of messages in the chat."""
    title: str
    body: str
    answerable: bool = False
    """True if the person may answer with Allow or Deny, which it asks for, and sees all of it."""


class PushDelivery(Struct, frozen=True):
    """A notice, and how a push service shall deliver it."""

    notice: PushNotice
    ttl: int
    """Seconds for which the service keeps it while the device cannot be reached."""
    urgency: Literal["high", "normal"]
    topic: str
    """A later delivery of the same topic replaces one that the service still has."""


def build_question_delivery(chat: ChatSummary, asked: Approval, now: Timestamp) -> PushDelivery:
    """Return the notification of an open question; it is worthless after the deadline."""
    left = (parse_iso(asked.deadline) - parse_iso(now)).total_seconds() if asked.deadline else 0
    ttl = max(0, int(left)) if asked.deadline else _TURN_TTL
    title = _TITLES.get(asked.kind, f"Use {asked.tool or 'this tool'}?")
    body = f"{title}\n{_shorten(asked.subject, MAX_BODY)}"
    # Nobody decides about what is cut off, or about lines that look like one.
    is_whole = len(asked.subject) <= MAX_BODY and asked.subject.isprintable()
    answerable = is_whole and asked.kind != "question"
    notice = PushNotice("question", chat.id, asked.id, _make_title(chat), body, answerable)
    return PushDelivery(notice, ttl, "high", f"q{chat.id}-{asked.id}")


def build_turn_delivery(chat: ChatSummary, reply: str) -> PushDelivery:
    """Return the notification of a chat's end of work; ``reply`` is the agent's last message."""
    if chat.outcome == "completed":
        body = _shorten(strip_markdown(strip_buttons(reply)), MAX_BODY) or "The agent has finished."
    else:
        body = f"The agent could not finish. {_shorten(reply, MAX_BODY)}".strip()
    notice = PushNotice("turn", chat.id, chat.messages, _make_title(chat), body)
    return PushDelivery(notice, _TURN_TTL, "normal", f"t{chat.id}")


def has_finished(chat: ChatSummary) -> bool:
    """Return whether the end of a turn is worth telling: nothing follows, and nobody stopped it.

    A queue that waits because of a question is told by the question.
    """
    rests = chat.is_idle_at(chat.updated_at) and not chat.asking
    return rests and chat.outcome in ("completed", "failed")


def check_browser_keys(p256dh: str, auth: str) -> None:
    """Raise ``ValueError`` unless the keys have the lengths that browsers give them."""
    point, secret = decode_base64url(p256dh), decode_base64url(auth)
    if len(point) != _POINT_BYTES or point[0] != 4:
        raise ValueError("p256dh is no uncompressed point of the curve P-256")
    if len(secret) != _SECRET_BYTES:
        raise ValueError(f"auth has {len(secret)} bytes; it must have {_SECRET_BYTES}")


def check_private_key(key: str) -> None:
    """Raise ``ValueError`` unless the key that signs notifications has its 32 bytes."""
    size = len(decode_base64url(key))
    if size != _PRIVATE_KEY_BYTES:
        raise ValueError(f"key has {size} bytes; it must have {_PRIVATE_KEY_BYTES}")


def decode_base64url(text: str) -> bytes:
    """Return the bytes of a base64url text, with or without padding; ``ValueError`` if none."""
    try:
        bare = text.rstrip("=")
        return base64.b64decode(bare + "=" * (-len(bare) % 4), altchars=b"-_", validate=True)
    except binascii.Error as error:
        raise ValueError("it is not base64url") from error


def encode_base64url(data: bytes) -> str:
    """Return bytes as base64url without padding."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _make_title(chat: ChatSummary) -> str:
    return _shorten(chat.title, MAX_TITLE) or f"Chat {chat.id}"


def _shorten(text: str, length: int) -> str:
    """Return the text on one line, shortened."""
    line = " ".join(text[: length * 10].split())
    return line if len(line) <= length else f"{line[: length - 1]}…"
