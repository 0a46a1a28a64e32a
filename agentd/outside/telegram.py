"""Telegram's Bot API, through the library python-telegram-bot (the extra ``telegram``).

The library puts the bot's token into addresses, and those into errors and log lines. So its own
loggers are silent, and of its errors only the kind and what the server said is taken over.
"""

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from agentd.bots.messenger import Account, Attachment, Incoming, Keyboard
from agentd.catalog.bots import BotSettings
from agentd.errors import (
    AgentdError,
    BadRequest,
    Conflict,
    Forbidden,
    LimitReached,
    Misconfigured,
    Mistake,
    NotFound,
    SupplierUnreachable,
    Unauthorized,
    Unavailable,
)
from agentd.outside.installed import install_command
from agentd.redaction import scrub

if TYPE_CHECKING:
    from telegram import Bot, Message, Update

log = logging.getLogger(__name__)

CONNECT_SECONDS = 10.0
ANSWER_SECONDS = 20.0
"""How long an answer may take; one for updates as much longer as it is asked to wait."""
NEWS = ("message", "callback_query")
"""The kinds of updates that are wanted."""

MISSING = f"python-telegram-bot is not installed; run: {install_command('telegram')}"
REVOKED = "Telegram does not take the bot's token; get a new one from @BotFather"
TWO = "another program asks Telegram for this bot's messages; stop it, or take another bot"
GARBAGE = "Telegram's server gave an answer that cannot be understood"


class Telegram:
    """One bot's connection; satisfies ``bots.messenger.Messenger``. Belongs to the running loop."""

    def __init__(self, settings: BotSettings, token: str) -> None:
        """Raises ``Misconfigured`` when the library is missing; connects to nothing yet."""
        try:
            import telegram  # noqa: PLC0415 - an extra, and half a second to load
            from telegram.request import HTTPXRequest  # noqa: PLC0415
        except ImportError:
            raise Misconfigured([Mistake(f"bots.{settings.id}", 0, MISSING)]) from None
        logging.getLogger("telegram").setLevel(logging.CRITICAL + 1)
        for name in ("httpx", "httpcore"):
            logging.getLogger(name).setLevel(logging.WARNING)
        self._library = telegram
        self._host = settings.base_url
        self._token = token

        class Request(HTTPXRequest):
            """The library's own, but one update that it cannot read hides no others."""

            @staticmethod
            def parse_json_payload(payload: bytes) -> Any:
                found: Any = HTTPXRequest.parse_json_payload(payload)
                if isinstance(found, dict) and isinstance(found.get("result"), list):
                    found["result"] = [_legible(one, telegram.Update) for one in found["result"]]
                return found

        def request(connections: int) -> Request:
            return Request(
                connections,
                connect_timeout=CONNECT_SECONDS,
                read_timeout=ANSWER_SECONDS,
                write_timeout=ANSWER_SECONDS,
                pool_timeout=ANSWER_SECONDS,
            )

        base = settings.base_url.rstrip("/")
        self._bot: Bot = telegram.Bot(
            token,
            base_url=f"{base}/bot",
            base_file_url=f"{base}/file/bot",
            request=request(8),
            get_updates_request=request(1),
        )

    async def connect(self) -> Account:
        """Who the bot is."""
        with self._told():
            await self._bot.initialize()
            user = self._bot.bot
            return Account(user.id, f"@{user.username}")

    async def updates(self, offset: int, seconds: int) -> Sequence[Incoming]:
        """The messages and pressed buttons from ``offset`` on."""
        with self._told():
            found = await self._bot.get_updates(
                offset=offset or None, timeout=seconds, allowed_updates=NEWS
            )
            return [_incoming(update) for update in found]

    async def send(self, chat: int, text: str, keyboard: Keyboard, *, html: bool) -> None:
        """One message with its buttons."""
        library = self._library
        rows = [
            [library.InlineKeyboardButton(key.label, callback_data=key.data) for key in row]
            for row in keyboard
        ]
        with self._told():
            await self._bot.send_message(
                chat,
                text,
                parse_mode="HTML" if html else None,
                reply_markup=library.InlineKeyboardMarkup(rows) if rows else None,
                link_preview_options=library.LinkPreviewOptions(is_disabled=True),
            )

    async def acknowledge(self, press: str, text: str) -> None:
        """The note is shown for a moment above the conversation."""
        with self._told():
            await self._bot.answer_callback_query(press, text[:190] or None)

    async def typing(self, chat: int) -> None:
        """Shown for five seconds."""
        with self._told():
            await self._bot.send_chat_action(chat, "typing")

    async def fetch(self, attachment: Attachment) -> bytes:
        """A file's content; ``NotFound`` when it is there no more."""
        with self._told():
            file = await self._bot.get_file(attachment.id)
        try:
            with self._told():
                return bytes(await file.download_as_bytearray())
        except Unauthorized:
            raise NotFound("The file is not there any more; send it again") from None

    async def close(self) -> None:
        """Hang up; updates that were not acknowledged stay where they are."""
        with self._told():
            await self._bot.shutdown()

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Raise what the library raises in our words, and nothing of its own."""
        errors = self._library.error
        try:
            yield
        except errors.TelegramError as error:
            raise self._ours(error) from None
        except (LookupError, TypeError, ValueError, AttributeError):
            raise Unavailable(GARBAGE) from None

    def _ours(self, error: Any) -> AgentdError:
        errors = self._library.error
        said, host = self._clean(error.message), self._host
        ours: AgentdError = Unavailable(GARBAGE)
        match error:
            case errors.RetryAfter(retry_after=wait):
                seconds = wait.total_seconds() if isinstance(wait, timedelta) else wait
                ours = LimitReached("Telegram wants fewer calls", int(seconds))
            case errors.InvalidToken() if error.__cause__ is None or _revoked(error):
                ours = Unauthorized(REVOKED)
            case errors.Conflict():
                ours = Conflict(TWO)
            case errors.Forbidden():
                ours = Forbidden(said)
            case errors.ChatMigrated():
                ours = NotFound(said)
            case errors.BadRequest():
                ours = BadRequest(said)
            case errors.TimedOut():
                ours = SupplierUnreachable(f"{host} did not answer in time", "head", host)
            case errors.NetworkError():
                ours = SupplierUnreachable(f"{host} cannot be reached: {said}", "connect", host)
        return ours

    def _clean(self, text: str) -> str:
        return scrub(text.replace(self._token, "***"))[:300]


def _revoked(error: Any) -> bool:
    """``initialize`` wraps the server's refusal; a page that is no JSON is another's doing."""
    return type(error.__cause__) is type(error) and error.__cause__.__cause__ is None


def _legible(update: Any, kind: "type[Update]") -> Any:
    """An update as it came; of one that cannot be read its number, to be passed over."""
    if not isinstance(update, dict) or not isinstance(update.get("update_id"), int):
        return update
    try:
        kind.de_json(update, None)
    except (LookupError, TypeError, ValueError, AttributeError):
        log.warning("update %d of Telegram cannot be read and is passed over", update["update_id"])
        return {"update_id": update["update_id"]}
    return update


def _incoming(update: "Update") -> Incoming:
    """One update as we know it; what is no message and no press has no user."""
    if (press := update.callback_query) is not None:
        chat = press.message.chat.id if press.message else press.from_user.id
        return Incoming(
            update.update_id, chat, press.from_user.id, press=press.id, data=press.data or ""
        )
    message = update.message
    if message is None or message.from_user is None:
        return Incoming(update.update_id)
    return Incoming(
        update.update_id,
        message.chat.id,
        message.from_user.id,
        text=message.text or message.caption or "",
        attachment=_attachment(message),
    )


def _attachment(message: "Message") -> Attachment | None:
    if voice := message.voice or message.audio:
        kind = (voice.mime_type or "").partition("/")[2]
        ending = {"mpeg": "mp3", "x-wav": "wav", "wav": "wav", "mp4": "m4a"}.get(kind, "ogg")
        return Attachment(voice.file_id, "voice", f"voice.{ending}", voice.file_size or 0)
    if message.photo:
        photo = message.photo[-1]  # the largest
        return Attachment(photo.file_id, "photo", "photo.jpg", photo.file_size or 0)
    return None
