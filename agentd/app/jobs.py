"""Wires builds, deployments and autofix."""

from functools import partial
from os.path import realpath
from typing import Any, Self

from agentd.chats.service import ChatService
from agentd.core.clock import Clock
from agentd.core.events import EventBus
from agentd.llm.upstream.client import HttpUpstream
from agentd.settings.model import Settings
from agentd.storage.layout import Layout
from agentd.storage.watched_file import WatchedFile
from agentd.workspace.autofix.service import AutofixService
from agentd.workspace.builds.events import BuildsUpdate
from agentd.workspace.builds.runner import BuildPrograms
from agentd.workspace.builds.service import BuildService
from agentd.workspace.definitions import Build, Deployment
from agentd.workspace.deployments.events import DeploymentsUpdate
from agentd.workspace.deployments.runner import DeploymentPrograms
from agentd.workspace.deployments.service import DeploymentContext, DeploymentService
from agentd.workspace.job_store import (
    AutofixFile,
    BuildFiles,
    DeploymentFiles,
    load_builds,
    load_deployments,
)
from agentd.workspace.jobs_api import JobEndpoints, routes


class JobsComponent:
    """The builds and deployments of the workspace; ``generation`` is the state folder's."""

    def __init__(
        self,
        settings: Settings,
        layout: Layout,
        chats: ChatService,
        clock: Clock,
        bus: EventBus,
        generation: str,
    ) -> None:
        builds: dict[str, Build] = {}
        deployments: dict[str, Deployment] = {}
        self._builds_file = WatchedFile(
            layout.builds_settings, partial(load_builds, layout), builds, self._publish_builds
        )
        self._deployments_file = WatchedFile(
            layout.deployments_settings,
            partial(load_deployments, layout),
            deployments,
            self._publish_deployments,
        )
        self._bus = bus
        root = settings.workspace
        self._upstream = HttpUpstream()
        self._builds = BuildService(
            self._builds_file,
            BuildFiles(layout),
            BuildPrograms(root, generation),
            clock,
            bus,
        )
        self._deployments = DeploymentService(
            DeploymentContext(
                self._deployments_file,
                DeploymentFiles(layout),
                DeploymentPrograms(root, generation, self._upstream),
                clock,
                bus,
                realpath(root),
            )
        )
        self._autofix = AutofixService(AutofixFile(layout), chats, self._builds, bus)
        self.rows = routes(
            JobEndpoints(self._builds, self._deployments, self._autofix, realpath(root))
        )
        """The routes of builds, deployments and autofix."""

    @property
    def files(self) -> tuple[WatchedFile[Any], ...]:
        """The hand-written files, to be watched."""
        return self._builds_file, self._deployments_file

    async def __aenter__(self) -> Self:
        """Read what is written down, and find again what runs."""
        await self._builds_file.refresh()
        await self._deployments_file.refresh()
        await self._builds.start()
        await self._deployments.start()
        await self._autofix.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        """End the builds, and leave the deployments alone."""
        await self._autofix.stop()
        await self._deployments.stop()
        await self._builds.stop()
        await self._builds_file.stop()
        await self._deployments_file.stop()
        await self._upstream.close()

    def _publish_builds(self) -> None:
        self._bus.publish(BuildsUpdate(tuple(self._builds_file.current)))

    def _publish_deployments(self) -> None:
        self._bus.publish(DeploymentsUpdate(tuple(self._deployments_file.current)))
