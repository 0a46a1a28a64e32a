"""The hand-written definitions of the workspace's builds and deployments.

The same ``Builds`` and ``Deployments`` are the schemas of ``builds.yml`` and
``deployments.yml`` and what the daemon runs with. A name is a key of their maps, never a part
of a command.
"""

import re
from collections.abc import Awaitable, Iterator, Mapping
from typing import Annotated, Literal, Protocol, TypeAlias, TypeVar

from msgspec import Meta, Struct

from agentd.workspace.builds.problems import ToolName

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
"""The name of a build or a deployment; also of its folder."""
NAME_FORM = "at most 64 letters, digits and . _ -, not beginning with a sign"

Line: TypeAlias = Annotated[str, Meta(min_length=1, max_length=4096)]
Command: TypeAlias = tuple[Line, ...]
"""A program and its arguments; no shell reads it."""
Folder: TypeAlias = Annotated[str, Meta(min_length=1, max_length=1000)]
Variables: TypeAlias = dict[str, Annotated[str, Meta(extra={"secret": True}, max_length=32768)]]
"""Set in the program's environment; the values are never shown."""
Restart: TypeAlias = Literal["never", "on-failure", "always"]

_VARIABLE = re.compile("[A-Za-z_][A-Za-z0-9_]*")
_OURS = "AGENTD_"
"""The prefix of the variables by which our own programs are found."""

Place: TypeAlias = tuple[str | int, ...]


D_co = TypeVar("D_co", covariant=True)


class Definitions(Protocol[D_co]):
    """The current contents of a file, by name (``storage.watched_file.WatchedFile``)."""

    @property
    def current(self) -> Mapping[str, D_co]:
        """The last good content."""
        ...

    def ensure_current(self) -> Awaitable[None]:
        """Apply an edit that was not noticed yet."""
        ...


class Build(Struct, frozen=True):
    """A build: its command and the problems to look for."""

    command: Command
    folder: Folder = "."
    """Inside the workspace."""
    environment: Variables = {}
    timeout: Annotated[float, Meta(ge=1, le=86400)] = 1800.0
    """Seconds after which it is ended."""
    patterns: tuple[ToolName, ...] = ()
    """The tools whose errors and warnings to look for; empty: all."""


class Builds(Struct, frozen=True):
    """``builds.yml``."""

    builds: dict[str, Build] | None = None


class HealthCheck(Struct, frozen=True):
    """The health check of a deployment: a ``url`` that answers 2xx or 3xx, or a ``port``."""

    url: Annotated[
        str,
        Meta(
            pattern="(https?://[^\\s/?#@]+[^\\s#]*)?",
            max_length=1000,
            extra={"form": "an address such as http://127.0.0.1:8000/healthz"},
        ),
    ] = ""
    port: Annotated[int, Meta(ge=1, le=65535)] | None = None
    """A port on this host's loopback, of either version of IP."""
    start_seconds: Annotated[float, Meta(ge=0.1, le=3600)] = 30.0
    """The seconds that it may take to become healthy after a start."""
    interval_seconds: Annotated[float, Meta(ge=0.1, le=3600)] = 10.0
    """The seconds from one check to the next."""

    def __post_init__(self) -> None:
        if bool(self.url) == (self.port is not None):
            raise ValueError("give either a url or a port")


class Deployment(Struct, frozen=True):
    """A deployment: its command and when to restart it."""

    command: Command
    folder: Folder = "."
    """Inside the workspace."""
    environment: Variables = {}
    health: HealthCheck | None = None
    restart: Restart = "on-failure"
    backoff: Annotated[float, Meta(ge=0.05, le=3600)] = 1.0
    """Seconds before it is run again; twice as long after each failure in a row ..."""
    backoff_max: Annotated[float, Meta(ge=0.05, le=86400)] = 60.0
    """... up to this."""
    stop_seconds: Annotated[float, Meta(ge=0, le=600)] = 10.0
    """The seconds that it may take to exit after SIGTERM, before SIGKILL."""


class Deployments(Struct, frozen=True):
    """``deployments.yml``."""

    deployments: dict[str, Deployment] | None = None


def validate_builds(file: Builds) -> Iterator[tuple[Place, str]]:
    """Yield the problems of ``builds.yml`` beyond its schema, each with its place."""
    yield from _validate_jobs("builds", file.builds or {})


def validate_deployments(file: Deployments) -> Iterator[tuple[Place, str]]:
    """Yield the problems of ``deployments.yml`` beyond its schema, each with its place."""
    yield from _validate_jobs("deployments", file.deployments or {})


def _validate_jobs(
    kind: str, jobs: Mapping[str, Build | Deployment]
) -> Iterator[tuple[Place, str]]:
    seen: dict[str, str] = {}
    for name, job in jobs.items():
        place = (kind, name)
        if not NAME.fullmatch(name):
            yield place, f"is not a valid name: expected {NAME_FORM}"
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
                yield (*place, "environment", variable), "is not a valid variable name"
            elif variable.startswith(_OURS):
                yield (*place, "environment", variable), f"{_OURS}… is for agentd itself"
