"""Wires analytics and speech."""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Self

from agentd.agent.suppliers import SupplierDirectory
from agentd.chats.analytics import api as analytics_api
from agentd.chats.analytics.api import AnalyticsEndpoints
from agentd.chats.analytics.store import AnalyticsStore
from agentd.chats.events import ChatStateEvent
from agentd.chats.state import ChatSummary
from agentd.core.clock import Clock
from agentd.core.events import EventBus
from agentd.http.routing import Route
from agentd.llm.upstream.client import HttpUpstream
from agentd.models.model import Models
from agentd.speech import api as speech_api
from agentd.speech.api import SpeechEndpoints
from agentd.speech.engines import SpeechTranscriber
from agentd.speech.model import Speech
from agentd.speech.store import AudioFiles
from agentd.speech.store import load as load_speech
from agentd.storage.layout import Layout
from agentd.storage.watched_file import WatchedFile


class AnalyticsSpeechComponent:
    """Builds them; ``chats`` returns every chat that counts, ``models`` are those of the file.

    ``generation`` is the state folder's, by which programs are marked.
    """

    def __init__(
        self,
        layout: Layout,
        environ: Mapping[str, str],
        chats: Callable[[], Iterable[ChatSummary]],
        models: WatchedFile[Models],
        clock: Clock,
        bus: EventBus,
        generation: str,
    ) -> None:
        self.speech = WatchedFile(layout.speech_settings, partial(load_speech, layout), Speech())
        """The current contents of ``speech.yml``."""
        self._analytics = AnalyticsStore(layout, chats, bus.publish)
        self._unsubscribe = bus.subscribe_to((ChatStateEvent,), self._analytics.on_chat_changed)
        self._audio = AudioFiles(layout)
        self._upstream = HttpUpstream()
        access = SupplierDirectory(lambda: models.current, environ).get_access
        self.transcriber = SpeechTranscriber(
            self._audio, self._upstream, access, f"{generation}.speech"
        )
        """The converter of speech into text."""
        self.rows: tuple[Route, ...] = (
            *analytics_api.routes(AnalyticsEndpoints(self._analytics, clock)),
            *speech_api.routes(SpeechEndpoints(self.transcriber, self.speech)),
        )
        """The routes of analytics and speech."""

    async def __aenter__(self) -> Self:
        """Read the file, and remove what a killed daemon left of recordings."""
        await self._audio.sweep()
        await self.speech.refresh()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Save the totals, and stop following changes."""
        await self.speech.stop()
        await self._upstream.close()
        self._unsubscribe()
        await self._analytics.close()
