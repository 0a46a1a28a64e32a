"""The events of builds."""

from typing import ClassVar

from agentd.core.events import Event
from agentd.workspace.builds.build import BuildStatus
from agentd.workspace.job_views import JobOutput, build_view


class BuildUpdate(Event, frozen=True):
    """A build began, ended, or found more problems: ``build``. No ``seq``, as all below."""

    name: ClassVar[str] = "buildUpdate"
    build: BuildStatus

    def build_arguments(self, run: str) -> list[object]:
        """Return its arguments on the wire."""
        return [build_view(self.build)]


class BuildsUpdate(Event, frozen=True):
    """``builds.yml`` says something else, or has other problems: the ``names`` in force."""

    name: ClassVar[str] = "buildsUpdate"
    names: tuple[str, ...]

    def build_arguments(self, run: str) -> list[object]:
        """Return its arguments on the wire."""
        return [self.names]


class BuildOutput(JobOutput, frozen=True):
    """A build said more."""

    name: ClassVar[str] = "buildOutput"
