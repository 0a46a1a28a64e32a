"""What answers and events show of builds and deployments."""

from typing import Literal

from msgspec import Struct, structs

from agentd.clock import Timestamp
from agentd.workspace.build import BuildState, BuildStatus
from agentd.workspace.deployment import DeploymentState, DeploymentStatus
from agentd.workspace.problems import Problem


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


class BuildDetailView(BuildView, frozen=True, rename="camel", kw_only=True):
    """A build's last run with its problems, the errors first."""

    problems: tuple[Problem, ...]


class JobOutputView(Struct, frozen=True):
    """What a build or deployment said since the last time, but for ``skipped`` bytes before it."""

    name: str
    run: str
    text: str
    skipped: int


class DeploymentView(Struct, frozen=True, rename="camel"):
    """A deployment; ``unknown`` is one that is not written down, and was not started."""

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
    """A build at a glance."""
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


def build_detail_view(build: BuildStatus) -> BuildDetailView:
    """A build with its problems."""
    return BuildDetailView(**structs.asdict(build_view(build)), problems=build.problems)


def deployment_view(deployment: DeploymentStatus) -> DeploymentView:
    """A deployment as answers and events show it."""
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
