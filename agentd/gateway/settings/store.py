"""``proxy.yml`` of the configuration folder: the settings of the model gateway.

It is written by hand, and by the API, which leaves every other byte as it is.
"""

import asyncio
from collections.abc import Callable, Mapping
from functools import partial

import msgspec

from agentd.core.errors import BadRequest, ConfigError, ConfigProblem, suggest_name
from agentd.core.secret_text import get_secret_part, is_reference
from agentd.gateway.settings.model import GatewaySettings, validate
from agentd.storage import document
from agentd.storage.layout import Layout
from agentd.storage.watched_file import WatchedFile
from agentd.storage.yaml import editor as yaml_editor
from agentd.storage.yaml import reader as yaml_reader


def load(layout: Layout) -> GatewaySettings:
    """Return the settings; the defaults without a file. Blocking.

    Raises ``ConfigError`` with every problem, also when others can read a password in the file,
    or ``Unavailable``.
    """
    path = layout.gateway_settings
    found = document.read_document(path, yaml_reader.MAX_FILE_SIZE)
    settings = _parse(path, found.data if found else b"")
    if _holds_secret(settings):
        document.read_document(path, yaml_reader.MAX_FILE_SIZE, private=True)
    return settings


def watch_settings(layout: Layout, changed: Callable[[], None]) -> WatchedFile[GatewaySettings]:
    """Return the file as it is followed; ``changed`` is called on the loop when it changes."""
    return WatchedFile(layout.gateway_settings, partial(load, layout), GatewaySettings(), changed)


class GatewaySettingsRepository:
    """Reads and changes the settings; ``file`` is ``proxy.yml``, followed already."""

    def __init__(self, layout: Layout, file: WatchedFile[GatewaySettings]) -> None:
        self._path = layout.gateway_settings
        self.file = file
        self._writing = asyncio.Lock()

    @property
    def current(self) -> GatewaySettings:
        """The current settings."""
        return self.file.current

    @property
    def problems(self) -> tuple[ConfigProblem, ...]:
        """Problems of the file; meanwhile its last valid version is used."""
        return self.file.problems

    async def read(self) -> GatewaySettings:
        """Return the settings of the file, or of its last valid version."""
        await self.file.refresh()
        return self.current

    async def change(
        self,
        changes: Mapping[str, object],
        check: Callable[[GatewaySettings], object] = bool,
        *,
        dry_run: bool = False,
    ) -> GatewaySettings:
        """Write these into the file, all or none, and return the new settings.

        ``check`` is given what the file says before, and may raise. ``None`` takes a setting out
        of the file. Raises ``BadRequest`` with what cannot be, ``Conflict`` when the file has
        mistakes of its own or somebody else saved it meanwhile, and ``Unavailable``.
        """
        names = GatewaySettings.__struct_fields__
        for name in changes:
            if name not in names:
                raise BadRequest(f'There is no setting "{name[:64]}"{suggest_name(name, names)}')
        _refuse_wrong_types(changes)
        async with self._writing:
            after = await self.file.write(partial(self._write, changes, check, dry_run))
        return after if dry_run else self.current

    def _write(
        self,
        wanted: Mapping[str, object],
        check: Callable[[GatewaySettings], object],
        dry_run: bool,
    ) -> GatewaySettings:
        def put(text: yaml_editor.YamlEditor) -> None:
            for name, value in wanted.items():
                if value is None:
                    text.delete((name,))
                else:
                    text.set((name,), value)

        def fits(before: GatewaySettings, after: GatewaySettings) -> bool:
            check(before)
            others = set(GatewaySettings.__struct_fields__) - wanted.keys()
            return all(getattr(before, name) == getattr(after, name) for name in others)

        try:
            return yaml_editor.edit_yaml_file(
                self._path,
                partial(_parse, self._path),
                put,
                fits,
                private=bool(wanted.keys() & {"export", "tracing"}),  # they may hold secrets
                dry_run=dry_run,
            )
        except ConfigError as error:
            problems = [problem.what for problem in error.problems]
            raise BadRequest(problems[0], "\n".join(problems[1:])) from error


def _refuse_wrong_types(changes: Mapping[str, object]) -> None:
    """Raise ``BadRequest`` for another type in JSON; in a file 5 may be a text."""
    try:
        msgspec.convert(
            {name: value for name, value in changes.items() if value is not None}, GatewaySettings
        )
    except msgspec.ValidationError as error:
        raise BadRequest(str(error)) from error


def _parse(path: str, data: bytes) -> GatewaySettings:
    return yaml_reader.load_yaml(path, data, GatewaySettings, validate)


def _holds_secret(settings: GatewaySettings) -> bool:
    """Return whether others must not read the file."""
    headers = map(get_secret_part, settings.tracing.headers.values())
    return any(
        secret and not is_reference(secret) for secret in (settings.export.password, *headers)
    )
