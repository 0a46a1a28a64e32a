"""The messengers: the bots of ``bots.yml``, the house that they serve, and who configures them.

A part of the composition root (``daemon``), apart because bots need a little of everything.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Self

from agentd.bots.house import House
from agentd.bots.messenger import Messenger
from agentd.bots.service import BotService
from agentd.catalog.bots import Bots, BotSettings
from agentd.catalog.speech import Speech
from agentd.chats.service import ChatService
from agentd.clock import Clock
from agentd.daemon.crew import Agent
from agentd.daemon.desks import Desks
from agentd.daemon.workplace import Workplace
from agentd.daemon.written import HandWritten
from agentd.disk.bots import BotsYmlFile, MemoryFiles, bot_token
from agentd.disk.layout import Layout
from agentd.disk.reload import Reloaded
from agentd.errors import Unavailable
from agentd.events import BotsUpdate, Bus
from agentd.outside.speech import Transcriber
from agentd.outside.telegram import Telegram
from agentd.outside.uploads import UploadFolder
from agentd.web.bots import BotDesk
from agentd.web.table import Route
from agentd.web.tables import bots
from agentd.workspace.uploads import Inspection, safe_name

if TYPE_CHECKING:
    from agentd.bots.polling import Polling


class Messaging:
    """Runs the bots for as long as its block lasts."""

    def __init__(self, layout: Layout, environ: Mapping[str, str], house: House) -> None:
        self._house = house
        self._environ = environ
        self._memories = MemoryFiles(layout)
        yml = BotsYmlFile(layout)
        nobody: tuple[BotSettings, ...] = ()
        self.file = Reloaded(yml.path, yml.load, nobody, self._file_changed)
        """What ``bots.yml`` says now."""
        self._shown = Bots()
        self._service = BotService(yml, self.file, self._shown, self._polling, self._told)
        self.get_bots = self._service.get_bots
        self._living: asyncio.Task[None] | None = None
        self.rows: tuple[Route, ...] = bots.rows(BotDesk(self._service))
        """What they add to the routes table."""

    async def __aenter__(self) -> Self:
        """Read the file, and let the bots begin."""
        await self.file.refresh()
        self._living = asyncio.create_task(self._service.run())
        return self

    async def __aexit__(self, *_: object) -> None:
        """End the bots; what they have not acknowledged waits at the messenger."""
        await self.file.stop()
        if self._living:
            self._living.cancel()
            await asyncio.wait([self._living])

    def _file_changed(self) -> None:
        self._service.file_changed()

    def _polling(self, bot: BotSettings, changed: Callable[[], None]) -> "Polling":
        from agentd.bots.polling import Polling  # noqa: PLC0415 - many a daemon has no bot

        return Polling(bot, self._connect, self._memories, self._house, changed)

    async def _connect(self, bot: BotSettings) -> Messenger:
        token = await asyncio.to_thread(bot_token, bot, self._environ)
        return await asyncio.to_thread(Telegram, bot, token)

    def _told(self) -> None:
        self._house.bus.publish(BotsUpdate(self._shown.list()))


class SentIn:
    """The upload folder as bots use it; satisfies ``bots.house.Uploads``."""

    def __init__(self, folder: UploadFolder) -> None:
        self._folder = folder

    async def keep(self, content: bytes, name: str) -> str:
        """The path of the new file, relative to the workspace."""
        inspection = Inspection("", only="image")
        inspection.feed(content)
        draft = await self._folder.begin()
        try:
            await draft.write(content)
            (kept,) = await self._folder.keep([(draft, safe_name(name, inspection.end(), "photo"))])
        finally:
            await draft.discard()
        return kept.path


class Heard:
    """Speech recognition as bots use it; satisfies ``bots.house.Transcriber``."""

    def __init__(self, hearing: Transcriber, speech: Reloaded[Speech]) -> None:
        self._hearing = hearing
        self._speech = speech

    async def transcribe(self, audio: bytes, name: str) -> str:
        """What is said, by the default engine; ``Unavailable`` tells what is missing."""
        await self._speech.ensure_current()
        speech = self._speech.current
        ear = speech.find("")
        if missing := await self._hearing.missing(ear):
            raise Unavailable(f"Speech recognition is not ready here. {missing}")
        return (await self._hearing.transcribe(ear, audio, "", speech.longest)).text


def house(
    written: HandWritten,
    chats: ChatService,
    agent: Agent,
    clock: Clock,
    bus: Bus,
    workplace: Workplace,
    desks: Desks,
) -> House:
    """What the bots may see and do."""
    return House(
        chats,
        agent.dispatcher,
        agent.approvals,
        clock,
        bus,
        lambda: written.models.current.names,
        Heard(desks.hearing, desks.speech),
        SentIn(workplace.uploads),
    )
