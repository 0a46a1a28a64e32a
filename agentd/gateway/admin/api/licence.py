"""Endpoints of the licence, which model requests need and management does not."""

from collections.abc import Awaitable
from typing import Annotated, Protocol

from msgspec import Meta, Struct

from agentd.core.errors import BadRequest, Unavailable
from agentd.gateway.admin.api import shapes
from agentd.gateway.admin.api.resource import DRY_RUN, parse_change_request
from agentd.gateway.admin.api.route_builders import build_route
from agentd.gateway.admin.service import ChangeLog
from agentd.gateway.licence import licence
from agentd.gateway.licence.licence import LicenceStatus
from agentd.http.request import Request, Response
from agentd.http.routing import Route

LicenceView = shapes.define_view(LicenceStatus)
"""The licence status; ``licence`` is the licence's content."""


class InstallLicence(Struct, frozen=True, forbid_unknown_fields=True):
    """The request to install a licence."""

    token: Annotated[str, Meta(min_length=1, max_length=licence.MAX_CHARS + 100)]
    """The signed licence."""


class ManagedLicence(Protocol):
    """The installed licence (``gateway.licence.store``)."""

    @property
    def status(self) -> LicenceStatus:
        """The current status."""
        ...

    def refresh(self) -> Awaitable[None]:
        """Return once it matches its files."""
        ...

    def preview_status(self, token: str) -> Awaitable[LicenceStatus]:
        """Return the status with this token. ``BadRequest`` says why it is invalid."""
        ...

    def install(self, token: str) -> Awaitable[LicenceStatus]:
        """Store this token. ``BadRequest`` says why it is invalid."""
        ...


class LicenceEndpoints:
    """The endpoints of ``/api/agent/licence``."""

    def __init__(self, licences: ManagedLicence, journal: ChangeLog) -> None:
        self._licences = licences
        self._journal = journal

    async def get_licence(self, _: Request) -> Response:
        """Return the current status."""
        await self._licences.refresh()
        return Response(shapes.to_view(self._licences.status, LicenceView))

    async def install_licence(self, call: Request) -> Response:
        """Install another licence; an invalid one changes nothing."""
        token, request = call.parse_json(InstallLicence).token.strip(), parse_change_request(call)
        if request.dry_run:
            return Response(shapes.to_view(await self._licences.preview_status(token), LicenceView))
        async with self._journal.hold(request):
            before = self._licences.status
            status = await self._licences.install(token)
            await self._journal.append(
                request,
                "install",
                "licence",
                "licence",
                before=_to_log_fields(before),
                after=_to_log_fields(status),
            )
        return Response(shapes.to_view(status, LicenceView))


def _to_log_fields(status: LicenceStatus) -> dict[str, object]:
    found = status.licence
    who = (
        {"holder": found.holder, "edition": found.edition, "expires": found.expires}
        if found
        else {}
    )
    return {"state": status.state, **who}


def routes(endpoints: LicenceEndpoints) -> tuple[Route, ...]:
    """Return the routes of the licence."""
    return (
        build_route(
            "GET",
            "/api/agent/licence",
            endpoint=endpoints.get_licence,
            summary="Whether model requests are allowed, and if not, why and what to do.",
            response_type=LicenceView,
            operation_id="get_licence",
        ),
        build_route(
            "PUT",
            "/api/agent/licence",
            endpoint=endpoints.install_licence,
            summary="Install a licence; an invalid one changes nothing.",
            request_type=InstallLicence,
            example={"token": f"{licence.PREFIX}.eyJ..."},
            response_type=LicenceView,
            errors=(BadRequest, Unavailable),
            parameters=(DRY_RUN,),
        ),
    )
