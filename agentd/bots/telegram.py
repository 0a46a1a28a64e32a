"""Telegram's Bot API, through the library python-telegram-bot (the extra ``telegram``).

The library puts the bot's token into addresses, and those into errors and log lines. So its own
loggers are silenced, and only the kind and the server's message of its errors are used.
"""

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from agentd.bots.messenger import Attachment, BotAccount, IncomingUpdate, Keyboard
from agentd.bots.model import BotSettings
from agentd.core.errors import (
    AgentdError,
    BadRequest,
    ConfigError,
    ConfigProblem,
    Conflict,
    Forbidden,
    LimitReached,
    NotFound,
    SupplierUnreachable,
    Unauthorized,
    Unavailable,
)
from agentd.core.redaction import mask_values, scrub
from agentd.system.installed import get_install_command

if TYPE_CHECKING:
    from telegram import Bot, Message, Update

log = logging.getLogger(__name__)

CONNECT_SECONDS = 10.0
ANSWER_SECONDS = 20.0
"""The seconds a response may take, in addition to the time it may wait for updates."""
UPDATE_KINDS = ("message", "callback_query")
"""The kinds of updates to ask for."""

MISSING = f"python-telegram-bot is not installed; run: {get_install_command('telegram')}"
REVOKED = "Telegram refuses the bot's token; get a new one from @BotFather"
OTHER_POLLER = "another program polls Telegram for this bot; stop it, or use another bot"
WEBHOOK = (
    "Telegram sends what is written to this bot to a webhook; delete it (the method deleteWebhook "
    "of the Bot API), or use another bot"
)
INVALID_RESPONSE = "Telegram's server gave an invalid response"


class Telegram:
    """A bot's connection; satisfies ``bots.messenger.Messenger``. Belongs to the running loop."""

    def __init__(self, settings: BotSettings, token: str) -> None:
        """Prepare the library without connecting; ``ConfigError`` when it is missing."""
        try:
            import telegram  # noqa: PLC0415 - an extra, and half a second to load
            from telegram.request import HTTPXRequest  # noqa: PLC0415
        except ImportError:
            raise ConfigError([ConfigProblem(f"bots.{settings.id}", 0, MISSING)]) from None
        logging.getLogger("telegram").setLevel(logging.CRITICAL + 1)
        for name in ("httpx", "httpcore"):
            logging.getLogger(name).setLevel(logging.WARNING)
        self._library = telegram
        self._host = settings.base_url
        self._token = token

        class TolerantRequest(HTTPXRequest):
            """The library's own, but one unreadable update does not hide the others."""

            @staticmethod
            def parse_json_payload(payload: bytes) -> Any:
                found: Any = HTTPXRequest.parse_json_payload(payload)
                if isinstance(found, dict) and isinstance(found.get("result"), list):
                    found["result"] = [
                        _drop_unreadable(one, telegram.Update) for one in found["result"]
                    ]
                return found

        def request(connections: int) -> TolerantRequest:
            return TolerantRequest(
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

    async def connect(self) -> BotAccount:
        """Check the token and return the account."""
        with self._translate_errors():
            await self._bot.initialize()
            user = self._bot.bot
            return BotAccount(user.id, f"@{user.username}")

    async def get_updates(self, offset: int, seconds: int) -> Sequence[IncomingUpdate]:
        """Return the messages and pressed buttons from ``offset`` on."""
        with self._translate_errors():
            found = await self._bot.get_updates(
                offset=offset or None, timeout=seconds, allowed_updates=UPDATE_KINDS
            )
            return [_convert_update(update) for update in found]

    async def send(self, chat: int, text: str, keyboard: Keyboard, *, html: bool) -> None:
        """Send one message with its buttons."""
        library = self._library
        rows = [
            [library.InlineKeyboardButton(key.label, callback_data=key.data) for key in row]
            for row in keyboard
        ]

        async def send_to(number: int) -> None:
            await self._bot.send_message(
                number,
                text,
                parse_mode="HTML" if html else None,
                reply_markup=library.InlineKeyboardMarkup(rows) if rows else None,
                link_preview_options=library.LinkPreviewOptions(is_disabled=True),
            )

        with self._translate_errors():
            try:
                await send_to(chat)
            except library.error.ChatMigrated as moved:  # its update may still be on its way
                await send_to(moved.new_chat_id)

    async def acknowledge(self, press: str, text: str) -> None:
        """Show a note for a moment above the conversation."""
        with self._translate_errors():
            await self._bot.answer_callback_query(press, text[:190] or None)

    async def show_typing(self, chat: int) -> None:
        """Show the typing indicator; Telegram shows it for five seconds."""
        with self._translate_errors():
            await self._bot.send_chat_action(chat, "typing")

    async def fetch(self, attachment: Attachment) -> bytes:
        """Download a file; ``NotFound`` when it no longer exists."""
        with self._translate_errors():
            file = await self._bot.get_file(attachment.id)
        try:
            with self._translate_errors():
                return bytes(await file.download_as_bytearray())
        except Unauthorized:
            raise NotFound("The file no longer exists; send it again") from None

    async def close(self) -> None:
        """Close the connection; updates that were not acknowledged stay at Telegram."""
        with self._translate_errors():
            await self._bot.shutdown()

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        """Raise the library's errors as ``AgentdError``, without its text and causes."""
        errors = self._library.error
        try:
            yield
        except errors.TelegramError as error:
            raise self._convert_error(error) from None
        except (LookupError, TypeError, ValueError, AttributeError):
            raise Unavailable(INVALID_RESPONSE) from None

    def _convert_error(self, error: Any) -> AgentdError:
        errors = self._library.error
        message, host = self._redact(error.message), self._host
        converted: AgentdError = Unavailable(INVALID_RESPONSE)
        match error:
            case errors.RetryAfter(retry_after=wait):
                seconds = wait.total_seconds() if isinstance(wait, timedelta) else wait
                converted = LimitReached("Telegram limits the rate of calls", int(seconds))
            case errors.InvalidToken() if error.__cause__ is None or _is_revoked(error):
                converted = Unauthorized(REVOKED)
            case errors.Conflict():
                converted = Conflict(WEBHOOK if "webhook" in message else OTHER_POLLER)
            case errors.Forbidden():
                converted = Forbidden(message)
            case errors.ChatMigrated():
                converted = NotFound(message)
            case errors.BadRequest():
                converted = BadRequest(message)
            case errors.TimedOut():
                converted = SupplierUnreachable(f"{host} did not answer in time", "head", host)
            case errors.NetworkError():
                converted = SupplierUnreachable(
                    f"{host} cannot be reached: {message}", "connect", host
                )
        return converted

    def _redact(self, text: str) -> str:
        return scrub(mask_values(text, (self._token,)))[:300]


def _is_revoked(error: Any) -> bool:
    """Return whether ``initialize`` wrapped the server's refusal; a page has a further cause."""
    return type(error.__cause__) is type(error) and error.__cause__.__cause__ is None


def _drop_unreadable(update: Any, kind: "type[Update]") -> Any:
    """Return the update, or only its number when the library cannot parse it."""
    if not isinstance(update, dict) or not isinstance(update.get("update_id"), int):
        return update
    try:
        kind.de_json(update, None)
    except (LookupError, TypeError, ValueError, AttributeError):
        log.warning("update %d of Telegram cannot be read and is skipped", update["update_id"])
        return {"update_id": update["update_id"]}
    return update


def _convert_update(update: "Update") -> IncomingUpdate:
    """Return the update as our type; one that is neither a message nor a press has no user."""
    if (press := update.callback_query) is not None:
        chat = press.message.chat.id if press.message else press.from_user.id
        return IncomingUpdate(
            update.update_id, chat, press.from_user.id, press=press.id, data=press.data or ""
        )
    message = update.message
    if message is None or message.from_user is None:
        return IncomingUpdate(update.update_id)
    if message.migrate_to_chat_id:
        return IncomingUpdate(
            update.update_id, message.chat.id, moved_to=message.migrate_to_chat_id
        )
    if message.text is None and message.effective_attachment is None:
        return IncomingUpdate(update.update_id)  # Telegram's own, such as that somebody joined
    attachment = _find_attachment(message)
    caption = message.caption if attachment else ""  # without its file it means something else
    return IncomingUpdate(
        update.update_id,
        message.chat.id,
        message.from_user.id,
        text=message.text or caption or "",
        attachment=attachment,
    )


def _find_attachment(message: "Message") -> Attachment | None:
    if voice := message.voice or message.audio:
        kind = (voice.mime_type or "").partition("/")[2]
        ending = {"mpeg": "mp3", "x-wav": "wav", "wav": "wav", "mp4": "m4a"}.get(kind, "ogg")
        return Attachment(voice.file_id, "voice", f"voice.{ending}", voice.file_size or 0)
    if message.photo:
        photo = message.photo[-1]  # the largest
        return Attachment(photo.file_id, "photo", "photo.jpg", photo.file_size or 0)
    file = message.document
    if file and (file.mime_type or "").startswith("image/"):  # a picture sent as it is
        return Attachment(file.file_id, "photo", file.file_name or "photo", file.file_size or 0)
    return None
