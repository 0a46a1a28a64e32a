"""What a messenger is to us: who said what where, and how to say something back."""

from collections.abc import Sequence
from typing import Literal, Protocol, TypeAlias

from msgspec import Struct


class Attachment(Struct, frozen=True):
    """A file that came with a message; it is fetched by its ``id``."""

    id: str
    kind: Literal["voice", "photo"]
    name: str
    """A file name of ours, such as ``voice.ogg``."""
    size: int = 0
    """In bytes; 0 when it was not told."""


class Incoming(Struct, frozen=True):
    """One update: a message, or a button that was pressed. Without ``user`` it is neither."""

    update: int
    """Rises; an update is handled once."""
    chat: int = 0
    """The conversation at the messenger."""
    user: int = 0
    text: str = ""
    attachment: Attachment | None = None
    press: str = ""
    """Of a pressed button: what names the press, to acknowledge it ..."""
    data: str = ""
    """... and what the button carries."""


class Account(Struct, frozen=True):
    """Who the bot is at the messenger."""

    id: int
    name: str


class Key(Struct, frozen=True):
    """A button below a message: ``data`` comes back when it is pressed, at most 64 bytes."""

    label: str
    data: str


Keyboard: TypeAlias = tuple[tuple[Key, ...], ...]
"""The buttons, row by row."""


class Messenger(Protocol):
    """A bot's own connection to its messenger (``outside.telegram``).

    Everything may raise: ``Unauthorized`` (the token is not taken), ``Conflict`` (another
    program polls for this bot), ``LimitReached`` (wait so long), ``Unavailable`` (no network, or
    an answer that is none). No error tells the token.
    """

    async def connect(self) -> Account:
        """Make sure of the token."""
        ...

    async def updates(self, offset: int, seconds: int) -> Sequence[Incoming]:
        """The updates from ``offset`` on, waited for so long; 0: all that wait.

        Those before it are acknowledged: they are never told again.
        """
        ...

    async def send(self, chat: int, text: str, keyboard: Keyboard, *, html: bool) -> None:
        """Say something. Also ``BadRequest`` (it cannot be shown) and ``Forbidden`` (unwanted)."""
        ...

    async def acknowledge(self, press: str, text: str) -> None:
        """Answer a pressed button with a short note; one that is too old is passed over."""
        ...

    async def typing(self, chat: int) -> None:
        """Show for some seconds that an answer is being made."""
        ...

    async def fetch(self, attachment: Attachment) -> bytes:
        """A file's content. Also ``NotFound`` and ``TooLarge``."""
        ...

    async def close(self) -> None:
        """Hang up."""
        ...
