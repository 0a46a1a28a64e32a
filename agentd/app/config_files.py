"""The files that people write, followed while the daemon works: settings, models and skills.

A part of the composition root (``daemon``): who changes one of them, by the API or with an
editor, is heard by everybody who listens.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import Any, Self

from agentd.chats.service import ChatService
from agentd.core.errors import ConfigProblem
from agentd.core.events import EventBus
from agentd.http.routing import Route
from agentd.models import api as models_api
from agentd.models.api import ModelEndpoints
from agentd.models.events import ModelsUpdate
from agentd.models.model import Model, Models, validate
from agentd.models.program_state import ProgramStates
from agentd.models.store import load as load_models
from agentd.settings import api as settings_api
from agentd.settings.api import SettingsEndpoints
from agentd.settings.defaults_writer import DefaultsWriter
from agentd.settings.effective_settings import EffectiveSettings
from agentd.settings.events import SettingsUpdate
from agentd.settings.model import Settings
from agentd.settings.sources import Overrides
from agentd.settings.status import SettingsView
from agentd.skills import api as skills_api
from agentd.skills.api import SkillEndpoints
from agentd.skills.events import SkillsUpdate
from agentd.skills.store import SkillFolder
from agentd.storage.layout import Layout
from agentd.storage.watched_file import WatchedFile
from agentd.storage.yaml.entries import NamedEntries, WatchedEntries

SKILLS_SECONDS = 1.0
"""The interval of checks of the skills: each has a folder of its own, which is not watched."""


class ConfigFiles:
    """The hand-edited files. Subscribers receive the settings whenever they are read."""

    def __init__(
        self, settings: Settings, layout: Layout, outside: Overrides | None, bus: EventBus
    ) -> None:
        self._bus = bus
        self._is_open = False
        self._listeners: list[Callable[[Settings], None]] = []
        self._other_problems: Callable[[], Iterable[ConfigProblem]] = tuple
        self.settings = EffectiveSettings(settings, layout, outside, self._on_settings_changed)
        load = partial(load_models, layout)
        self.models = WatchedFile(layout.models, load, Models(), self._on_models_changed)
        self.skills = SkillFolder(layout, self._on_skills_changed)
        self.model_entries = WatchedEntries[Model](
            NamedEntries(layout.models, Models, "models", validate, "model"), self.models
        )
        self.choices = DefaultsWriter(layout, self.models, self.skills)

    @property
    def files(self) -> tuple[WatchedFile[Any], ...]:
        """The files that a watcher can follow."""
        return self.settings.file, self.models

    async def __aenter__(self) -> Self:
        """Read them for the first time."""
        await self.settings.file.refresh()
        await self.models.refresh()
        await self.skills.get_skills()
        self._is_open = True
        return self

    async def __aexit__(self, *_: object) -> None:
        """Leave off what is being read."""
        await self.settings.file.stop()
        await self.models.stop()

    def subscribe(self, listener: Callable[[Settings], None]) -> None:
        """Call ``listener`` with the settings in force, now and after each change."""
        self._listeners.append(listener)
        listener(self.settings.current)

    def build_routes(
        self,
        chats: ChatService,
        find_problem: Callable[[Model], Awaitable[str]],
        programs: ProgramStates,
        others: Callable[[], Iterable[ConfigProblem]],
    ) -> tuple[Route, ...]:
        """Return their routes.

        ``find_problem`` returns why a model cannot be used now, ``programs`` has what the engines'
        programs told of themselves, ``others`` the problems in further
        files that people edit.
        """
        self._other_problems = others
        return (
            *settings_api.routes(SettingsEndpoints(self.settings, self.get_view)),
            *skills_api.routes(SkillEndpoints(chats, self.skills, self.choices)),
            *models_api.routes(
                ModelEndpoints(
                    chats,
                    self.models,
                    self.choices,
                    self.model_entries,
                    find_problem,
                    programs,
                    lambda: self.settings.current.engine,
                )
            ),
        )

    async def follow_skills(self) -> None:
        """Watch the folder of skills for edits by hand, also while no request reads them."""
        while True:
            await asyncio.sleep(SKILLS_SECONDS)
            await self.skills.get_skills()

    def get_view(self, would: Settings | None = None) -> SettingsView:
        """Return all settings, or how they ``would`` be, and the problems of the files."""
        problems = (*self.settings.problems, *self.models.problems, *self.skills.problems)
        return SettingsView(
            self.settings.list_statuses(would), (*problems, *self._other_problems())
        )

    def _on_settings_changed(self) -> None:
        for listener in self._listeners:
            listener(self.settings.current)
        if self._is_open:  # before, there are no listeners, and building the view takes a while
            self._bus.publish(SettingsUpdate(self.get_view()))

    def _on_models_changed(self) -> None:
        self._bus.publish(ModelsUpdate(self.models.current, self.models.problems))

    def _on_skills_changed(self) -> None:
        self._bus.publish(SkillsUpdate(self.skills.current, self.skills.problems))
