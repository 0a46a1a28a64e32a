"""Builds, deployments and autofix as they are composed from the settings.

A part of the composition root (``daemon``), apart because it is much.
"""

from functools import partial
from typing import Any, Self

from agentd.catalog.settings import Settings
from agentd.chats.service import ChatService
from agentd.clock import Clock
from agentd.disk.jobs import (
    AutofixFile,
    BuildFiles,
    DeploymentFiles,
    load_builds,
    load_deployments,
)
from agentd.disk.layout import Layout
from agentd.disk.reload import Reloaded
from agentd.events import Bus
from agentd.outside.build import BuildPrograms
from agentd.outside.deployment import DeploymentPrograms
from agentd.outside.upstream import HttpUpstream
from agentd.web.jobs import Jobs
from agentd.web.tables.jobs import rows
from agentd.workspace.autofix import AutofixService
from agentd.workspace.building import BuildService
from agentd.workspace.definition import Build, Deployment
from agentd.workspace.deploying import DeploymentService, Shop


class Workshop:
    """What builds and runs the workspace; ``generation`` is the state folder's."""

    def __init__(
        self,
        settings: Settings,
        layout: Layout,
        chats: ChatService,
        clock: Clock,
        bus: Bus,
        generation: str,
    ) -> None:
        builds: dict[str, Build] = {}
        deployments: dict[str, Deployment] = {}
        self._builds_file = Reloaded(layout.builds_settings, partial(load_builds, layout), builds)
        self._deployments_file = Reloaded(
            layout.deployments_settings, partial(load_deployments, layout), deployments
        )
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
            Shop(
                self._deployments_file,
                DeploymentFiles(layout),
                DeploymentPrograms(root, generation, self._upstream),
                clock,
                bus,
            )
        )
        self._autofix = AutofixService(AutofixFile(layout), chats, self._builds, bus)
        self.rows = rows(Jobs(self._builds, self._deployments, self._autofix))
        """What they add to the routes table."""

    @property
    def files(self) -> tuple[Reloaded[Any], ...]:
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
