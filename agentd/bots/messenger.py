"""The interface to a messenger: incoming updates, and sending messages."""

from collections.abc import Sequence
from typing import Literal, Protocol, TypeAlias

from msgspec import Struct


class Attachment(Struct, frozen=True):
    """A file that came with a message; it is fetched by its ``id``."""

    id: str
    kind: Literal["voice", "photo"]
    name: str
    """The name to store the file under, such as ``voice.ogg``."""
    size: int = 0
    """The size in bytes; 0 when unknown."""


class IncomingUpdate(Struct, frozen=True):
    """An update: a message, or a pressed button. Without ``user`` it is neither."""

    id: int
    """Rises; each update is handled once."""
    chat: int = 0
    """The conversation at the messenger."""
    user: int = 0
    text: str = ""
    attachment: Attachment | None = None
    press: str = ""
    """The id of a press of a button, to acknowledge it ..."""
    data: str = ""
    """... and what the button carries."""
    moved_to: int = 0
    """The number that the conversation has from now on, when it gets another."""


class BotAccount(Struct, frozen=True):
    """The bot's own account at the messenger."""

    id: int
    name: str


class KeyboardButton(Struct, frozen=True):
    """A button below a message: ``data`` comes back when it is pressed, at most 64 bytes."""

    label: str
    data: str


Keyboard: TypeAlias = tuple[tuple[KeyboardButton, ...], ...]
"""The buttons, row by row."""


class Messenger(Protocol):
    """A bot's own connection to its messenger (``bots.telegram``).

    Everything may raise: ``Unauthorized`` (the token is refused), ``Conflict`` (another
    program polls for this bot), ``LimitReached`` (wait), ``Unavailable`` (no network, or an
    invalid response). No error contains the token.
    """

    async def connect(self) -> BotAccount:
        """Check the token and return the account."""
        ...

    async def get_updates(self, offset: int, seconds: int) -> Sequence[IncomingUpdate]:
        """Return the updates from ``offset`` on, after at most so many seconds; 0: all pending.

        Those before it are acknowledged: the messenger never returns them again.
        """
        ...

    async def send(self, chat: int, text: str, keyboard: Keyboard, *, html: bool) -> None:
        """Send a message. Also ``BadRequest`` (invalid) and ``Forbidden`` (the user blocks it)."""
        ...

    async def acknowledge(self, press: str, text: str) -> None:
        """Answer a pressed button with a short note; one that is too old is ignored."""
        ...

    async def show_typing(self, chat: int) -> None:
        """Show the typing indicator for some seconds."""
        ...

    async def fetch(self, attachment: Attachment) -> bytes:
        """Download a file. Also raises ``NotFound`` and ``TooLarge``."""
        ...

    async def close(self) -> None:
        """Close the connection."""
        ...
