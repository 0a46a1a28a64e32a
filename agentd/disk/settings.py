"""Where the settings come from: the command line, the environment, ``.env`` and ``agentd.yml``."""

import os
from collections import defaultdict
from collections.abc import Callable, Mapping
from os.path import abspath, dirname, expanduser, isfile, join, realpath
from typing import NamedTuple, TypeVar

from msgspec import structs

from agentd.agent.protected import why_no_workspace
from agentd.catalog.settings import (
    CONFIG_VARIABLE,
    DOTENV_VARIABLES,
    VARIABLES,
    Given,
    Settings,
    given,
    resolve,
)
from agentd.catalog.standing import Written
from agentd.disk import document, dotenv, handwritten
from agentd.disk.layout import Layout
from agentd.errors import Misconfigured, Mistake

T = TypeVar("T")

LIMIT = handwritten.LIMIT

UNIT_WORKSPACE = "AGENTD_DEFAULT_WORKSPACE"
"""The variable by which a unit names the workspace for who names none: the lowest source."""

PACKAGE = dirname(dirname(realpath(__file__)))
"""The folder of the package that runs."""


class Outside(NamedTuple):
    """What was said beside ``agentd.yml``, for as long as the daemon lives; it comes before it."""

    typed: Mapping[str, Given]
    folder: str
    """Where paths begin that are not absolute."""
    state: str
    """The state folder when nobody names one."""
    workspace: str = ""
    """The workspace when nobody names one; empty: ``folder``."""
    unused: tuple[str, ...] = ()
    """Variables of the folder's ``.env`` that are agentd's, but not taken from there."""

    @property
    def dotenv(self) -> str:
        """The file ``.env`` that was looked for."""
        return join(self.folder, ".env")

    def settled(self, file: Settings, where: str) -> Settings:
        """The settings that hold when the file ``where`` says this; their paths are absolute.

        Raises ``Misconfigured`` with every mistake.
        """
        settings = resolve(self.typed, file, where)
        state = _path(self.folder, settings.state or self.state)
        workspace = _path(self.folder, settings.workspace or self.workspace)
        if why := why_no_workspace(realpath(workspace), realpath(state)):
            _, source = self.typed.get("workspace", ("", where))
            raise Misconfigured([Mistake(source, 0, why)])
        return structs.replace(settings, state=state, workspace=workspace)


class Place(NamedTuple):
    """What the daemon runs with, and where its files are. All paths are absolute."""

    settings: Settings
    layout: Layout
    outside: Outside

    @property
    def sources(self) -> str:
        """Whose word the settings are, for a reader; no value is told."""
        return describe_sources(self.settings, self.layout, self.outside)


def describe_sources(settings: Settings, layout: Layout, outside: Outside) -> str:
    """Return where the settings come from and the folders they lead to, without any value."""
    by_place: defaultdict[str, list[str]] = defaultdict(list)
    for _, source in outside.typed.values():
        variable, in_file, path = source.partition(" in ")
        place = "command line" if source.startswith("--") else path if in_file else "environment"
        by_place[place].append(variable)
    told = [f"{place} ({', '.join(names)})" for place, names in by_place.items()]
    files = [layout.settings] if isfile(layout.settings) else []
    return (
        f"settings from {', '.join([*told, *files]) or 'nowhere, the defaults hold'};"
        f" config {layout.config}, state {layout.state}, workspace {settings.workspace}"
    )


def describe_unused(outside: Outside) -> str:
    """Return what of a ``.env`` was passed over, and where it may stand; empty for nothing."""
    if not outside.unused:
        return ""
    return (
        f"{outside.dotenv}: {', '.join(outside.unused)} not taken from here, where only"
        f" {' and '.join(DOTENV_VARIABLES)} may stand; use the environment or agentd.yml"
    )


class _Sources:
    """What every source says, and all that is wrong with any of them."""

    def __init__(self, options: Mapping[str, str], environ: Mapping[str, str], folder: str) -> None:
        self.mistakes: list[Mistake] = []
        path = join(folder, ".env")
        dotenv_file = self.collected(lambda: _dotenv(path), _Dotenv({}, ()))
        self.typed = given(options, environ, dotenv_file.taken, path)
        self.state, config = default_folders(environ, folder)
        self.config = _path(folder, self.typed.get("config", (config, ""))[0])
        self.outside = Outside(
            self.typed,
            folder,
            self.state,
            environ.get(UNIT_WORKSPACE, ""),
            dotenv_file.unused,
        )
        self.path = Layout(self.state, self.config).settings
        self.file = self.collected(lambda: written(self.path).settings, Settings())

    def collected(self, read: Callable[[], T], otherwise: T) -> T:
        """What was read; ``otherwise`` when there are mistakes, which are kept."""
        try:
            return read()
        except Misconfigured as error:
            self.mistakes += error.mistakes
            return otherwise


def load(options: Mapping[str, str], environ: Mapping[str, str], folder: str) -> Place:
    """Resolve the settings for a command that was typed in ``folder``.

    ``options`` is what was typed on the command line, by setting and ``config``. The precedence
    is: command line, environment, ``.env``, file. A missing file means the defaults. Raises
    ``Misconfigured`` with the mistakes of every source at once.
    """
    said = _Sources(options, environ, folder)
    settings = said.collected(lambda: said.outside.settled(said.file, said.path), Settings())
    if said.mistakes:
        raise Misconfigured(said.mistakes)
    return Place(settings, Layout(settings.state, said.config), said.outside)


def locate(options: Mapping[str, str], environ: Mapping[str, str], folder: str) -> Layout:
    """Only where the files are: a mistake in some setting keeps nobody from revoking a key.

    Raises ``Misconfigured`` when just the place cannot be told, because it may be named where
    the mistake is.
    """
    said = _Sources(options, environ, folder)
    state, _ = said.typed.get("state", (said.file.state or said.state, ""))
    if said.mistakes and "state" not in said.typed:
        raise Misconfigured(said.mistakes)
    return Layout(_path(folder, state), said.config)


def default_folders(environ: Mapping[str, str], folder: str) -> tuple[str, str]:
    """State and config when nobody named them.

    Under systemd the ones that it made; in the checkout that this very package runs from,
    ``state`` and ``config`` there; else the user's own (XDG). Another folder that only looks like
    a checkout may be a stranger's repository, whose files must not command this daemon.
    """
    if join(realpath(folder), "agentd") == PACKAGE and isfile(join(folder, "setup.cfg")):
        state, config = join(folder, "state"), join(folder, "config")
    else:
        state = join(_xdg(environ, "XDG_STATE_HOME", "~/.local/state"), "agentd")
        config = join(_xdg(environ, "XDG_CONFIG_HOME", "~/.config"), "agentd")
    return (
        environ.get("STATE_DIRECTORY", "").split(":")[0] or state,
        environ.get("CONFIGURATION_DIRECTORY", "").split(":")[0] or config,
    )


def _xdg(environ: Mapping[str, str], variable: str, default: str) -> str:
    """The XDG rule: a path that is not absolute is ignored."""
    named = environ.get(variable, "")
    return named if os.path.isabs(named) else expanduser(default)


def _path(folder: str, path: str) -> str:
    return abspath(join(folder, expanduser(path)))


class _Dotenv(NamedTuple):
    """What a file ``.env`` says of agentd: what is taken, and which variables are not."""

    taken: Mapping[str, str]
    unused: tuple[str, ...]


def _dotenv(path: str) -> _Dotenv:
    found = document.read(path, LIMIT)
    if found is None:
        return _Dotenv({}, ())
    others = [name for name in (*VARIABLES, CONFIG_VARIABLE) if name not in DOTENV_VARIABLES]
    taken = dotenv.load(path, found.data, DOTENV_VARIABLES)
    return _Dotenv(taken, dotenv.find_assigned(found.data, others))


def written(path: str) -> Written:
    """What ``agentd.yml`` says; nothing when there is none. Blocking.

    Raises ``Misconfigured`` or ``Unavailable``.
    """
    found = document.read(path, LIMIT)
    return parsed(path, found.data) if found else Written()


def parsed(path: str, data: bytes) -> Written:
    """What this content of ``agentd.yml`` says. Raises ``Misconfigured``."""
    return Written(handwritten.load(path, data, Settings), handwritten.lines(data))
