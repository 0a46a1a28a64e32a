"""The state of a bot across restarts: the updates it has handled, and its conversations' chats."""

from collections.abc import Collection
from datetime import timedelta

from msgspec import Struct, structs

from agentd.core.clock import Timestamp, parse_iso, require_timestamps

MOST_BUTTONS = 500
"""The latest buttons, which still work; pressing an older one is answered as too old."""
OFFSET_FOR = timedelta(hours=48)
"""The age at which an offset is discarded: the messenger may have restarted its numbers.

It keeps updates for a day, so none is handled twice without the offset.
"""


class ChatLink(Struct, frozen=True, omit_defaults=True):
    """The chat of a conversation, and the last message of it that was sent there."""

    chat: int
    sent: int = 0
    at: Timestamp = ""
    """The time of that message."""
    user: int = 0
    """The number of the user who wrote last in the conversation; 0 where it was not stored yet."""


class Button(Struct, frozen=True):
    """The prompt that a button below a reply sends."""

    chat: int
    prompt: str


class BotState(Struct):
    """The state of one bot; changed only on the event loop, and saved after each change."""

    account: int = 0
    """The bot's account id at the messenger: another account has other updates."""
    offset: int = 0
    """The first update that was not handled yet ..."""
    handled_at: Timestamp = ""
    """... and when the one before it was."""
    links: dict[int, ChatLink] = {}
    """The linked chats by the number of the conversation at the messenger."""
    buttons: dict[int, Button] = {}
    """The buttons by their numbers, the oldest first."""
    last_button: int = 0

    def __post_init__(self) -> None:
        if self.handled_at:
            require_timestamps(self.handled_at)

    def snapshot(self) -> "BotState":
        """Return a copy that later changes do not touch."""
        return structs.replace(self, links=dict(self.links), buttons=dict(self.buttons))

    def use_account(self, account: int) -> None:
        """Set the account; the offset of another account is discarded."""
        if self.account != account:
            self.account, self.offset = account, 0

    def get_next_offset(self, now: Timestamp) -> int:
        """Return the offset to fetch from; 0: the first pending update."""
        if not self.handled_at or parse_iso(now) - parse_iso(self.handled_at) > OFFSET_FOR:
            return 0
        return self.offset

    def mark_handled(self, update: int, now: Timestamp) -> None:
        """Mark an update as handled, so that it is not fetched again."""
        self.offset, self.handled_at = update + 1, now

    def note_user(self, conversation: int, user: int) -> None:
        """Note who wrote last in a conversation, if it has a chat."""
        link = self.links.get(conversation)
        if link and link.user != user:
            self.links[conversation] = structs.replace(link, user=user)

    def move(self, conversation: int, to: int) -> None:
        """Give a conversation its new number, unless that has a chat already."""
        link = self.links.pop(conversation, None)
        if link:
            self.links.setdefault(to, link)

    def may_receive(self, conversation: int, users: Collection[int]) -> bool:
        """Return whether a conversation may still see its chat: whom it is with is obeyed.

        A conversation with one person has that person's number; a group's is negative.
        """
        link = self.links.get(conversation)
        if link is None:
            return False
        if not link.user and conversation < 0:
            return bool(users)
        return (link.user or conversation) in users

    def forget_chat(self, chat: int) -> bool:
        """Drop the links and buttons of a chat; return whether there were any."""
        links = {one: link for one, link in self.links.items() if link.chat != chat}
        buttons = {one: button for one, button in self.buttons.items() if button.chat != chat}
        has_changed = len(links) + len(buttons) < len(self.links) + len(self.buttons)
        self.links, self.buttons = links, buttons
        return has_changed

    def add_button(self, chat: int, prompt: str) -> int:
        """Add a button and return its number."""
        self.last_button += 1
        self.buttons[self.last_button] = Button(chat, prompt)
        while len(self.buttons) > MOST_BUTTONS:
            del self.buttons[next(iter(self.buttons))]
        return self.last_button
