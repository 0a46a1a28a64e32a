"""Choices made by programs in files of people: default model, default skill, appearance.

Only the value in question changes in ``models.yml`` or ``skills.yml``; see ``splice``.
"""

import asyncio
from collections.abc import Callable
from functools import partial

from msgspec import structs

from agentd.core.errors import ConfigError, Conflict
from agentd.models.model import Models, validate
from agentd.skills.model import SkillAppearance, SkillSettings
from agentd.skills.store import SkillFolder
from agentd.storage.layout import Layout
from agentd.storage.watched_file import WatchedFile
from agentd.storage.yaml import editor as yaml_editor
from agentd.storage.yaml import reader as yaml_reader


class DefaultsWriter:
    """Writes the choices; when a method returns, they are in force and published.

    All raise ``Conflict`` when the file has mistakes, cannot be edited by a program or was saved
    by somebody else meanwhile, and ``Unavailable``.
    """

    def __init__(self, layout: Layout, models: WatchedFile[Models], skills: SkillFolder) -> None:
        self._layout = layout
        self._models = models
        self._skills = skills
        self._writing = asyncio.Lock()

    async def set_default_model(self, name: str) -> None:
        """Set the default model; empty: the engine of the settings decides."""
        async with self._writing:
            await _write_or_conflict(partial(_choose_model, self._layout.models, name))
            await self._models.refresh()

    async def set_default_skill(self, name: str) -> None:
        """Set the default skill."""
        async with self._writing:
            path = self._layout.skills_settings
            await _write_or_conflict(
                partial(_write_skills, path, lambda now: structs.replace(now, default=name))
            )
            await self._skills.get_skills()

    async def set_appearance(
        self, default: str | None, looks: dict[str, SkillAppearance] | None
    ) -> None:
        """Set default, order and colours of the skills; ``None`` leaves a value unchanged."""

        def apply_changes(now: SkillSettings) -> SkillSettings:
            return SkillSettings(
                now.default if default is None else default, now.skills if looks is None else looks
            )

        async with self._writing:
            await _write_or_conflict(
                partial(_write_skills, self._layout.skills_settings, apply_changes)
            )
            await self._skills.get_skills()


async def _write_or_conflict(write: Callable[[], None]) -> None:
    try:
        await asyncio.to_thread(write)
    except ConfigError as error:
        raise Conflict("The file would not be valid any more", error.message) from error


def _choose_model(path: str, name: str) -> None:
    def load(data: bytes) -> Models:
        return yaml_reader.load_yaml(path, data, Models, validate)

    def change(text: yaml_editor.YamlEditor) -> None:
        if name:
            text.set(("default",), name)
        else:
            text.delete(("default",))

    yaml_editor.edit_yaml_file(
        path, load, change, lambda before, after: after == structs.replace(before, default=name)
    )


def _write_skills(path: str, wanted: Callable[[SkillSettings], SkillSettings]) -> None:
    def load(data: bytes) -> SkillSettings:
        return yaml_reader.load_yaml(path, data, SkillSettings)

    def change(text: yaml_editor.YamlEditor) -> None:
        before = load(text.content.encode())
        after = wanted(before)
        if after.default != before.default:
            text.set(("default",), after.default)
        if after.skills is not None and _list_items(after) != _list_items(before):
            _arrange(text, before.skills or {}, after.skills)

    def fits(before: SkillSettings, after: SkillSettings) -> bool:
        meant = wanted(before)
        return after.default == meant.default and _list_items(after) == _list_items(meant)

    yaml_editor.edit_yaml_file(path, load, change, fits)


def _list_items(settings: SkillSettings) -> list[tuple[str, SkillAppearance]]:
    return list((settings.skills or {}).items())


def _arrange(
    text: yaml_editor.YamlEditor,
    before: dict[str, SkillAppearance],
    after: dict[str, SkillAppearance],
) -> None:
    for name in before.keys() - after.keys():
        text.delete(("skills", name))
    for name, look in after.items():
        if name not in before:
            text.set(("skills", name), {"color": look.color} if look.color else {})
        elif look.color and look != before[name]:
            text.set(("skills", name, "color"), look.color)
        elif look != before[name]:
            text.delete(("skills", name, "color"))
    text.reorder(("skills",), after)
