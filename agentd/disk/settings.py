"""Where the settings come from: the command line, the environment, ``.env`` and ``agentd.yml``."""

import os
from collections.abc import Callable, Mapping
from os.path import abspath, expanduser, isdir, isfile, join
from typing import NamedTuple, TypeVar

from msgspec import structs

from agentd.catalog.settings import CONFIG_VARIABLE, VARIABLES, Settings, given, resolve
from agentd.disk import document, dotenv, handwritten
from agentd.disk.layout import Layout
from agentd.errors import Misconfigured, Mistake

T = TypeVar("T")

LIMIT = handwritten.LIMIT


class Place(NamedTuple):
    """What the daemon runs with, and where its files are. All paths are absolute."""

    settings: Settings
    layout: Layout


def load(options: Mapping[str, str], environ: Mapping[str, str], folder: str) -> Place:
    """Resolve the settings for a command that was typed in ``folder``.

    ``options`` is what was typed on the command line, by setting and ``config``. The precedence
    is: command line, environment, ``.env``, file. A missing file means the defaults. Raises
    ``Misconfigured`` with the mistakes of every source at once.
    """
    mistakes: list[Mistake] = []
    variables: dict[str, str] = {}
    variables = _collected(mistakes, lambda: _dotenv(join(folder, ".env")), variables)
    typed = given(options, environ, variables)
    state, config = default_folders(environ, folder)
    config = _path(folder, typed.get("config", (config, ""))[0])
    path = Layout(state, config).settings
    file = _collected(mistakes, lambda: _file(path), Settings())
    settings = _collected(mistakes, lambda: resolve(typed, file, path), Settings())
    if mistakes:
        raise Misconfigured(mistakes)
    settings = structs.replace(
        settings,
        state=_path(folder, settings.state or state),
        workspace=_path(folder, settings.workspace),
    )
    return Place(settings, Layout(settings.state, config))


def default_folders(environ: Mapping[str, str], folder: str) -> tuple[str, str]:
    """State and config when nobody named them.

    Under systemd the ones that it made; in a checkout of agentd ``state`` and ``config`` there;
    else the user's own (XDG).
    """
    if isdir(join(folder, "agentd")) and isfile(join(folder, "setup.cfg")):
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


def _dotenv(path: str) -> dict[str, str]:
    found = document.read(path, LIMIT)
    return dotenv.load(path, found.data, [*VARIABLES, CONFIG_VARIABLE]) if found else {}


def _file(path: str) -> Settings:
    found = document.read(path, LIMIT)
    return handwritten.load(path, found.data, Settings) if found else Settings()


def _collected(mistakes: list[Mistake], read: Callable[[], T], otherwise: T) -> T:
    try:
        return read()
    except Misconfigured as error:
        mistakes += error.mistakes
        return otherwise
