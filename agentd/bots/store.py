"""``bots.yml`` of the configuration folder, the tokens that it points to, and the state of bots.

``bots.yml`` is written by hand and by an administrator; comments are left as they are. It holds
tokens, so nobody else may read it.
"""

import os
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from os.path import expanduser
from typing import Any, Literal

import msgspec
from msgspec import Struct, structs

from agentd.bots.model import TOKEN, BotSettings, validate
from agentd.bots.state import BotState
from agentd.core.errors import (
    BadRequest,
    ConfigError,
    ConfigProblem,
    Conflict,
    NotFound,
    suggest_name,
)
from agentd.storage import document
from agentd.storage.document import Document, translate_os_errors
from agentd.storage.layout import Layout
from agentd.storage.yaml import editor as yaml_editor
from agentd.storage.yaml import reader as yaml_reader
from agentd.storage.yaml.editor import YamlEditor

TOKEN_LIMIT = 16 * 1024
"""The largest file with a token in it, in bytes."""
MEMORY_LIMIT = 256 * 1024 * 1024

_HEADER = b"""\
# The messenger bots. Nobody else may read this file: it holds tokens. What is changed here holds
# at once; agentd edits it too, and leaves your comments.
format: 1
bots: []
"""


class BotsYml(Struct, frozen=True):
    """The content of ``bots.yml``."""

    format: Literal[1] = 1
    bots: tuple[BotSettings, ...] | None = None


class BotsYmlFile:
    """Reads and edits the file. All methods block."""

    def __init__(self, layout: Layout) -> None:
        self.path = layout.bots_settings
        self._folder = layout.config

    def load(self) -> tuple[BotSettings, ...]:
        """Return the bots, in the file's order; none without a file.

        Raises ``ConfigError`` with every problem, also when others may read the file.
        """
        found = self._read()
        return self._parse(found.data) if found else ()

    def add(self, bot: BotSettings) -> None:
        """Add a bot; ``Conflict`` when the id is taken."""
        bots, edit = self._open()
        if any(known.id == bot.id for known in bots):
            raise Conflict(f"There is a bot {bot.id} already")
        values = _find_changes(bot, BotSettings(id=bot.id, token=bot.token))
        first = {"id": bot.id, "kind": bot.kind, "token": bot.token}
        edit(lambda text: text.append_item(("bots",), first | values), (*bots, bot))

    def change(self, bot: BotSettings) -> None:
        """Write the changed settings of the bot with this id. ``NotFound``."""
        bots, edit = self._open()
        index = _find_index(bots, bot.id)
        values = _find_changes(bot, bots[index])
        if values:
            edit(
                lambda text: text.update_item(("bots",), index, values),
                (*bots[:index], bot, *bots[index + 1 :]),
            )

    def remove(self, bot_id: str) -> None:
        """Remove a bot; ``NotFound``."""
        bots, edit = self._open()
        index = _find_index(bots, bot_id)
        edit(
            lambda text: text.remove_item(("bots",), index),
            (*bots[:index], *bots[index + 1 :]),
        )

    def _read(self) -> Document | None:
        return document.read_document(self.path, yaml_reader.MAX_FILE_SIZE, own=True, private=True)

    def _parse(self, data: bytes) -> tuple[BotSettings, ...]:
        return yaml_reader.load_yaml(self.path, data, BotsYml, _validate).bots or ()

    def _parse_edited(self, edited: bytes) -> tuple[BotSettings, ...]:
        """Parse the edited file; ``BadRequest`` when it is invalid."""
        try:
            return self._parse(edited)
        except ConfigError as error:
            raise BadRequest("Invalid bot settings", error.problems[0].what) from None

    def _open(self) -> tuple[tuple[BotSettings, ...], Callable[..., None]]:
        """Return the current bots and an editor: ``edit(change, expected bots)``."""
        found = self._read()
        data = found.data if found and found.data.strip() else _HEADER

        def edit(change: Callable[[YamlEditor], object], expected: tuple[BotSettings, ...]) -> None:
            edited = yaml_editor.edit_content(self.path, data, change)
            if self._parse_edited(edited) != expected:
                raise Conflict(yaml_reader.explain_not_editable(self.path))
            document.make_folder(self._folder)
            document.replace_document(self.path, edited, expected=found.stamp if found else None)

        return self._parse(data), edit


def _validate(content: BotsYml) -> Iterable[tuple[tuple[str | int, ...], str]]:
    return ((("bots", number), what) for number, what in validate(content.bots or ()))


def _find_index(bots: tuple[BotSettings, ...], bot_id: str) -> int:
    names = [bot.id for bot in bots]
    if bot_id not in names:
        raise NotFound(f'There is no bot "{bot_id[:64]}"{suggest_name(bot_id, names)}')
    return names.index(bot_id)


def _find_changes(bot: BotSettings, before: BotSettings) -> dict[str, Any]:
    """Return the changed values, by their names in the file."""
    old = structs.asdict(before)
    return {name: value for name, value in structs.asdict(bot).items() if value != old[name]}


def read_token(bot: BotSettings, environ: Mapping[str, str]) -> str:
    """Return the bot's token, read again at each use. Blocking.

    Raises ``ConfigError`` when it is missing, or when others could read its file; no error
    contains the token.
    """
    if bot.holds_token:
        return bot.token
    kind, _, where = bot.token.partition(":")
    if kind == "env":
        token, missing = environ.get(where, ""), f"the environment variable {where} is not set"
    else:
        path = expanduser(where)
        found = document.read_document(path, TOKEN_LIMIT, private=True)
        token = found.data.decode("utf-8", "replace").strip() if found else ""
        missing = f"there is no token in {path}"
    if not token:
        raise _make_token_error(bot, f"{missing}; put the bot's token there")
    if not TOKEN.fullmatch(token):
        raise _make_token_error(bot, f"what {kind}:{where} holds is not a bot token")
    return token


def _make_token_error(bot: BotSettings, what: str) -> ConfigError:
    return ConfigError([ConfigProblem(f"bots.{bot.id}.token", 0, what)])


class BotStateDocument(Struct, frozen=True):
    """The content of ``bots/<id>.json``."""

    memory: BotState
    format: Literal[1] = 1


class BotStateFiles:
    """The ``BotStateStore`` of a state folder. All methods block."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout

    def load(self, bot_id: str) -> BotState:
        """Return the state last saved; ``ConfigError`` when it is damaged."""
        path = self._layout.get_bot_state_path(bot_id)
        found = document.read_document(path, MEMORY_LIMIT, own=True)
        if found is None:
            return BotState()
        try:
            return msgspec.json.decode(found.data, type=BotStateDocument).memory
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            what = f"is damaged: {error}; restore it, or delete it and its conversations start over"
            raise ConfigError([ConfigProblem(path, 0, what)]) from error

    def forget_chat(self, chat: int, loaded: Collection[str]) -> None:
        """Drop a chat from the states of all bots but those that are ``loaded``; ``Unavailable``.

        Also of bots that were removed. A damaged state stays as it is.
        """
        with translate_os_errors(self._layout.bots, "read"):
            names = os.listdir(self._layout.bots) if os.path.isdir(self._layout.bots) else []
        for name in names:
            bot_id, ending = os.path.splitext(name)
            if ending == ".json" and bot_id not in loaded:
                with suppress(ConfigError):
                    state = self.load(bot_id)
                    if state.forget_chat(chat):
                        self.save(bot_id, state)

    def save(self, bot_id: str, state: BotState) -> None:
        """Save the state; ``Unavailable`` when the disk fails."""
        document.make_folder(self._layout.bots)
        document.replace_document(
            self._layout.get_bot_state_path(bot_id),
            msgspec.json.encode(BotStateDocument(state)) + b"\n",
        )
