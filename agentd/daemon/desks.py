"""The desks of the extended surface that stand apart from the agent: analytics and speech.

A part of the composition root (``daemon``), apart because desks are many.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Self

from agentd.catalog.models import Models
from agentd.catalog.speech import Speech
from agentd.chats.fold import Summary
from agentd.clock import Clock
from agentd.disk.analytics import Analytics
from agentd.disk.layout import Layout
from agentd.disk.reload import Reloaded
from agentd.disk.speech import AudioFiles
from agentd.disk.speech import load as load_speech
from agentd.disk.suppliers import SupplierBook
from agentd.events import Bus
from agentd.outside.speech import Transcriber
from agentd.outside.upstream import HttpUpstream
from agentd.web import analytics, speech
from agentd.web.analytics import AnalyticsDesk
from agentd.web.speech import SpeechDesk
from agentd.web.table import Route


class Desks:
    """Makes them; ``chats`` tells every chat that counts, ``models`` are those of the file.

    ``generation`` is the state folder's, by which programs are marked.
    """

    def __init__(
        self,
        layout: Layout,
        environ: Mapping[str, str],
        chats: Callable[[], Iterable[Summary]],
        models: Reloaded[Models],
        clock: Clock,
        bus: Bus,
        generation: str,
    ) -> None:
        self.speech = Reloaded(layout.speech_settings, partial(load_speech, layout), Speech())
        """What ``speech.yml`` says now."""
        self._analytics = Analytics(layout, chats)
        self._unsubscribe = bus.subscribe(self._analytics.note)
        self._audio = AudioFiles(layout)
        self._upstream = HttpUpstream()
        access = SupplierBook(lambda: models.current, environ).access
        self.hearing = Transcriber(self._audio, self._upstream, access, f"{generation}.speech")
        """Who turns speech into text."""
        self.rows: tuple[Route, ...] = (
            *analytics.rows(AnalyticsDesk(self._analytics, clock)),
            *speech.rows(SpeechDesk(self.hearing, self.speech)),
        )
        """What they add to the routes table."""

    async def __aenter__(self) -> Self:
        """Read the file, and remove what a killed daemon left of recordings."""
        await self._audio.sweep()
        await self.speech.refresh()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Keep what was added up; hear no more."""
        await self.speech.stop()
        await self._upstream.close()
        self._unsubscribe()
        await self._analytics.close()
