"""The settings in force while the daemon works, and the writing of new ones into ``agentd.yml``.

The file is followed like every hand-written one: an edit holds from when it is saved as far as
the setting allows it (``settings.status``), a broken edit changes nothing and is reported. What was
said on the command line, in the environment or in ``.env`` comes before the file, then too.
"""

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from socket import AI_PASSIVE, SOCK_STREAM, getaddrinfo, socket

from msgspec import structs, to_builtins

from agentd.agent.approval_rules import ApprovalRule
from agentd.core.errors import BadRequest, ConfigError, ConfigProblem, suggest_name
from agentd.http.tls import load_tls_context
from agentd.settings.model import Settings, TlsFiles
from agentd.settings.sources import Overrides, parse_settings_file, read_settings_file
from agentd.settings.status import (
    MASK,
    SECRET,
    SettingsFileContents,
    SettingStatus,
    apply_immediate,
    list_statuses,
)
from agentd.storage.layout import Layout
from agentd.storage.watched_file import WatchedFile
from agentd.storage.yaml import editor as yaml_editor

NAMES = Settings.__struct_fields__


class EffectiveSettings:
    """Follows ``agentd.yml`` from ``refresh`` on. ``changed`` is called on the loop.

    ``started`` is what the daemon started with; without ``outside`` it stays as it is.
    """

    def __init__(
        self,
        started: Settings,
        layout: Layout,
        outside: Overrides | None,
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        self.current = started
        """The settings in force."""
        self._started = self._next = started
        self._path = layout.settings
        self._outside = outside
        self._changed = changed
        self._writing = asyncio.Lock()
        self.file = WatchedFile(
            self._path, self._load, SettingsFileContents(started), self._on_file_loaded
        )
        """The current contents of ``agentd.yml``."""

    @property
    def problems(self) -> tuple[ConfigProblem, ...]:
        """Why the file as it is now is not taken; empty when it is."""
        return self.file.problems

    def list_statuses(self, would: Settings | None = None) -> tuple[SettingStatus, ...]:
        """Return the status of each setting, now or as it ``would`` be with this file."""
        typed = self._outside.from_cli_and_env if self._outside else {}
        if would is None:
            return list_statuses(self.current, self._next, self.file.current, typed)
        lines, usual = self.file.current.lines, Settings()
        contents = SettingsFileContents(
            would,
            {
                name: lines.get(name, 0)
                for name in NAMES
                if getattr(would, name) != getattr(usual, name)
            },
        )
        later = self._outside.resolve(contents, self._path) if self._outside else would
        return list_statuses(apply_immediate(self._started, later), later, contents, typed)

    async def read(self) -> Settings:
        """Return the file's settings, or its last valid ones."""
        await self.refresh()
        return self.file.current.settings

    async def refresh(self) -> None:
        """Read the file. When this returns, its contents at the call are in force, or reported."""
        await self.file.refresh()

    async def change(
        self,
        changes: Mapping[str, object],
        check: Callable[[Settings], object] = bool,
        *,
        dry_run: bool = False,
    ) -> Settings:
        """Write these into the file, all or none; what may be is in force when this returns.

        ``None`` takes a setting out of the file, a mask leaves the secret as it is; ``check`` is
        given what the file says before, and may raise. The answer is what it says then. Raises
        ``BadRequest`` with every mistake, ``Conflict`` when the file has mistakes of its own or
        somebody else saved it meanwhile, and ``Unavailable``.
        """
        for name in changes:
            if name not in NAMES:
                raise BadRequest(f'There is no setting "{name[:64]}"{suggest_name(name, NAMES)}')
        wanted = {
            name: value for name, value in changes.items() if not (name in SECRET and value == MASK)
        }
        async with self._writing:
            after = await self.file.write(partial(self._write, wanted, check, dry_run))
        return after.settings

    async def add_approval_rule(
        self, rule: ApprovalRule, find_place: Callable[[Sequence[ApprovalRule]], int | None]
    ) -> None:
        """Add a rule to the file; it is in force when this returns.

        ``find_place`` returns its place among those of the file, None if it need not be added; what
        it raises is raised, and as for ``change``.
        """
        async with self._writing:
            await self.file.write(partial(self._insert_rule, rule, find_place))

    def _load(self) -> SettingsFileContents:
        if self._outside is None:
            return SettingsFileContents(self._started)
        contents = read_settings_file(self._path)
        self._outside.resolve(contents, self._path)
        return contents

    def _on_file_loaded(self) -> None:
        if self._outside:
            self._next = self._outside.resolve(self.file.current, self._path)
            self.current = apply_immediate(self._started, self._next)
        self._changed()

    def _write(
        self, wanted: Mapping[str, object], check: Callable[[Settings], object], dry_run: bool
    ) -> SettingsFileContents:
        def fits(before: SettingsFileContents, after: SettingsFileContents) -> bool:
            check(before.settings)
            if "tls" in wanted:
                _require_usable_tls(after.settings.tls)
            if wanted.get("state") and self._outside:
                state = os.path.expanduser(after.settings.state)
                _require_usable_state(os.path.abspath(os.path.join(self._outside.folder, state)))
            return _changes_only(wanted, before, after)

        put = partial(_edit_values, wanted=wanted)
        if wanted.get("host"):
            _require_usable_address(str(wanted["host"]))
        try:
            return yaml_editor.edit_yaml_file(self._path, self._parse, put, fits, dry_run=dry_run)
        except ConfigError as error:
            messages = [problem.what for problem in error.problems]
            raise BadRequest(messages[0], "\n".join(messages[1:])) from error

    def _insert_rule(
        self, rule: ApprovalRule, find_place: Callable[[Sequence[ApprovalRule]], int | None]
    ) -> None:
        def put(text: yaml_editor.YamlEditor) -> None:
            place = find_place(self._parse(text.content.encode()).settings.approval_rules)
            if place is not None:
                text.insert_item(("approval_rules",), place, to_builtins(rule))

        def fits(before: SettingsFileContents, after: SettingsFileContents) -> bool:
            rules = list(before.settings.approval_rules)
            place = find_place(rules)
            if place is not None:
                rules.insert(place, rule)
            return after.settings == structs.replace(before.settings, approval_rules=tuple(rules))

        yaml_editor.edit_yaml_file(self._path, self._parse, put, fits)

    def _parse(self, data: bytes) -> SettingsFileContents:
        contents = parse_settings_file(self._path, data)
        if self._outside:
            self._outside.resolve(contents, self._path)
        return contents


def _require_usable_address(host: str) -> None:
    """Raise ``BadRequest`` for an address that the next start could not listen on. Blocking."""
    try:
        for family, kind, proto, _, address in getaddrinfo(
            host, 0, type=SOCK_STREAM, flags=AI_PASSIVE
        ):
            with socket(family, kind, proto) as probe:
                probe.bind(address)
    except (OSError, UnicodeError) as error:
        messages = getattr(error, "strerror", None) or error
        raise BadRequest(
            f"host: the next start could not listen on {host[:100]!r}: {messages}",
            "Name an address of this host.",
        ) from error


def _require_usable_state(folder: str) -> None:
    """Raise ``BadRequest`` for a state folder that the next start could not use. Blocking."""
    above = folder
    while not os.path.lexists(above):
        above = os.path.dirname(above)
    if os.path.isdir(above) and os.access(above, os.W_OK | os.X_OK):
        return
    why = "may not be written to" if os.path.isdir(above) else "is no folder"
    raise BadRequest(
        f"state: the next start could not use {folder[:1000]!r}: {above[:1000]} {why}",
        "Name a folder that agentd may make or write to.",
    )


def _require_usable_tls(files: TlsFiles | None) -> None:
    """Raise ``BadRequest`` for files by which the next start could not answer https. Blocking."""
    if files is None:
        return
    try:
        load_tls_context(files.certificate, files.key)
    except ConfigError as error:
        raise BadRequest(
            f"tls: the next start could not answer https: {error.problems[0]}",
            "agentd tls makes a certificate and its key.",
        ) from error


def _edit_values(text: yaml_editor.YamlEditor, wanted: Mapping[str, object]) -> None:
    for name, value in wanted.items():
        if value is None:
            text.delete((name,))
        else:
            text.set((name,), value)


def _changes_only(
    wanted: Mapping[str, object], before: SettingsFileContents, after: SettingsFileContents
) -> bool:
    """Return whether only the wanted settings differ. ``BadRequest`` for file-only ones."""
    for name, value in wanted.items():
        if value is not None and not _is_same_type(value, structs.asdict(after.settings)[name]):
            raise BadRequest(f"{name}: found something else, expected text in quotes")
    others = [name for name in NAMES if name not in wanted]
    return all(getattr(before.settings, one) == getattr(after.settings, one) for one in others)


def _is_same_type(sent: object, taken: object) -> bool:
    """Return whether the type is the sent one: in the file 5 may be a text, in JSON it may not."""
    if isinstance(sent, list) and isinstance(taken, tuple):
        return all(map(_is_same_type, sent, taken))
    return isinstance(sent, str | dict) or not isinstance(taken, str)
