"""The files that people write, followed while the daemon works: settings, models and skills.

A part of the composition root (``daemon``): who changes one of them, by the API or with an
editor, is heard by everybody who listens.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import Any, Self

from agentd.catalog.models import Model, Models
from agentd.catalog.settings import Settings
from agentd.catalog.standing import SettingsView
from agentd.chats.service import ChatService
from agentd.disk.choices import Choices
from agentd.disk.in_force import SettingsInForce
from agentd.disk.layout import Layout
from agentd.disk.models import load as load_models
from agentd.disk.reload import Reloaded
from agentd.disk.settings import Outside
from agentd.disk.skills import SkillFolder
from agentd.errors import Mistake
from agentd.events import Bus, ModelsUpdate, SettingsUpdate, SkillsUpdate
from agentd.web.models import ModelDesk
from agentd.web.settings import SettingsDesk
from agentd.web.skills import SkillDesk
from agentd.web.table import Route
from agentd.web.tables import catalog

SKILLS_SECONDS = 1.0
"""How often the skills are looked at: each has a folder of its own, which nobody watches."""


class HandWritten:
    """What the files say now. ``hear`` is called with the settings whenever they are looked at."""

    def __init__(
        self, settings: Settings, layout: Layout, outside: Outside | None, bus: Bus
    ) -> None:
        self._bus = bus
        self._hearing: list[Callable[[Settings], None]] = []
        self._others: Callable[[], Iterable[Mistake]] = tuple
        self.settings = SettingsInForce(settings, layout, outside, self._settings_changed)
        load = partial(load_models, layout)
        self.models = Reloaded(layout.models, load, Models(), self._models_changed)
        self.skills = SkillFolder(layout, self._skills_changed)
        self.choices = Choices(layout, self.models, self.skills)

    @property
    def files(self) -> tuple[Reloaded[Any], ...]:
        """Those that a watcher can tell of."""
        return self.settings.file, self.models

    async def __aenter__(self) -> Self:
        """Read them for the first time."""
        await self.settings.file.refresh()
        await self.models.refresh()
        await self.skills.skills()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Leave off what is being read."""
        await self.settings.file.stop()
        await self.models.stop()

    def hear(self, listener: Callable[[Settings], None]) -> None:
        """Have ``listener`` called with the settings in force, now and after each change."""
        self._hearing.append(listener)
        listener(self.settings.current)

    def rows(
        self,
        chats: ChatService,
        trouble: Callable[[Model], Awaitable[str]],
        others: Callable[[], Iterable[Mistake]],
    ) -> tuple[Route, ...]:
        """What they add to the routes table.

        ``trouble`` tells why a model cannot be used now, ``others`` what is wrong with further
        files that people edit.
        """
        self._others = others
        return catalog.rows(
            SettingsDesk(self.settings, self.view),
            SkillDesk(chats, self.skills, self.choices),
            ModelDesk(chats, self.models, self.choices, trouble),
        )

    async def follow_skills(self) -> None:
        """Notice what is done to the skills by hand, even while nobody asks for them."""
        while True:
            await asyncio.sleep(SKILLS_SECONDS)
            await self.skills.skills()

    def view(self, would: Settings | None = None) -> SettingsView:
        """All settings, or how they ``would`` be, and what is wrong with any of the files."""
        mistakes = (*self.settings.mistakes, *self.models.mistakes, *self.skills.mistakes)
        return SettingsView(self.settings.standings(would), (*mistakes, *self._others()))

    def _settings_changed(self) -> None:
        for listener in self._hearing:
            listener(self.settings.current)
        self._bus.publish(SettingsUpdate(self.view()))

    def _models_changed(self) -> None:
        self._bus.publish(ModelsUpdate(self.models.current, self.models.mistakes))

    def _skills_changed(self) -> None:
        self._bus.publish(SkillsUpdate(self.skills.current, self.skills.mistakes))
