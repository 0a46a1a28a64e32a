"""Wires the messenger bots of ``bots.yml``, the services they use, and their endpoints."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Self

from agentd.app.agent import Agent
from agentd.app.analytics_speech import AnalyticsSpeechComponent
from agentd.app.config_files import ConfigFiles
from agentd.app.workspace import WorkspaceComponent
from agentd.bots import api as bots_api
from agentd.bots.api import BotEndpoints
from agentd.bots.events import BotsUpdate
from agentd.bots.messenger import Messenger
from agentd.bots.model import BotDirectory, BotSettings
from agentd.bots.service import BotService
from agentd.bots.services import BotServices
from agentd.bots.store import BotStateFiles, BotsYmlFile, read_token
from agentd.bots.telegram import Telegram
from agentd.chats.service import ChatService
from agentd.chats.state import ChatSummary
from agentd.core.clock import Clock
from agentd.core.errors import AgentdError, Unavailable
from agentd.core.events import EventBus
from agentd.core.tasks import cancel_task
from agentd.http.routing import Route
from agentd.speech.engines import SpeechTranscriber
from agentd.speech.model import Speech
from agentd.storage.layout import Layout
from agentd.storage.watched_file import WatchedFile
from agentd.workspace.uploads.rules import Inspection, make_safe_name
from agentd.workspace.uploads.store import UploadFolder

if TYPE_CHECKING:
    from agentd.bots.polling import BotPoller

log = logging.getLogger("agentd.bots")


class BotsComponent:
    """Runs the bots for as long as its block lasts."""

    def __init__(self, layout: Layout, environ: Mapping[str, str], services: BotServices) -> None:
        self._bot_services = services
        self._environ = environ
        self._memories = BotStateFiles(layout)
        yml = BotsYmlFile(layout)
        nobody: tuple[BotSettings, ...] = ()
        self.file = WatchedFile(yml.path, yml.load, nobody, self._on_file_changed)
        """The current contents of ``bots.yml``."""
        self._shown = BotDirectory()
        self._service = BotService(
            yml,
            self.file,
            self._memories,
            self._shown,
            self._connect,
            self._create_poller,
            self._publish_bots,
        )
        self.get_bots = self._service.get_bots
        self.send_notice = self._service.send_notice
        self._living: asyncio.Task[None] | None = None
        self.rows: tuple[Route, ...] = bots_api.routes(
            BotEndpoints(self._service, services.chats.list_summaries)
        )
        """The routes of the bots."""

    async def __aenter__(self) -> Self:
        """Read the file, and let the bots begin."""
        await self.file.refresh()
        self._living = asyncio.create_task(self._service.run())
        return self

    async def __aexit__(self, *_: object) -> None:
        """End the bots; what they have not acknowledged waits at the messenger."""
        await self.file.stop()
        if self._living:
            await cancel_task(self._living)

    async def forget_chat(self, chat: ChatSummary) -> None:
        """Drop what bots keep of a chat that was removed for ever, such as prompts of buttons."""
        try:
            await self._service.forget_chat(chat.id)
        except AgentdError as error:
            log.warning("bots keep what they know of chat %d: %s", chat.id, error.message)

    def _on_file_changed(self) -> None:
        self._service.on_file_changed()

    def _create_poller(self, bot: BotSettings, changed: Callable[[], None]) -> "BotPoller":
        from agentd.bots.polling import BotPoller  # noqa: PLC0415 - many a daemon has no bot

        is_current = self._service.is_current
        return BotPoller(
            bot, self._connect, self._memories, self._bot_services, is_current, changed
        )

    async def _connect(self, bot: BotSettings) -> Messenger:
        token = await asyncio.to_thread(read_token, bot, self._environ)
        return await asyncio.to_thread(Telegram, bot, token)

    def _publish_bots(self) -> None:
        self._bot_services.bus.publish(BotsUpdate(self._shown.list_bots()))


class BotUploads:
    """The upload folder as bots use it; satisfies ``bots.services.Uploads``."""

    def __init__(self, folder: UploadFolder) -> None:
        self._folder = folder

    async def keep(self, content: bytes, name: str) -> str:
        """Return the path of the new file, relative to the workspace."""
        inspection = Inspection("", only="image")
        inspection.feed(content)
        draft = await self._folder.begin()
        try:
            await draft.write(content)
            (kept,) = await self._folder.keep(
                [(draft, make_safe_name(name, inspection.end(), "photo"))]
            )
        finally:
            await draft.discard()
        return kept.path


class BotTranscriber:
    """Speech recognition as bots use it; satisfies ``bots.services.Transcriber``."""

    def __init__(self, transcriber: SpeechTranscriber, speech: WatchedFile[Speech]) -> None:
        self._transcriber = transcriber
        self._speech = speech

    async def transcribe(self, audio: bytes, name: str) -> str:
        """Transcribe by the default engine; ``Unavailable`` names what is missing."""
        await self._speech.ensure_current()
        speech = self._speech.current
        engine = speech.find("")
        if missing := await self._transcriber.find_problem(engine):
            raise Unavailable(f"Speech recognition is not ready here. {missing}")
        return (await self._transcriber.transcribe(engine, audio, "", speech.max_seconds)).text


def build_bot_services(
    written: ConfigFiles,
    chats: ChatService,
    agent: Agent,
    clock: Clock,
    bus: EventBus,
    workplace: WorkspaceComponent,
    analytics_speech: AnalyticsSpeechComponent,
) -> BotServices:
    """Return the services that the bots use."""
    return BotServices(
        chats,
        agent.dispatcher,
        agent.approvals,
        clock,
        bus,
        lambda: written.models.current.names,
        agent.engines.list_modes,
        BotTranscriber(analytics_speech.transcriber, analytics_speech.speech),
        BotUploads(workplace.uploads),
    )
