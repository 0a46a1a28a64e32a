"""What a bot must know again after a restart: how far it has read, and who talks in which chat."""

from datetime import timedelta

from msgspec import Struct, structs

from agentd.clock import Timestamp, parse_iso

MOST_BUTTONS = 500
"""Buttons that still work; an older one says that it is too old."""
OFFSET_FOR = timedelta(hours=48)
"""After so long, an offset tells nothing more: the messenger may count from elsewhere by then.

It keeps nothing for longer than a day, so nothing is heard twice without it.
"""


class Link(Struct, frozen=True, omit_defaults=True):
    """A conversation's chat, and the last message of it that was told there."""

    chat: int
    told: int = 0
    at: Timestamp = ""
    """The time of that message."""


class Button(Struct, frozen=True):
    """What a button below a reply says when it is pressed."""

    chat: int
    prompt: str


class Memory(Struct):
    """One bot's memory; changed on the loop, kept by whoever changes it."""

    account: int = 0
    """The bot's number at the messenger: with another token, the updates are others."""
    offset: int = 0
    """The first update that was not handled yet ..."""
    heard_at: Timestamp = ""
    """... and when the one before it was."""
    links: dict[int, Link] = {}
    """By the number of the conversation at the messenger."""
    buttons: dict[int, Button] = {}
    """By their numbers, the oldest first."""
    last_button: int = 0

    def snapshot(self) -> "Memory":
        """As it is now, for good."""
        return structs.replace(self, links=dict(self.links), buttons=dict(self.buttons))

    def belongs_to(self, account: int) -> None:
        """The bot is this one: the offset of another means nothing."""
        if self.account != account:
            self.account, self.offset = account, 0

    def next_offset(self, now: Timestamp) -> int:
        """Where to read on; 0: at the first update that waits."""
        if not self.heard_at or parse_iso(now) - parse_iso(self.heard_at) > OFFSET_FOR:
            return 0
        return self.offset

    def heard(self, update: int, now: Timestamp) -> None:
        """An update is handled: it is never heard again."""
        self.offset, self.heard_at = update + 1, now

    def button(self, chat: int, prompt: str) -> int:
        """A new button's number."""
        self.last_button += 1
        self.buttons[self.last_button] = Button(chat, prompt)
        while len(self.buttons) > MOST_BUTTONS:
            del self.buttons[next(iter(self.buttons))]
        return self.last_button
