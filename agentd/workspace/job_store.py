"""The results of builds and deployments, and the state of autofix: in the state folder.

The formats are specified in ``state/README.md``. Everything here blocks.
"""

import logging
import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from threading import Lock
from typing import TypeVar

import msgspec
from msgspec import Struct

from agentd.core.errors import AgentdError, ConfigError, ConfigProblem
from agentd.storage.document import TEMPORARY_PREFIX, make_folder, read_document, replace_document
from agentd.storage.layout import Layout
from agentd.storage.yaml import reader as yaml_reader
from agentd.workspace.autofix.rules import AutofixStatus
from agentd.workspace.builds.build import BuildStatus
from agentd.workspace.definitions import (
    NAME,
    Build,
    Builds,
    Deployment,
    Deployments,
    validate_builds,
    validate_deployments,
)
from agentd.workspace.deployments.deployment import DeploymentStatus, OutputSlice
from agentd.workspace.deployments.output_log import OutputLog, OutputPaths

FORMAT = 1
"""The format of every file here."""
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
    """Load ``builds.yml``; empty when there is no file. Raises ``ConfigError``."""
    path = layout.builds_settings
    found = read_document(path, yaml_reader.MAX_FILE_SIZE)
    if not found:
        return {}
    return yaml_reader.load_yaml(path, found.data, Builds, validate_builds).builds or {}


def load_deployments(layout: Layout) -> dict[str, Deployment]:
    """Load ``deployments.yml``, as ``load_builds`` does ``builds.yml``."""
    path = layout.deployments_settings
    found = read_document(path, yaml_reader.MAX_FILE_SIZE)
    if not found:
        return {}
    listed = yaml_reader.load_yaml(path, found.data, Deployments, validate_deployments)
    return listed.deployments or {}


class BuildFiles:
    """The builds' results and outputs; satisfies ``workspace.builds.service.BuildStore``."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout

    def load(self) -> list[BuildStatus]:
        """Load every build's last run; unreadable files are logged."""
        found = [
            _load(self._layout.get_build_result_path(name), BuildJson)
            for name in _list_names(self._layout.builds)
        ]
        return [one.build for one in found if one]

    def save(self, status: BuildStatus, output: bytes) -> None:
        """Save a run and its output. Raises ``Unavailable``."""
        make_folder(self._layout.get_build_folder(status.name))
        replace_document(self._layout.get_build_output_path(status.name), output)
        _store(self._layout.get_build_result_path(status.name), BuildJson(FORMAT, status))

    def read_output(self, name: str) -> bytes:
        """Return the output of the last run."""
        found = read_document(self._layout.get_build_output_path(name), 64 * 2**20)
        return found.data if found else b""


class DeploymentFiles:
    """The deployments and their outputs; satisfies ``DeploymentStore``."""

    def __init__(self, layout: Layout, limit: int = OUTPUT) -> None:
        self._layout = layout
        self._limit = limit
        self._logs: dict[str, OutputLog] = {}
        self._logs_lock = Lock()

    def load(self) -> list[DeploymentStatus]:
        """Load all deployments ever started; unreadable files are logged."""
        found = [
            _load(self._layout.get_deployment_path(name), DeploymentJson)
            for name in _list_names(self._layout.deployments)
        ]
        return [one.deployment for one in found if one]

    def save(self, status: DeploymentStatus) -> None:
        """Save one. Raises ``Unavailable``."""
        make_folder(self._layout.get_deployment_folder(status.name))
        _store(self._layout.get_deployment_path(status.name), DeploymentJson(FORMAT, status))

    def open_output(self, name: str) -> int:
        """Open the output for appending; return the descriptor."""
        make_folder(self._layout.get_deployment_folder(name))
        return self._log(name).open()

    def trim(self, name: str) -> None:
        """Move the output aside when it is too long: the program continues in an empty file.

        What it says between the copying and the emptying is lost.
        """
        try:
            self._log(name).trim()
        except AgentdError as error:
            log.warning("the output of deployment %s is not cut: %s", name, error)

    def read_output(
        self, name: str, offset: int | None = None, most: int | None = None
    ) -> OutputSlice:
        """Return the end of the output from ``offset`` on: at most ``most`` bytes."""
        return self._log(name).read(offset, most or OUTPUT)

    def _log(self, name: str) -> OutputLog:
        with self._logs_lock:  # asked for by several threads; a log's own lock must be one
            if name not in self._logs:
                paths = OutputPaths(*self._layout.get_deployment_output_paths(name))
                self._logs[name] = OutputLog(paths, self._limit)
            return self._logs[name]


class AutofixFile:
    """The state of autofix; satisfies ``workspace.autofix.service.AutofixStore``."""

    def __init__(self, layout: Layout) -> None:
        self._path = layout.autofix

    def load(self) -> AutofixStatus:
        """Load what was saved; everything is off without a readable file."""
        found = _load(self._path, AutofixJson)
        return found.autofix if found else AutofixStatus()

    def save(self, status: AutofixStatus) -> None:
        """Save it. Raises ``Unavailable``."""
        replace_document(self._path, msgspec.json.encode(AutofixJson(FORMAT, status)) + b"\n")


K = TypeVar("K", BuildJson, DeploymentJson, AutofixJson)


def find_job_problems(layout: Layout) -> Iterator[ConfigProblem]:
    """Yield why files of builds, deployments and autofix would be passed over by a start."""
    builds = map(layout.get_build_result_path, _list_folders(layout.builds))
    deployments = map(layout.get_deployment_path, _list_folders(layout.deployments))
    yield from _find_problems(builds, BuildJson, "the build's last result is lost")
    yield from _find_problems(
        deployments, DeploymentJson, "a program that it started is not found again: end it yourself"
    )
    yield from _find_problems([layout.autofix], AutofixJson, "no build is fixed automatically")


def _find_problems(paths: Iterable[str], kind: type[K], outcome: str) -> Iterator[ConfigProblem]:
    for path in paths:
        try:
            _read(path, kind)
        except ConfigError as error:
            for one in error.problems:
                yield ConfigProblem(one.where, one.line, f"{one.what}: {outcome}")
        except AgentdError as error:
            yield ConfigProblem(path, 0, error.message)


def _store(path: str, value: Struct) -> None:
    replace_document(path, msgspec.json.encode(value) + b"\n")


def _load(path: str, kind: type[K]) -> K | None:
    try:
        return _read(path, kind)
    except AgentdError as error:
        log.error("%s; it is passed over", error)
        return None


def _read(path: str, kind: type[K]) -> K | None:
    """Return the content of a file, if there is one. Raises ``ConfigError`` or ``Unavailable``."""
    found = read_document(path, _LIMIT)
    if found is None:
        return None
    try:
        value = msgspec.json.decode(found.data, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ConfigError([ConfigProblem(path, 1, f"is damaged ({error})")]) from error
    if value.format > FORMAT:
        what = f"is format {value.format}; this version of agentd reads up to {FORMAT}"
        raise ConfigError([ConfigProblem(path, 1, what)])
    return value


def _list_names(folder: str) -> list[str]:
    """List jobs that have a folder here; remove files that a crash left half written."""
    names = _list_folders(folder)
    for name in names:
        with suppress(OSError):  # what cannot be read is told with its file
            for file in os.listdir(os.path.join(folder, name)):
                if file.startswith(TEMPORARY_PREFIX):
                    os.unlink(os.path.join(folder, name, file))
    return names


def _list_folders(folder: str) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return sorted(one.name for one in entries if NAME.fullmatch(one.name) and one.is_dir())
    except FileNotFoundError:
        return []
    except OSError as error:
        log.error("%s is passed over: %s", folder, error.strerror)
        return []
