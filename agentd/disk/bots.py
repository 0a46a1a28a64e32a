"""``bots.yml`` of the configuration folder, the tokens that it points to, and bots' memories.

``bots.yml`` is written by hand and by an administrator; comments are left as they are. It holds
tokens, so nobody else may read it.
"""

from collections.abc import Callable, Iterable, Mapping
from os.path import expanduser
from typing import Any, Literal

import msgspec
from msgspec import Struct, structs

from agentd.bots.memory import Memory
from agentd.catalog.bots import TOKEN, BotSettings, contradictions
from agentd.disk import document, handwritten, roundtrip
from agentd.disk.document import Document
from agentd.disk.layout import Layout
from agentd.errors import BadRequest, Conflict, Misconfigured, Mistake, NotFound, nearest

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
    """The file, for who reads it and for who edits it. Everything blocks."""

    def __init__(self, layout: Layout) -> None:
        self.path = layout.bots_settings
        self._folder = layout.config

    def load(self) -> tuple[BotSettings, ...]:
        """The bots, in the file's order; none without a file.

        Raises ``Misconfigured`` with every mistake, also when others may read the file.
        """
        found = self._read()
        return self._parsed(found.data) if found else ()

    def add(self, bot: BotSettings) -> None:
        """One more. ``Conflict`` when there is one of this id."""
        bots, edit = self._open()
        if any(known.id == bot.id for known in bots):
            raise Conflict(f"There is a bot {bot.id} already")
        values = _changed(bot, BotSettings(id=bot.id, token=bot.token))
        first = {"id": bot.id, "kind": bot.kind, "token": bot.token}
        edit(lambda tree: tree.append("bots", first | values), (*bots, bot))

    def change(self, bot: BotSettings) -> None:
        """The bot of this id is to be so; what stays is not touched. ``NotFound``."""
        bots, edit = self._open()
        index = _index(bots, bot.id)
        values = _changed(bot, bots[index])
        if values:
            edit(
                lambda tree: tree.update("bots", index, values),
                (*bots[:index], bot, *bots[index + 1 :]),
            )

    def remove(self, bot_id: str) -> None:
        """One less. ``NotFound``."""
        bots, edit = self._open()
        index = _index(bots, bot_id)
        edit(
            lambda tree: tree.remove("bots", index),
            (*bots[:index], *bots[index + 1 :]),
        )

    def _read(self) -> Document | None:
        return document.read(self.path, handwritten.LIMIT, guarded=True, private=True)

    def _parsed(self, data: bytes) -> tuple[BotSettings, ...]:
        return handwritten.load(self.path, data, BotsYml, _contradictions).bots or ()

    def _wanted(self, edited: bytes) -> tuple[BotSettings, ...]:
        """The bots as they were to become; ``BadRequest`` tells what they cannot be."""
        try:
            return self._parsed(edited)
        except Misconfigured as error:
            raise BadRequest("The bot cannot be so", error.mistakes[0].what) from None

    def _open(self) -> tuple[tuple[BotSettings, ...], Callable[..., None]]:
        """The bots now, and how to change them: ``edit(change, bots expected then)``."""
        found = self._read()
        data = found.data if found and found.data.strip() else _HEADER

        def edit(change: Callable[[Any], None], expected: tuple[BotSettings, ...]) -> None:
            edited = roundtrip.edited(self.path, data, change)
            if self._wanted(edited) != expected:
                raise Conflict(handwritten.by_hand(self.path))
            document.make_folder(self._folder)
            document.replace(self.path, edited, expected=found.stamp if found else None)

        return self._parsed(data), edit


def _contradictions(content: BotsYml) -> Iterable[tuple[tuple[str | int, ...], str]]:
    return ((("bots", number), what) for number, what in contradictions(content.bots or ()))


def _index(bots: tuple[BotSettings, ...], bot_id: str) -> int:
    names = [bot.id for bot in bots]
    if bot_id not in names:
        raise NotFound(f'There is no bot "{bot_id[:64]}"{nearest(bot_id, names)}')
    return names.index(bot_id)


def _changed(bot: BotSettings, before: BotSettings) -> dict[str, Any]:
    """What is another than before, by its name in the file."""
    old = structs.asdict(before)
    return {name: value for name, value in structs.asdict(bot).items() if value != old[name]}


def bot_token(bot: BotSettings, environ: Mapping[str, str]) -> str:
    """The bot's token, fetched anew at each use. Blocking.

    Raises ``Misconfigured`` when it is not to be had, or when others could read its file; the
    token is never told.
    """
    if bot.holds_token:
        return bot.token
    kind, _, where = bot.token.partition(":")
    if kind == "env":
        token, missing = environ.get(where, ""), f"the environment variable {where} is not set"
    else:
        path = expanduser(where)
        found = document.read(path, TOKEN_LIMIT, private=True)
        token = found.data.decode("utf-8", "replace").strip() if found else ""
        missing = f"there is no token in {path}"
    if not token:
        raise _wrong(bot, f"{missing}; put the bot's token there")
    if not TOKEN.fullmatch(token):
        raise _wrong(bot, f"what {kind}:{where} holds is no token of a bot")
    return token


def _wrong(bot: BotSettings, what: str) -> Misconfigured:
    return Misconfigured([Mistake(f"bots.{bot.id}.token", 0, what)])


class MemoryJson(Struct, frozen=True):
    """The content of ``bots/<id>.json``."""

    memory: Memory
    format: Literal[1] = 1


class MemoryFiles:
    """The ``MemoryStore`` of a state folder. Everything blocks."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout

    def load(self, bot_id: str) -> Memory:
        """What was kept last; ``Misconfigured`` when it is damaged."""
        path = self._layout.bot(bot_id)
        found = document.read(path, MEMORY_LIMIT, guarded=True)
        if found is None:
            return Memory()
        try:
            return msgspec.json.decode(found.data, type=MemoryJson).memory
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            what = f"is damaged: {error}; restore it, or delete it and its conversations begin anew"
            raise Misconfigured([Mistake(path, 0, what)]) from error

    def save(self, bot_id: str, memory: Memory) -> None:
        """Keep this instead; ``Unavailable`` when the disk does not take it."""
        document.make_folder(self._layout.bots)
        document.replace(self._layout.bot(bot_id), msgspec.json.encode(MemoryJson(memory)) + b"\n")
