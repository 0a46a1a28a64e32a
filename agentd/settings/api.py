"""The settings as the extended surface shows and changes them; secrets are masked.

Source: the remote-control specification, section 4, 'Extended surface'; fields are ours.
"""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from msgspec import defstruct, field, structs

from agentd.core.errors import BadRequest, Conflict, Forbidden, Unavailable
from agentd.http.access import RouteGroup
from agentd.http.request import Request, Response
from agentd.http.routing import Route
from agentd.settings.model import BY_ADMINISTRATORS, Settings
from agentd.settings.status import SettingsView

SetSettings = defstruct(
    "SetSettings",
    [(one.name, one.type | None, field(default=None)) for one in structs.fields(Settings)],
    forbid_unknown_fields=True,
)
"""The body of ``settings/set``, described: what is absent stays, null is the default."""


class SettingsStore(Protocol):
    """The settings and their file (``settings.effective_settings.EffectiveSettings``)."""

    async def refresh(self) -> None:
        """Take up what the file says at the request."""
        ...

    async def change(self, changes: Mapping[str, object]) -> Settings:
        """Write these into the file, all or none."""
        ...


class SettingsEndpoints:
    """The endpoints below ``/api/settings``. ``view`` shows all settings and all mistakes."""

    def __init__(self, settings: SettingsStore, view: Callable[[], SettingsView]) -> None:
        self._settings = settings
        self._view = view

    async def list_settings(self, _: Request) -> Response:
        """List every setting and the problems of the hand-edited files."""
        await self._settings.refresh()
        return Response(self._view())

    async def change_settings(self, request: Request) -> Response:
        """Change some, all or none; what waits for a restart says so."""
        changes = request.parse_json(dict[str, Any])
        kept = sorted(changes.keys() & BY_ADMINISTRATORS)
        if kept and request.caller.role != "administrator":
            raise Forbidden(
                f"Only an administrator may change {' and '.join(kept)}",
                "It would widen what a key or a manager can do. Sign in as an administrator,"
                " or edit agentd.yml.",
            )
        await self._settings.change(changes)
        shown = self._view()
        changed = tuple(one for one in shown.settings if one.name in changes)
        return Response(SettingsView(changed, shown.problems))


SECTION = "4, extended surface"
"""The section of the remote-control specification."""


def routes(endpoints: SettingsEndpoints) -> tuple[Route, ...]:
    """Return the routes of settings."""
    return (
        Route(
            "GET",
            "/api/settings/all",
            RouteGroup.EXTENDED,
            endpoints.list_settings,
            "Every setting, its source and whether it waits for a restart; problems of all files.",
            operation_id="list_settings",
            response_type=SettingsView,
            section=SECTION,
        ),
        Route(
            "POST",
            "/api/settings/set",
            RouteGroup.EXTENDED,
            endpoints.change_settings,
            "Change settings in agentd.yml, all or none; null removes one from the file.",
            operation_id="change_settings",
            request_type=SetSettings,
            response_type=SettingsView,
            errors=(BadRequest, Forbidden, Conflict, Unavailable),
            section=SECTION,
        ),
    )
