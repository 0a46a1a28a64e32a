"""The events of deployments."""

from typing import ClassVar

from agentd.core.events import Event
from agentd.workspace.deployments.deployment import DeploymentStatus
from agentd.workspace.job_views import JobOutput, make_deployment_view


class DeploymentUpdate(Event, frozen=True):
    """A deployment is in another state: ``deployment``."""

    name: ClassVar[str] = "deploymentUpdate"
    deployment: DeploymentStatus

    def build_arguments(self, run: str) -> list[object]:
        """Return its arguments on the wire."""
        return [make_deployment_view(self.deployment)]


class DeploymentsUpdate(Event, frozen=True):
    """``deployments.yml`` says something else, or has other problems: the ``names`` in force."""

    name: ClassVar[str] = "deploymentsUpdate"
    names: tuple[str, ...]

    def build_arguments(self, run: str) -> list[object]:
        """Return its arguments on the wire."""
        return [self.names]


class DeploymentOutput(JobOutput, frozen=True):
    """A deployment said more."""

    name: ClassVar[str] = "deploymentOutput"
