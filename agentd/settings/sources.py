"""The sources of settings: the command line, the environment, ``.env`` and ``agentd.yml``."""

import os
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import replace
from os.path import abspath, dirname, expanduser, isfile, join, realpath
from typing import NamedTuple, TypeVar

from msgspec import structs

from agentd.core.errors import ConfigError, ConfigProblem
from agentd.settings import dotenv
from agentd.settings.model import (
    CONFIG_VARIABLE,
    DOTENV_VARIABLES,
    VARIABLES,
    Settings,
    SourcedValue,
    collect_overrides,
    resolve_settings,
)
from agentd.settings.status import SettingsFileContents
from agentd.storage import document
from agentd.storage.layout import Layout
from agentd.storage.yaml import reader as yaml_reader
from agentd.system.protected_paths import explain_unusable_workspace

T = TypeVar("T")

LIMIT = yaml_reader.MAX_FILE_SIZE

UNIT_WORKSPACE = "AGENTD_DEFAULT_WORKSPACE"
"""The variable by which a unit names the workspace for who names none: the lowest source."""

PACKAGE = dirname(dirname(realpath(__file__)))
"""The folder of the package that runs."""


class Overrides(NamedTuple):
    """Settings of the command line and environment; they override ``agentd.yml``."""

    from_cli_and_env: Mapping[str, SourcedValue]
    folder: str
    """The folder that relative paths start from."""
    state: str
    """The default state folder."""
    workspace: str = ""
    """The default workspace; empty for ``folder``."""
    unused: tuple[str, ...] = ()
    """Variables of the folder's ``.env`` that are agentd's, but not taken from there."""

    @property
    def dotenv(self) -> str:
        """The path of the file ``.env``."""
        return join(self.folder, ".env")

    def resolve(self, file: SettingsFileContents, where: str) -> Settings:
        """Return the effective settings for this content of ``where``, with absolute paths.

        Raises ``ConfigError`` with every mistake.
        """
        try:
            settings = resolve_settings(self.from_cli_and_env, file.settings, where)
        except ConfigError as error:
            raise ConfigError([_find_line(one, file, where) for one in error.problems]) from error
        state = _resolve_path(self.folder, settings.state or self.state)
        workspace = _resolve_path(self.folder, settings.workspace or self.workspace)
        if why := explain_unusable_workspace(realpath(workspace), realpath(state)):
            _, source = self.from_cli_and_env.get("workspace", ("", where))
            line = file.lines.get("workspace", 0) if source == where else 0
            raise ConfigError([ConfigProblem(source, line, why)])
        return structs.replace(settings, state=state, workspace=workspace)


def _find_line(problem: ConfigProblem, file: SettingsFileContents, where: str) -> ConfigProblem:
    """Add the line of the setting that a problem of the file names."""
    name, _, _ = problem.what.partition(":")
    line = file.lines.get(name, 0) if problem.where == where else 0
    return replace(problem, line=line)


class ResolvedConfig(NamedTuple):
    """The daemon's configuration and the places of its files. All paths are absolute."""

    settings: Settings
    layout: Layout
    overrides: Overrides

    @property
    def sources(self) -> str:
        """The source of each setting, for a reader; without values."""
        return describe_sources(self.settings, self.layout, self.overrides)


def describe_sources(settings: Settings, layout: Layout, outside: Overrides) -> str:
    """Describe the sources of the settings and the resulting folders, without values."""
    by_place: defaultdict[str, list[str]] = defaultdict(list)
    for _, source in outside.from_cli_and_env.values():
        variable, in_file, path = source.partition(" in ")
        place = "command line" if source.startswith("--") else path if in_file else "environment"
        by_place[place].append(variable)
    parts = [f"{place} ({', '.join(names)})" for place, names in by_place.items()]
    files = [layout.settings] if isfile(layout.settings) else []
    return (
        f"settings from {', '.join([*parts, *files]) or 'nowhere, the defaults hold'};"
        f" config {layout.config}, state {layout.state}, workspace {settings.workspace}"
    )


def describe_unused(outside: Overrides) -> str:
    """Name the variables of a ``.env`` that are ignored, and their place; empty if none."""
    if not outside.unused:
        return ""
    return (
        f"{outside.dotenv}: {', '.join(outside.unused)} not taken from here, where only"
        f" {' and '.join(DOTENV_VARIABLES)} may stand; use the environment or agentd.yml"
    )


class _Sources:
    """The settings of every source, and all problems found in them."""

    def __init__(self, options: Mapping[str, str], environ: Mapping[str, str], folder: str) -> None:
        self.problems: list[ConfigProblem] = []
        path = join(folder, ".env")
        dotenv_file = self.collect(lambda: _read_dotenv(path), _Dotenv({}, ()))
        self.typed = collect_overrides(options, environ, dotenv_file.taken, path)
        self.state, config = find_default_folders(environ, folder)
        self.config = _resolve_path(folder, self.typed.get("config", (config, ""))[0])
        self.outside = Overrides(
            self.typed,
            folder,
            self.state,
            environ.get(UNIT_WORKSPACE, ""),
            dotenv_file.unused,
        )
        self.path = Layout(self.state, self.config).settings
        self.file = self.collect(lambda: read_settings_file(self.path), SettingsFileContents())

    def collect(self, read: Callable[[], T], default: T) -> T:
        """Return the value that ``read`` returns; collect its problems and return ``default``."""
        try:
            return read()
        except ConfigError as error:
            self.problems += error.problems
            return default


def load(options: Mapping[str, str], environ: Mapping[str, str], folder: str) -> ResolvedConfig:
    """Resolve the settings for a command that was typed in ``folder``.

    ``options`` is what was typed on the command line, by setting and ``config``. The precedence
    is: command line, environment, ``.env``, file. A missing file means the defaults. Raises
    ``ConfigError`` with the mistakes of every source at once.
    """
    sources = _Sources(options, environ, folder)
    settings = sources.collect(
        lambda: sources.outside.resolve(sources.file, sources.path), Settings()
    )
    if sources.problems:
        raise ConfigError(sources.problems)
    return ResolvedConfig(settings, Layout(settings.state, sources.config), sources.outside)


def locate(options: Mapping[str, str], environ: Mapping[str, str], folder: str) -> Layout:
    """Locate the files without reading settings: a mistake in one must not block a revocation.

    Raises ``ConfigError`` only if the place is unknown, because it may be named where
    the mistake is.
    """
    sources = _Sources(options, environ, folder)
    state, _ = sources.typed.get("state", (sources.file.settings.state or sources.state, ""))
    if sources.problems and "state" not in sources.typed:
        raise ConfigError(sources.problems)
    return Layout(_resolve_path(folder, state), sources.config)


def find_default_folders(environ: Mapping[str, str], folder: str) -> tuple[str, str]:
    """Return the default folders of state and config.

    Under systemd the ones that it made; in the checkout that this very package runs from,
    ``state`` and ``config`` there; else the user's own (XDG). Another folder that only looks like
    a checkout may be a stranger's repository, whose files must not command this daemon.
    """
    if join(realpath(folder), "agentd") == PACKAGE and isfile(join(folder, "setup.cfg")):
        state, config = join(folder, "state"), join(folder, "config")
    else:
        state = join(_apply_xdg(environ, "XDG_STATE_HOME", "~/.local/state"), "agentd")
        config = join(_apply_xdg(environ, "XDG_CONFIG_HOME", "~/.config"), "agentd")
    return (
        environ.get("STATE_DIRECTORY", "").split(":")[0] or state,
        environ.get("CONFIGURATION_DIRECTORY", "").split(":")[0] or config,
    )


def _apply_xdg(environ: Mapping[str, str], variable: str, default: str) -> str:
    """Apply the XDG rule: a path that is not absolute is ignored."""
    named = environ.get(variable, "")
    return named if os.path.isabs(named) else expanduser(default)


def _resolve_path(folder: str, path: str) -> str:
    expanded = expanduser(path)
    if expanded.startswith("~"):  # a folder of this name would be made in the working folder
        home = path.split("/", maxsplit=1)[0]
        whose = "for no folder: HOME is not set" if home == "~" else "for no user's home"
        what = f"{home} stands {whose}; name another folder (--state, --config, --workspace)"
        raise ConfigError([ConfigProblem(path, 0, what)])
    return abspath(join(folder, expanded))


class _Dotenv(NamedTuple):
    """The contents of a file ``.env``: the values used, and the variables that were ignored."""

    taken: Mapping[str, str]
    unused: tuple[str, ...]


def _read_dotenv(path: str, *, own: bool = False) -> _Dotenv:
    """Read a file ``.env``; empty when there is none. With ``own``, it must be only ours.

    It has to be where it names keys: others may have write access to the working folder.
    """
    found = document.read_document(path, LIMIT, own=own)
    if found is None:
        return _Dotenv({}, ())
    others = [name for name in (*VARIABLES, CONFIG_VARIABLE) if name not in DOTENV_VARIABLES]
    taken = dotenv.load(path, found.data, DOTENV_VARIABLES)
    if any(taken.values()) and not own:
        return _read_dotenv(path, own=True)
    return _Dotenv(taken, dotenv.find_assigned(found.data, others))


def read_settings_file(path: str) -> SettingsFileContents:
    """Read ``agentd.yml``; empty when there is none. Blocking.

    Raises ``ConfigError`` or ``Unavailable``.
    """
    found = document.read_document(path, LIMIT)
    return parse_settings_file(path, found.data) if found else SettingsFileContents()


def parse_settings_file(path: str, data: bytes) -> SettingsFileContents:
    """Parse this content of ``agentd.yml``. Raises ``ConfigError``."""
    return SettingsFileContents(
        yaml_reader.load_yaml(path, data, Settings), yaml_reader.find_entry_lines(data)
    )
