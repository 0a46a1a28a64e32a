"""``schedules.yml`` of the configuration folder, and ``schedules.json`` of the state folder.

The former is written by hand and by the API, which leaves comments as they are. The latter has what
is remembered of each schedule.
"""

import asyncio
import hashlib
from collections.abc import Callable
from decimal import Decimal
from functools import partial

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from agentd.core.errors import ConfigError, ConfigProblem, PreconditionFailed
from agentd.schedules.cron import validate
from agentd.schedules.model import (
    Schedule,
    ScheduleList,
    ScheduleProgress,
    find_index,
    require_unused_name,
)
from agentd.storage import document
from agentd.storage.checksummed_json import ChecksumMismatch, decode_checksummed, encode_checksummed
from agentd.storage.layout import Layout
from agentd.storage.watched_file import WatchedFile
from agentd.storage.yaml import reader as yaml_reader
from agentd.storage.yaml.editor import YamlEditor, edit_yaml_list

FORMAT = 1
_DEFAULTS = Schedule("", "", "")
_LIMIT = 32 * 2**20
_HEADER = b"""\
# Prompts that are sent at the times of a cron expression. The API, the browser and the command
# agentd schedules edit this file too, and leave your comments.
schedules: []
"""


def load(layout: Layout) -> tuple[Schedule, ...]:
    """Return the schedules, in the file's order; none without a file. Blocking.

    Raises ``ConfigError`` with every mistake, or ``Unavailable``.
    """
    found = document.read_document(layout.schedules, yaml_reader.MAX_FILE_SIZE)
    return _parse(layout.schedules, found.data) if found else ()


def make_version(schedules: tuple[Schedule, ...]) -> str:
    """Return the version of the list, which is another one after every change."""
    return hashlib.sha256(msgspec.json.encode(schedules)).hexdigest()[:16]


class ScheduleFile:
    """The schedules as they are now, and how they are changed.

    ``changed`` is called on the loop when they change.
    """

    def __init__(self, layout: Layout, changed: Callable[[], None] = lambda: None) -> None:
        self.new_names: dict[str, str] = {}
        """The new names of schedules that ``change`` renamed, by the old ones."""
        self._layout = layout
        self._changing = asyncio.Lock()
        self.file: WatchedFile[tuple[Schedule, ...]] = WatchedFile(
            layout.schedules, partial(load, layout), (), changed
        )

    async def get_schedules(self) -> tuple[Schedule, ...]:
        """Return all as the file is at the call; a broken edit leaves them as they were."""
        await self.file.ensure_current()
        return self.file.current

    @property
    def is_complete(self) -> bool:
        """False where schedules may be missing: the file as it is now is not valid."""
        return not self.file.problems

    async def add(self, schedule: Schedule, version: str | None = None) -> tuple[Schedule, ...]:
        """Append a schedule; return all. ``Conflict``: its name is taken, or the file is invalid.

        With a ``version``, only if the list is still that one: else ``PreconditionFailed``.
        """

        def change(listed: tuple[Schedule, ...], text: YamlEditor) -> tuple[Schedule, ...]:
            require_unused_name(listed, schedule.name)
            text.append_item(("schedules",), _to_entry(schedule))
            return (*listed, schedule)

        return await self._change(change, version)

    async def change(
        self, name: str, schedule: Schedule, version: str | None = None
    ) -> tuple[Schedule, ...]:
        """Replace the schedule of that name; return all. ``NotFound``; else as in ``add``."""

        def change(listed: tuple[Schedule, ...], text: YamlEditor) -> tuple[Schedule, ...]:
            index = find_index(listed, name)
            require_unused_name(listed[:index] + listed[index + 1 :], schedule.name)
            if name != schedule.name:
                self.new_names[name] = schedule.name
            return _replace_entry(listed, text, index, schedule)

        return await self._change(change, version)

    async def set_paused(
        self, name: str, version: str | None = None, *, paused: bool
    ) -> tuple[Schedule, ...]:
        """Pause or resume the schedule of that name, as it is then; errors as in ``change``."""

        def change(listed: tuple[Schedule, ...], text: YamlEditor) -> tuple[Schedule, ...]:
            index = find_index(listed, name)
            return _replace_entry(listed, text, index, replace(listed[index], paused=paused))

        return await self._change(change, version)

    async def remove(self, name: str, version: str | None = None) -> None:
        """Delete a schedule. ``NotFound``; else as in ``add``."""

        def change(listed: tuple[Schedule, ...], text: YamlEditor) -> tuple[Schedule, ...]:
            index = find_index(listed, name)
            text.remove_item(("schedules",), index)
            return listed[:index] + listed[index + 1 :]

        await self._change(change, version)

    async def _change(
        self,
        change: Callable[[tuple[Schedule, ...], YamlEditor], tuple[Schedule, ...]],
        version: str | None,
    ) -> tuple[Schedule, ...]:
        """Change the file; return what it says, also if it cannot be read again now."""
        path = self._layout.schedules

        def change_current(listed: tuple[Schedule, ...], text: YamlEditor) -> tuple[Schedule, ...]:
            if version is not None and version != make_version(listed):
                raise PreconditionFailed("The schedules have changed", "Read them again.")
            return change(listed, text)

        async with self._changing:
            return await self.file.write(
                partial(edit_yaml_list, path, partial(_parse, path), change_current, _HEADER)
            )


class SchedulesJson(Struct, frozen=True):
    """The content of ``schedules.json``."""

    format: int
    schedules: dict[str, ScheduleProgress]


class ProgressFile:
    """``schedules.json``; every method blocks."""

    def __init__(self, layout: Layout) -> None:
        self._path = layout.schedule_progress

    def load(self) -> dict[str, ScheduleProgress]:
        """Return what is remembered, by name. ``ConfigError`` for a damaged file."""
        found = document.read_document(self._path, _LIMIT)
        if found is None:
            return {}
        try:
            kept = msgspec.json.decode(decode_checksummed(found.data), type=SchedulesJson)
        except (ChecksumMismatch, msgspec.DecodeError) as error:
            what = "is damaged: delete it; the history of the schedules' runs is lost with it"
            raise ConfigError([ConfigProblem(self._path, 0, what)]) from error
        if kept.format != FORMAT:
            what = f"has the format {kept.format}, this version reads {FORMAT}"
            raise ConfigError([ConfigProblem(self._path, 0, what)])
        return kept.schedules

    def save(self, schedules: dict[str, ScheduleProgress]) -> None:
        """Store it durably. ``Unavailable``."""
        content = encode_checksummed(SchedulesJson(FORMAT, schedules))
        document.replace_document(self._path, content)


def _replace_entry(
    listed: tuple[Schedule, ...], text: YamlEditor, index: int, schedule: Schedule
) -> tuple[Schedule, ...]:
    entry = _to_entry(schedule)
    gone = _to_entry(listed[index]).keys() - entry.keys()
    defaults: dict[str, object] = {one: getattr(_DEFAULTS, one) for one in gone}
    text.update_item(("schedules",), index, defaults | entry)
    return (*listed[:index], schedule, *listed[index + 1 :])


def _to_entry(schedule: Schedule) -> dict[str, object]:
    entry: dict[str, object] = msgspec.to_builtins(schedule, builtin_types=(Decimal,))
    return entry


def _parse(path: str, data: bytes) -> tuple[Schedule, ...]:
    return yaml_reader.load_yaml(path, data, ScheduleList, validate).schedules or ()
