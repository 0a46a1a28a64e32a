"""What became of builds and deployments, and what autofix knows: in the state folder.

The formats are told in ``state/README.md``. Everything here blocks.
"""

import logging
import os
from threading import Lock
from typing import TypeVar

import msgspec
from msgspec import Struct

from agentd.disk import handwritten
from agentd.disk.document import TEMPORARY, make_folder, read, replace
from agentd.disk.layout import Layout
from agentd.disk.output_log import OutputLog, OutputPaths
from agentd.errors import AgentdError, Misconfigured, Mistake
from agentd.workspace.build import BuildStatus
from agentd.workspace.definition import (
    NAME,
    Build,
    Builds,
    Deployment,
    Deployments,
    unfit_builds,
    unfit_deployments,
)
from agentd.workspace.deployment import DeploymentStatus, Output
from agentd.workspace.fixing import AutofixStatus

FORMAT = 1
"""Of every file here."""
OUTPUT = 10 * 2**20
"""Bytes of a deployment's output that are shown; twice as many are kept at most."""

_LIMIT = 4 * 2**20

log = logging.getLogger(__name__)


class BuildJson(Struct, frozen=True):
    """``builds/<name>/result.json``."""

    format: int
    build: BuildStatus


class DeploymentJson(Struct, frozen=True):
    """``deployments/<name>/deployment.json``."""

    format: int
    deployment: DeploymentStatus


class AutofixJson(Struct, frozen=True):
    """``autofix.json``."""

    format: int
    autofix: AutofixStatus


def load_builds(layout: Layout) -> dict[str, Build]:
    """The builds of ``builds.yml``; none when there is no file. Raises ``Misconfigured``."""
    path = layout.builds_settings
    found = read(path, handwritten.LIMIT)
    return handwritten.load(path, found.data, Builds, unfit_builds).builds if found else {}


def load_deployments(layout: Layout) -> dict[str, Deployment]:
    """As ``load_builds``, of ``deployments.yml``."""
    path = layout.deployments_settings
    found = read(path, handwritten.LIMIT)
    if not found:
        return {}
    return handwritten.load(path, found.data, Deployments, unfit_deployments).deployments


class BuildFiles:
    """The builds' results and outputs; satisfies ``workspace.building.BuildStore``."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout

    def load(self) -> list[BuildStatus]:
        """Every build's last run; a file that cannot be read is told in the log."""
        found = [
            _loaded(self._layout.build_result(name), BuildJson)
            for name in _names(self._layout.builds)
        ]
        return [one.build for one in found if one]

    def save(self, status: BuildStatus, output: bytes) -> None:
        """Keep a run, and what it said. Raises ``Unavailable``."""
        make_folder(self._layout.build(status.name))
        replace(self._layout.build_output(status.name), output)
        _store(self._layout.build_result(status.name), BuildJson(FORMAT, status))

    def output(self, name: str) -> bytes:
        """What the last run said."""
        found = read(self._layout.build_output(name), 64 * 2**20)
        return found.data if found else b""


class DeploymentFiles:
    """The deployments and their outputs; satisfies ``workspace.deploying.DeploymentStore``."""

    def __init__(self, layout: Layout, limit: int = OUTPUT) -> None:
        self._layout = layout
        self._limit = limit
        self._logs: dict[str, OutputLog] = {}
        self._logs_lock = Lock()

    def load(self) -> list[DeploymentStatus]:
        """All that were ever started; a file that cannot be read is told in the log."""
        found = [
            _loaded(self._layout.deployment_file(name), DeploymentJson)
            for name in _names(self._layout.deployments)
        ]
        return [one.deployment for one in found if one]

    def save(self, status: DeploymentStatus) -> None:
        """Keep one. Raises ``Unavailable``."""
        make_folder(self._layout.deployment(status.name))
        _store(self._layout.deployment_file(status.name), DeploymentJson(FORMAT, status))

    def open_output(self, name: str) -> int:
        """A descriptor for all that a run is going to say, behind what the last one said."""
        make_folder(self._layout.deployment(name))
        return self._log(name).open()

    def trim(self, name: str) -> None:
        """Move what it said aside when that is too long: the program goes on in an empty file.

        What it says between the copying and the emptying is lost.
        """
        try:
            self._log(name).trim()
        except AgentdError as error:
            log.warning("the output of deployment %s is not cut: %s", name, error)

    def output(self, name: str, offset: int | None = None, most: int | None = None) -> Output:
        """The end of what it said from ``offset`` on: ``most`` bytes, or all that is shown."""
        return self._log(name).read(offset, most or OUTPUT)

    def _log(self, name: str) -> OutputLog:
        with self._logs_lock:  # asked for by several threads; a log's own lock must be one
            if name not in self._logs:
                paths = OutputPaths(*self._layout.deployment_outputs(name))
                self._logs[name] = OutputLog(paths, self._limit)
            return self._logs[name]


class AutofixFile:
    """What autofix knows; satisfies ``workspace.autofix.AutofixStore``."""

    def __init__(self, layout: Layout) -> None:
        self._path = layout.autofix

    def load(self) -> AutofixStatus:
        """What was kept; nothing is on when there is no file, or one that cannot be read."""
        found = _loaded(self._path, AutofixJson)
        return found.autofix if found else AutofixStatus()

    def save(self, status: AutofixStatus) -> None:
        """Keep it. Raises ``Unavailable``."""
        replace(self._path, msgspec.json.encode(AutofixJson(FORMAT, status)) + b"\n")


K = TypeVar("K", BuildJson, DeploymentJson, AutofixJson)


def _store(path: str, value: Struct) -> None:
    replace(path, msgspec.json.encode(value) + b"\n")


def _loaded(path: str, kind: type[K]) -> K | None:
    try:
        found = read(path, _LIMIT)
        if found is None:
            return None
        value = msgspec.json.decode(found.data, type=kind)
        if value.format > FORMAT:
            what = f"is format {value.format}; this version of agentd reads up to {FORMAT}"
            raise Misconfigured([Mistake(path, 1, what)])
    except (AgentdError, msgspec.DecodeError, UnicodeDecodeError) as error:
        log.error("%s is passed over: %s", path, error)
        return None
    return value


def _names(folder: str) -> list[str]:
    """The names of jobs that have a folder here; what a crash left half written is removed."""
    try:
        names = sorted(name for name in os.listdir(folder) if NAME.fullmatch(name))
    except FileNotFoundError:
        return []
    for name in names:
        for file in os.listdir(os.path.join(folder, name)):
            if file.startswith(TEMPORARY):
                os.unlink(os.path.join(folder, name, file))
    return names
