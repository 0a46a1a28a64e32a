"""Builds, deployments and autofix, as the extended surface commands them.

Source: the remote-control specification, section 4, 'Extended surface'. Where it is silent: the
status and the output of an unknown deployment are 404, so that the result of a start, which
succeeds for any name, can be checked there.
"""

import asyncio
from typing import Annotated

from msgspec import Meta, Struct

from agentd.chats.views import Id
from agentd.core.errors import BadRequest, NotFound, Unavailable
from agentd.core.ids import MAX_ID
from agentd.http.access import RouteGroup
from agentd.http.parameters import make_choice_parameter, make_integer_parameter
from agentd.http.request import Request, Response
from agentd.http.routing import Route
from agentd.workspace.autofix.rules import AutofixStatus
from agentd.workspace.autofix.service import AutofixService
from agentd.workspace.builds.output import decode_part, take_last_lines
from agentd.workspace.builds.problems import strip_escapes
from agentd.workspace.builds.service import BuildService
from agentd.workspace.deployments.deployment import DeploymentStatus, OutputSlice
from agentd.workspace.deployments.service import DeploymentService
from agentd.workspace.job_views import (
    BuildDetailView,
    BuildView,
    DeploymentView,
    build_detail_view,
    build_view,
    make_deployment_view,
)

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
    """On or off for all builds; absent: the opposite of the current state."""

    on: bool | None = None


class SwitchBuildFix(Struct, frozen=True, rename="camel"):
    """Autofix of one build: on or off, its chat, and the most consecutive tries.

    Without ``on`` it becomes the opposite of the current state.
    """

    on: bool | None = None
    chat_id: Id | None = None
    tries: Annotated[int, Meta(ge=1, le=20)] | None = None


class JobEndpoints:
    """The endpoints below ``/api/build``, ``/api/deploy`` and ``/api/autofix``."""

    def __init__(
        self,
        builds: BuildService,
        deployments: DeploymentService,
        autofix: AutofixService,
        workspace: str,
    ) -> None:
        self._workspace = workspace
        self._builds = builds
        self._deployments = deployments
        self._autofix = autofix

    async def trigger_build(self, call: Request) -> Response:
        """Start a build; one that runs is not started again."""
        return Response(
            build_view(await self._builds.trigger(call.path_params["name"], call.caller.identity))
        )

    async def stop_build(self, call: Request) -> Response:
        """Stop a build."""
        return Response(build_view(await self._builds.stop_build(call.path_params["name"])))

    async def list_builds(self, _: Request) -> Response:
        """List all builds."""
        return Response(
            BuildsView([build_view(build) for build in await self._builds.list_builds()])
        )

    async def get_build(self, call: Request) -> Response:
        """Return one build with its problems."""
        name = call.path_params["name"]
        build, folder = await self._builds.get_status(name), self._builds.get_folder(name)
        return Response(build_detail_view(build, self._workspace, folder))

    async def get_build_output(self, call: Request) -> Response:
        """Return a build's output, or its last lines."""
        tail = call.get_int("tail", 1, MOST_LINES)
        output = await self._builds.read_output(call.path_params["name"])
        headers = {"X-Output-Next": str(output.size)}
        return await asyncio.to_thread(_make_text_response, call, output.data, tail, headers)

    async def start_deployment(self, call: Request) -> Response:
        """Start a deployment."""
        name = call.path_params["name"]
        return _make_deployment_response(name, await self._deployments.start_deployment(name))

    async def stop_deployment(self, call: Request) -> Response:
        """Stop a deployment."""
        name = call.path_params["name"]
        return _make_deployment_response(name, await self._deployments.stop_deployment(name))

    async def restart_deployment(self, call: Request) -> Response:
        """Stop a deployment, and start it after a short pause."""
        name = call.path_params["name"]
        return _make_deployment_response(name, await self._deployments.restart_deployment(name))

    async def list_deployments(self, _: Request) -> Response:
        """List all deployments."""
        found = await self._deployments.list_deployments()
        return Response(DeploymentsView([make_deployment_view(one) for one in found]))

    async def get_deployment(self, call: Request) -> Response:
        """Return one deployment."""
        return Response(
            make_deployment_view(await self._deployments.get_status(call.path_params["name"]))
        )

    async def get_deployment_output(self, call: Request) -> Response:
        """Return the end of a deployment's output, or what is new since an offset."""
        tail = call.get_int("tail", 1, MOST_LINES)
        offset = call.get_int("offset", 0, MAX_ID)
        output = await self._deployments.read_output(call.path_params["name"], offset)
        return await asyncio.to_thread(
            _slice_response, call, output, tail, more_may_come=offset is not None
        )

    def get_autofix(self, _: Request) -> Response:
        """Return the status of autofix."""
        return Response(self._autofix.status)

    async def switch_autofix(self, call: Request) -> Response:
        """Switch autofix on or off for all builds."""
        return Response(await self._autofix.switch(call.parse_json(SwitchAutofix).on))

    async def switch_build_fix(self, call: Request) -> Response:
        """Switch autofix on or off for one build."""
        build = call.path_params["name"]
        await self._builds.get_status(build)  # report an unknown build before bad fields
        payload = call.parse_json(SwitchBuildFix)
        return Response(
            await self._autofix.switch_build(build, payload.on, payload.chat_id, payload.tries)
        )


def _make_deployment_response(name: str, known: DeploymentStatus | None) -> Response:
    view = make_deployment_view(known) if known else DeploymentView(name[:64], "unknown")
    return Response(view)


def _slice_response(
    call: Request, output: OutputSlice, tail: int | None, *, more_may_come: bool
) -> Response:
    """Respond with a part of an output, the offset of its first byte and the next offset.

    Where it is read in parts, half a character at the end is left to the next one.
    """
    rest = decode_part(output.data)[1] if more_may_come else 0
    data = output.data[: len(output.data) - rest]
    shown = data if tail is None else take_last_lines(data, tail)
    end = output.end - rest
    headers = {"X-Output-Offset": str(end - len(shown)), "X-Output-Next": str(end)}
    return _make_text_response(call, shown, None, headers)


def _make_text_response(
    call: Request, output: bytes, tail: int | None, headers: dict[str, str]
) -> Response:
    """Respond with the output as UTF-8 text, without colours if requested."""
    shown = output if tail is None else take_last_lines(output, tail)
    text = shown.decode("utf-8", "replace")
    body = (strip_escapes(text) if call.get_flag("plain") else text).encode()
    return Response(body, headers={**_TEXT, **headers})


_DOOR = RouteGroup.EXTENDED
_RULED = "4, extended surface"
PLAIN = make_choice_parameter(
    "plain", "true leaves colours and other control sequences out.", ("true", "false")
)

TAIL = make_integer_parameter("tail", "Only this many lines of the end.", 1, MOST_LINES)
OFFSET = make_integer_parameter(
    "offset",
    "Only the output from this offset on: the X-Output-Next of an earlier response. When"
    " that is not kept any more, or was never said, all that is kept.",
    0,
    MAX_ID,
)


def routes(jobs: JobEndpoints) -> tuple[Route, ...]:
    """Return the routes of builds, deployments and autofix."""
    return (
        *_list_build_routes(jobs),
        *_list_deployment_routes(jobs),
        *_list_output_routes(jobs),
        *_list_autofix_routes(jobs),
    )


def _list_build_routes(jobs: JobEndpoints) -> tuple[Route, ...]:
    return (
        Route(
            "POST",
            "/api/build/trigger/{name}",
            _DOOR,
            jobs.trigger_build,
            "Start a build; one that runs is not started again.",
            response_type=BuildView,
            errors=(NotFound, Unavailable),
            section=_RULED,
        ),
        Route(
            "POST",
            "/api/build/stop/{name}",
            _DOOR,
            jobs.stop_build,
            "End a running build with everything it started.",
            response_type=BuildView,
            errors=(NotFound,),
        ),
        Route(
            "GET",
            "/api/build/status",
            _DOOR,
            jobs.list_builds,
            "All builds, with the numbers of their errors and warnings.",
            operation_id="list_builds",
            response_type=BuildsView,
            section=_RULED,
        ),
        Route(
            "GET",
            "/api/build/status/{name}",
            _DOOR,
            jobs.get_build,
            "A build's last run, with its errors and warnings.",
            operation_id="get_build",
            response_type=BuildDetailView,
            errors=(NotFound,),
            section=_RULED,
        ),
    )


def _list_deployment_routes(jobs: JobEndpoints) -> tuple[Route, ...]:
    path = "/api/deploy"
    verbs = (
        ("start", jobs.start_deployment, "Start a deployment; one that runs stays as it is."),
        ("stop", jobs.stop_deployment, "Stop a deployment."),
        ("restart", jobs.restart_deployment, "Stop a deployment, and after a pause start it."),
    )
    return (
        *(
            Route(
                "POST",
                f"{path}/{verb}/{{name}}",
                _DOOR,
                endpoint,
                f"{summary} An unknown name changes nothing and is not an error: see the status.",
                response_type=DeploymentView,
                errors=(Unavailable,),
                section=_RULED,
            )
            for verb, endpoint, summary in verbs
        ),
        Route(
            "GET",
            f"{path}/status",
            _DOOR,
            jobs.list_deployments,
            "All deployments.",
            operation_id="list_deployments",
            response_type=DeploymentsView,
            section=_RULED,
        ),
        Route(
            "GET",
            f"{path}/status/{{name}}",
            _DOOR,
            jobs.get_deployment,
            "A deployment: whether it runs, since when, and what went wrong.",
            operation_id="get_deployment",
            response_type=DeploymentView,
            errors=(NotFound,),
            section=_RULED,
        ),
    )


def _list_output_routes(jobs: JobEndpoints) -> tuple[Route, ...]:
    return (
        Route(
            "GET",
            "/api/build/output/{name}",
            _DOOR,
            jobs.get_build_output,
            "The output of a build, as text; of a long one its beginning and its end. X-Output-Next"
            " is the number of bytes so far, at which the event buildOutput continues.",
            operation_id="get_build_output",
            extra_media_types=("text/plain",),
            errors=(BadRequest, NotFound, Unavailable),
            parameters=(PLAIN, TAIL),
            section=_RULED,
        ),
        Route(
            "GET",
            "/api/deploy/output/{name}",
            _DOOR,
            jobs.get_deployment_output,
            "The end of a deployment's output, as text. X-Output-Offset is its start, in"
            " bytes over all its runs, and X-Output-Next the offset to ask for next.",
            operation_id="get_deployment_output",
            extra_media_types=("text/plain",),
            errors=(BadRequest, NotFound, Unavailable),
            parameters=(PLAIN, TAIL, OFFSET),
            section=_RULED,
        ),
    )


def _list_autofix_routes(jobs: JobEndpoints) -> tuple[Route, ...]:
    path = "/api/autofix"
    return (
        Route(
            "GET",
            f"{path}/status",
            _DOOR,
            jobs.get_autofix,
            "List the builds that are given to the agent when they fail.",
            operation_id="get_autofix",
            response_type=AutofixStatus,
            section=_RULED,
        ),
        Route(
            "POST",
            f"{path}/toggle",
            _DOOR,
            jobs.switch_autofix,
            "Switch autofix on or off for all builds.",
            request_type=SwitchAutofix,
            response_type=AutofixStatus,
            errors=(BadRequest, Unavailable),
            section=_RULED,
        ),
        Route(
            "POST",
            f"{path}/toggle/{{name}}",
            _DOOR,
            jobs.switch_build_fix,
            "Switch autofix on or off for one build.",
            request_type=SwitchBuildFix,
            response_type=AutofixStatus,
            errors=(BadRequest, NotFound, Unavailable),
            section=_RULED,
        ),
    )
