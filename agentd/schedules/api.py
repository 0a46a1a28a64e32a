"""The endpoints below ``/api/schedules``; the list itself is ``schedules.yml``."""

import asyncio
import re
from decimal import Decimal
from typing import Any

from msgspec import Struct

from agentd.chats.remote_api import ModelAbilities
from agentd.core.clock import Timestamp
from agentd.core.errors import BadRequest, Conflict, NotFound, PreconditionFailed, Unavailable
from agentd.http.access import RouteGroup
from agentd.http.parameters import ETAG
from agentd.http.request import Request, Response
from agentd.http.routing import Parameter, Route
from agentd.schedules.cron import describe_cron, validate_schedule
from agentd.schedules.model import Schedule, ScheduleRun, find_index
from agentd.schedules.service import ScheduleService
from agentd.schedules.store import ScheduleFile, make_version


class ScheduleRunView(Struct, frozen=True, rename="camel"):
    """A run of a schedule, or why there was none."""

    due: Timestamp
    """The time that the schedule says; of a run by hand, when that was."""
    cause: str
    """``due``, ``missed`` (agentd or the machine was off then) or ``hand``."""
    state: str
    """``queued``, ``running``, the outcome of its turn, or ``skipped``."""
    started_at: Timestamp | None
    ended_at: Timestamp | None
    missed: int
    """Earlier times that were missed, for which this run stands as well."""
    chat_id: int | None
    cost: Decimal
    note: str


class ScheduleView(Struct, frozen=True):
    """A schedule, when it runs next, and its latest run."""

    name: str
    cron: str
    zone: str
    description: str
    """The cron expression in words."""
    prompt: str
    chat: int | None
    title: str
    model: str
    skill: str
    mode: str
    """The mode in which the engine's program of new chats works; empty: its usual one."""
    worktree: bool
    budget: Decimal | None
    """USD after which the turn of a run is ended; null: as much as its chat may cost."""
    output_schema: dict[str, Any] | None
    """The JSON Schema that the reply of each run has to fit; null: any text will do."""
    paused: bool
    missed: str
    overlap: str
    next: Timestamp | None
    """The next time; null: it is paused."""
    last: ScheduleRunView | None


class SchedulesView(Struct, frozen=True):
    """The schedules, in the order of their file."""

    schedules: list[ScheduleView]


class ScheduleRunsView(Struct, frozen=True):
    """The latest runs of a schedule, the newest first."""

    runs: list[ScheduleRunView]


class ScheduleEndpoints:
    """The endpoints of schedules and their runs."""

    def __init__(
        self, schedules: ScheduleService, file: ScheduleFile, abilities: ModelAbilities
    ) -> None:
        self._schedules = schedules
        self._file = file
        self._abilities = abilities

    async def list_schedules(self, _: Request) -> Response:
        """List the schedules with their next and latest runs."""
        listed = await self._schedules.list_schedules()
        views = [await self._make_view(one) for one in listed]
        return Response(SchedulesView(views), headers={"ETag": f'"{make_version(listed)}"'})

    async def add_schedule(self, request: Request) -> Response:
        """Add a schedule at the end of the list."""
        schedule = await self._parse_schedule(request)
        listed = await self._file.add(schedule, _get_version(request))
        return await self._respond(listed, schedule.name, 201)

    async def replace_schedule(self, request: Request) -> Response:
        """Replace a schedule; what is absent has its default."""
        schedule = await self._parse_schedule(request)
        listed = await self._file.change(request.get_name(), schedule, _get_version(request))
        return await self._respond(listed, schedule.name)

    async def delete_schedule(self, request: Request) -> Response:
        """Delete a schedule with the history of its runs; their chats stay."""
        await self._file.remove(request.get_name(), _get_version(request))
        return Response(status=204)

    async def pause_schedule(self, request: Request) -> Response:
        """Pause a schedule."""
        return await self._set_paused(request, paused=True)

    async def resume_schedule(self, request: Request) -> Response:
        """Resume a schedule from its next time on."""
        return await self._set_paused(request, paused=False)

    async def run_schedule(self, request: Request) -> Response:
        """Begin a run now."""
        return Response(_make_run_view(await self._schedules.run_now(request.get_name())), 201)

    async def list_runs(self, request: Request) -> Response:
        """List the latest runs."""
        name = request.get_name()
        find_index(await self._schedules.list_schedules(), name)
        runs = [_make_run_view(run) for run in reversed(self._schedules.list_runs(name))]
        return Response(ScheduleRunsView(runs))

    async def _parse_schedule(self, request: Request) -> Schedule:
        schedule = request.parse_json(Schedule)
        for field, what in await asyncio.to_thread(list, validate_schedule(schedule)):
            raise BadRequest(f"{field}: {what}")
        await self._schedules.check_chat(schedule)
        if schedule.mode:
            self._abilities.check_mode(schedule.model, schedule.mode, request.caller)
        return schedule

    async def _set_paused(self, request: Request, *, paused: bool) -> Response:
        name = request.get_name()
        listed = await self._file.set_paused(name, _get_version(request), paused=paused)
        return await self._respond(listed, name)

    async def _respond(
        self, listed: tuple[Schedule, ...], name: str, status: int = 200
    ) -> Response:
        view = await self._make_view(listed[find_index(listed, name)])
        return Response(view, status, headers={"ETag": f'"{make_version(listed)}"'})

    async def _make_view(self, one: Schedule) -> ScheduleView:
        runs = self._schedules.list_runs(one.name)
        return ScheduleView(
            name=one.name,
            cron=one.cron,
            zone=one.zone,
            description=describe_cron(one.cron),
            prompt=one.prompt,
            chat=one.chat,
            title=one.title,
            model=one.model,
            skill=one.skill,
            mode=one.mode,
            worktree=one.worktree,
            budget=one.budget,
            output_schema=one.output_schema,
            paused=one.paused,
            missed=one.missed,
            overlap=one.overlap,
            next=await self._schedules.find_next(one) or None,
            last=_make_run_view(runs[-1]) if runs else None,
        )


def _get_version(request: Request) -> str | None:
    """Return the version in ``If-Match``; None when any will do."""
    if_match = request.headers.get("If-Match")
    if if_match is None or if_match.strip() == "*":
        return None
    tag = re.fullmatch(r'\s*"([0-9a-f]{16})"\s*', if_match)
    if not tag:
        raise PreconditionFailed("If-Match is not an ETag of the schedules", "Read them again.")
    return tag[1]


def _make_run_view(run: ScheduleRun) -> ScheduleRunView:
    return ScheduleRunView(
        due=run.due,
        cause=run.cause,
        state=run.state,
        started_at=run.at or None,
        ended_at=run.ended_at or None,
        missed=run.missed,
        chat_id=run.chat or None,
        cost=run.cost,
        note=run.note,
    )


_GROUP = RouteGroup.EXTENDED
_IF_MATCH = Parameter(
    "If-Match",
    "header",
    "Change only the version of all schedules with this ETag; without it the last write wins.",
    {"type": "string", "pattern": '^("[0-9a-f]{16}"|[*])$'},
)
_SCHEDULE = "/api/schedules/{name}"


def routes(schedules: ScheduleEndpoints) -> tuple[Route, ...]:
    """Return the routes of the schedules and of their runs."""
    return (*_list_list_routes(schedules), *_list_run_routes(schedules))


def _list_list_routes(schedules: ScheduleEndpoints) -> tuple[Route, ...]:
    return (
        Route(
            "GET",
            "/api/schedules",
            _GROUP,
            schedules.list_schedules,
            "The schedules, in order, with their next and latest runs.",
            response_type=SchedulesView,
            response_headers=ETAG,
        ),
        Route(
            "POST",
            "/api/schedules",
            _GROUP,
            schedules.add_schedule,
            "Add a schedule: a prompt, a cron expression and its time zone.",
            request_type=Schedule,
            response_type=ScheduleView,
            response_headers=ETAG,
            status=201,
            errors=(BadRequest, Conflict, PreconditionFailed, Unavailable),
            parameters=(_IF_MATCH,),
        ),
        Route(
            "PUT",
            _SCHEDULE,
            _GROUP,
            schedules.replace_schedule,
            "Replace a schedule; what is absent has its default.",
            request_type=Schedule,
            response_type=ScheduleView,
            response_headers=ETAG,
            errors=(BadRequest, NotFound, Conflict, PreconditionFailed, Unavailable),
            parameters=(_IF_MATCH,),
        ),
        Route(
            "DELETE",
            _SCHEDULE,
            _GROUP,
            schedules.delete_schedule,
            "Delete a schedule and the history of its runs; their chats stay.",
            status=204,
            errors=(NotFound, Conflict, PreconditionFailed, Unavailable),
            parameters=(_IF_MATCH,),
        ),
    )


def _list_run_routes(schedules: ScheduleEndpoints) -> tuple[Route, ...]:
    return (
        Route(
            "POST",
            f"{_SCHEDULE}/pause",
            _GROUP,
            schedules.pause_schedule,
            "Pause a schedule; runs under way go on.",
            response_type=ScheduleView,
            response_headers=ETAG,
            errors=(NotFound, Conflict, PreconditionFailed, Unavailable),
            parameters=(_IF_MATCH,),
        ),
        Route(
            "POST",
            f"{_SCHEDULE}/resume",
            _GROUP,
            schedules.resume_schedule,
            "Resume a schedule from its next time on; what was due meanwhile was not missed.",
            response_type=ScheduleView,
            response_headers=ETAG,
            errors=(NotFound, Conflict, PreconditionFailed, Unavailable),
            parameters=(_IF_MATCH,),
        ),
        Route(
            "POST",
            f"{_SCHEDULE}/run",
            _GROUP,
            schedules.run_schedule,
            "Begin a run of a schedule now, also of one that is paused.",
            response_type=ScheduleRunView,
            status=201,
            errors=(NotFound, Unavailable),
        ),
        Route(
            "GET",
            f"{_SCHEDULE}/runs",
            _GROUP,
            schedules.list_runs,
            "The latest runs of a schedule, the newest first: when, what came of them, their cost.",
            operation_id="list_schedule_runs",
            response_type=ScheduleRunsView,
            errors=(NotFound,),
        ),
    )
