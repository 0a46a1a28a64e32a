"""The views of builds and deployments in responses and events."""

import posixpath
from typing import Literal

from msgspec import Struct, structs

from agentd.core.clock import Timestamp
from agentd.core.events import Event
from agentd.workspace.builds.build import BuildState, BuildStatus
from agentd.workspace.builds.problems import Severity
from agentd.workspace.deployments.deployment import DeploymentState, DeploymentStatus


class BuildView(Struct, frozen=True, rename="camel"):
    """A build's last run, without the list of its problems."""

    name: str
    state: BuildState
    run: str
    started_by: str
    started: Timestamp | None
    ended: Timestamp | None
    exit_code: int | None
    errors: int
    warnings: int
    size: int
    omitted: int
    message: str


class ProblemView(Struct, frozen=True):
    """An error or a warning; ``path`` is its file in the workspace, empty when it is not there."""

    severity: Severity
    text: str
    file: str
    line: int
    column: int
    tool: str
    path: str


class BuildDetailView(BuildView, frozen=True, rename="camel", kw_only=True):
    """A build's last run with its problems, the errors first."""

    problems: tuple[ProblemView, ...]


class JobOutputView(Struct, frozen=True):
    """The output of a build or deployment since the last time, without ``skipped`` bytes before it.

    ``offset`` and ``end`` count bytes as ``X-Output-Next`` of its output does, so that who has read
    the output knows what of this is new.
    """

    name: str
    run: str
    text: str
    skipped: int
    offset: int
    end: int


class JobOutput(Event, frozen=True):
    """A build or deployment said more: ``output``. Several are gathered into one."""

    output: JobOutputView

    def build_arguments(self, run: str) -> list[object]:
        """Return its arguments on the wire."""
        return [self.output]


class DeploymentView(Struct, frozen=True, rename="camel"):
    """A deployment; ``unknown``: it is not in ``deployments.yml``, and was not started."""

    name: str
    state: DeploymentState | Literal["unknown"]
    wanted: bool = False
    pid: int = 0
    started: Timestamp | None = None
    ended: Timestamp | None = None
    exit_code: int | None = None
    failures: int = 0
    restarts: int = 0
    crash_loop: bool = False
    message: str = ""


def build_view(build: BuildStatus) -> BuildView:
    """Return the view of a build, without its problems."""
    return BuildView(
        build.name,
        build.state,
        build.run,
        build.started_by,
        build.started or None,
        build.ended or None,
        build.exit_code,
        build.errors,
        build.warnings,
        build.size,
        build.omitted,
        build.message,
    )


def build_detail_view(build: BuildStatus, workspace: str, folder: str) -> BuildDetailView:
    """Return the view of a build with its problems; ``folder`` is where in the workspace it runs.

    A program names files as its folder sees them.
    """
    problems = tuple(
        ProblemView(**structs.asdict(problem), path=locate_problem(workspace, folder, problem.file))
        for problem in build.problems
    )
    return BuildDetailView(**structs.asdict(build_view(build)), problems=problems)


def locate_problem(workspace: str, folder: str, file: str) -> str:
    """Return the path in the workspace of a file that a build in ``folder`` names.

    Empty without a file, and for one outside. No file is looked at.
    """
    if not file:
        return ""
    root = posixpath.normpath(workspace)
    path = posixpath.relpath(posixpath.normpath(posixpath.join(root, folder, file)), root)
    return "" if path == "." or path.split("/")[0] == ".." else path


def make_deployment_view(deployment: DeploymentStatus) -> DeploymentView:
    """Return the view of a deployment."""
    return DeploymentView(
        deployment.name,
        deployment.state,
        deployment.wanted,
        deployment.process.pid if deployment.process else 0,
        deployment.started or None,
        deployment.ended or None,
        deployment.exit_code,
        deployment.failures,
        deployment.restarts,
        deployment.crash_loop,
        deployment.message,
    )
