"""What can be built and run of the workspace, as a person wrote it down.

The same ``Builds`` and ``Deployments`` are the schemas of ``builds.yml`` and
``deployments.yml`` and what the daemon runs with. A name is a key of their maps, never a part
of a command.
"""

import re
from collections.abc import Awaitable, Iterator, Mapping
from typing import Annotated, Literal, Protocol, TypeAlias, TypeVar

from msgspec import Meta, Struct

from agentd.workspace.problems import ToolName

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
"""Of a build or a deployment; also the name of its folder."""

Line: TypeAlias = Annotated[str, Meta(min_length=1, max_length=4096)]
Command: TypeAlias = tuple[Line, ...]
"""A program and its arguments; no shell reads it."""
Folder: TypeAlias = Annotated[str, Meta(min_length=1, max_length=1000)]
Variables: TypeAlias = dict[str, Annotated[str, Meta(extra={"secret": True}, max_length=32768)]]
"""Set in the program's environment; the values are never shown."""
Restart: TypeAlias = Literal["never", "on-failure", "always"]

_VARIABLE = re.compile("[A-Za-z_][A-Za-z0-9_]*")
_OURS = "AGENTD_"
"""How the names of variables begin by which programs of ours are found."""

Place: TypeAlias = tuple[str | int, ...]


D_co = TypeVar("D_co", covariant=True)


class Definitions(Protocol[D_co]):
    """What one of the files says, by name (``disk.reload.Reloaded``)."""

    @property
    def current(self) -> Mapping[str, D_co]:
        """The last good content."""
        ...

    def ensure_current(self) -> Awaitable[None]:
        """Take in an edit that nobody has noticed yet."""
        ...


class Build(Struct, frozen=True):
    """How to build something."""

    command: Command
    folder: Folder = "."
    """Inside the workspace."""
    environment: Variables = {}
    timeout: Annotated[float, Meta(ge=1, le=86400)] = 1800.0
    """Seconds after which it is ended."""
    patterns: tuple[ToolName, ...] = ()
    """Whose errors and warnings to look for; empty: everybody's."""


class Builds(Struct, frozen=True):
    """``builds.yml``."""

    builds: dict[str, Build] = {}


class Health(Struct, frozen=True):
    """What shows that a deployment works: a ``url`` that answers 2xx or 3xx, or a ``port``."""

    url: Annotated[str, Meta(pattern="(https?://[^\\s/?#@]+[^\\s#]*)?", max_length=1000)] = ""
    port: Annotated[int, Meta(ge=1, le=65535)] | None = None
    """On this host's loopback."""
    seconds: Annotated[float, Meta(ge=0.1, le=3600)] = 30.0
    """How long it may take to work after a start."""
    every: Annotated[float, Meta(ge=0.1, le=3600)] = 10.0
    """Seconds from one look to the next."""

    def __post_init__(self) -> None:
        if bool(self.url) == (self.port is not None):
            raise ValueError("give either a url or a port")


class Deployment(Struct, frozen=True):
    """How to run something, and when to run it again."""

    command: Command
    folder: Folder = "."
    """Inside the workspace."""
    environment: Variables = {}
    health: Health | None = None
    restart: Restart = "on-failure"
    backoff: Annotated[float, Meta(ge=0.05, le=3600)] = 1.0
    """Seconds before it is run again; twice as long after each failure in a row ..."""
    backoff_longest: Annotated[float, Meta(ge=0.05, le=86400)] = 60.0
    """... up to this."""
    stop_seconds: Annotated[float, Meta(ge=0, le=600)] = 10.0
    """How long it may take to end when it is asked to, before it is made to."""


class Deployments(Struct, frozen=True):
    """``deployments.yml``."""

    deployments: dict[str, Deployment] = {}


def unfit_builds(file: Builds) -> Iterator[tuple[Place, str]]:
    """What is wrong with ``builds.yml`` beyond its schema: where, and why."""
    yield from _unfit("builds", file.builds)


def unfit_deployments(file: Deployments) -> Iterator[tuple[Place, str]]:
    """What is wrong with ``deployments.yml`` beyond its schema: where, and why."""
    yield from _unfit("deployments", file.deployments)


def _unfit(kind: str, jobs: Mapping[str, Build | Deployment]) -> Iterator[tuple[Place, str]]:
    seen: dict[str, str] = {}
    for name, job in jobs.items():
        place = (kind, name)
        if not NAME.fullmatch(name):
            yield place, f"is no name: expected text like {NAME.pattern}"
        if twin := seen.get(name.lower()):
            yield place, f'differs from "{twin}" by upper and lower case only; choose another'
        seen[name.lower()] = name
        if not job.command:
            yield (*place, "command"), "is empty; expected a program and its arguments"
        if job.folder.startswith("/") or ".." in job.folder.split("/"):
            yield (*place, "folder"), "leads out of the workspace; expected a folder inside it"
        for part in (*job.command, job.folder, *job.environment.values()):
            if "\0" in part:
                yield place, "has a NUL character in it"
        for variable in job.environment:
            if not _VARIABLE.fullmatch(variable):
                yield (*place, "environment", variable), "is no name of a variable"
            elif variable.startswith(_OURS):
                yield (*place, "environment", variable), f"{_OURS}… is for agentd itself"
