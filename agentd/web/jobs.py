"""Builds, deployments and autofix, as the extended surface commands them.

Source: the remote-control specification, section 4, 'Extended surface'. Where it is silent: the
status and the output of an unknown deployment are 404, so that the result of a start, which
succeeds for any name, can be checked there.
"""

import asyncio
from typing import Annotated

from msgspec import Meta, Struct

from agentd.chats.chat import LARGEST_ID
from agentd.web.call import Answer, Call
from agentd.web.job_views import (
    BuildView,
    DeploymentView,
    build_detail_view,
    build_view,
    deployment_view,
)
from agentd.web.views import Id
from agentd.workspace.autofix import AutofixService
from agentd.workspace.building import BuildService
from agentd.workspace.deploying import DeploymentService
from agentd.workspace.deployment import DeploymentStatus, Output
from agentd.workspace.problems import plain
from agentd.workspace.transcript import decode_part, last_lines

MOST_LINES = 1_000_000
"""Lines of an output's end that can be asked for: more than are ever kept, if they have words."""
_TEXT = {"Content-Type": "text/plain; charset=utf-8"}


class BuildsView(Struct, frozen=True):
    """All builds, in the file's order."""

    builds: list[BuildView]


class DeploymentsView(Struct, frozen=True):
    """All deployments, in the file's order."""

    deployments: list[DeploymentView]


class SwitchAutofix(Struct, frozen=True):
    """On or off over all; absent: the other way."""

    on: bool | None = None


class SwitchBuildFix(Struct, frozen=True, rename="camel"):
    """On or off for one build (absent: the other way), in which chat, and how often in a row."""

    on: bool | None = None
    chat_id: Id | None = None
    tries: Annotated[int, Meta(ge=1, le=20)] | None = None


class Jobs:
    """The endpoints below ``/api/build``, ``/api/deploy`` and ``/api/autofix``."""

    def __init__(
        self, builds: BuildService, deployments: DeploymentService, autofix: AutofixService
    ) -> None:
        self._builds = builds
        self._deployments = deployments
        self._autofix = autofix

    async def trigger_build(self, call: Call) -> Answer:
        """Start a build; one that runs is not started again."""
        return Answer(build_view(await self._builds.trigger(call.params["name"], call.caller.by)))

    async def stop_build(self, call: Call) -> Answer:
        """End a build."""
        return Answer(build_view(await self._builds.end(call.params["name"])))

    async def builds(self, _: Call) -> Answer:
        """All builds at a glance."""
        return Answer(BuildsView([build_view(build) for build in await self._builds.all()]))

    async def build(self, call: Call) -> Answer:
        """One build with its problems."""
        return Answer(build_detail_view(await self._builds.status(call.params["name"])))

    async def build_output(self, call: Call) -> Answer:
        """Answer what a build said, or the last lines of it."""
        tail = call.number("tail", 1, MOST_LINES)
        output = await self._builds.output(call.params["name"])
        return await asyncio.to_thread(_text, call, output, tail, {})

    async def start_deployment(self, call: Call) -> Answer:
        """Have it run."""
        name = call.params["name"]
        return _deployment(name, await self._deployments.run(name))

    async def stop_deployment(self, call: Call) -> Answer:
        """Have it end."""
        name = call.params["name"]
        return _deployment(name, await self._deployments.end(name))

    async def restart_deployment(self, call: Call) -> Answer:
        """Have it end, and after a short pause run again."""
        name = call.params["name"]
        return _deployment(name, await self._deployments.run_anew(name))

    async def deployments(self, _: Call) -> Answer:
        """All deployments."""
        found = await self._deployments.all()
        return Answer(DeploymentsView([deployment_view(one) for one in found]))

    async def deployment(self, call: Call) -> Answer:
        """One deployment."""
        return Answer(deployment_view(await self._deployments.status(call.params["name"])))

    async def deployment_output(self, call: Call) -> Answer:
        """Answer the end of what a deployment said, or what is new since an offset."""
        tail = call.number("tail", 1, MOST_LINES)
        offset = call.number("offset", 0, LARGEST_ID)
        said = await self._deployments.output(call.params["name"], offset)
        return await asyncio.to_thread(_part, call, said, tail, more_may_come=offset is not None)

    def autofix(self, _: Call) -> Answer:
        """What is fixed by itself."""
        return Answer(self._autofix.status)

    async def switch_autofix(self, call: Call) -> Answer:
        """On or off over all."""
        return Answer(await self._autofix.switch(call.json(SwitchAutofix).on))

    async def switch_build_fix(self, call: Call) -> Answer:
        """On or off for one build."""
        build = call.params["name"]
        await self._builds.status(build)  # what is not there is told before what is asked of it
        wish = call.json(SwitchBuildFix)
        return Answer(await self._autofix.switch_build(build, wish.on, wish.chat_id, wish.tries))


def _deployment(name: str, known: DeploymentStatus | None) -> Answer:
    view = deployment_view(known) if known else DeploymentView(name[:64], "unknown")
    return Answer(view)


def _part(call: Call, said: Output, tail: int | None, *, more_may_come: bool) -> Answer:
    """A part of an output, with the offset of its first byte and that of what comes next.

    Where it is read in parts, half a character at the end is left to the next one.
    """
    rest = decode_part(said.data)[1] if more_may_come else 0
    data = said.data[: len(said.data) - rest]
    shown = data if tail is None else last_lines(data, tail)
    end = said.end - rest
    headers = {"X-Output-Offset": str(end - len(shown)), "X-Output-Next": str(end)}
    return _text(call, shown, None, headers)


def _text(call: Call, output: bytes, tail: int | None, headers: dict[str, str]) -> Answer:
    """The output as text in UTF-8; without colours when they are not wanted."""
    shown = output if tail is None else last_lines(output, tail)
    text = shown.decode("utf-8", "replace")
    body = (plain(text) if call.flag("plain") else text).encode()
    return Answer(body, headers={**_TEXT, **headers})
