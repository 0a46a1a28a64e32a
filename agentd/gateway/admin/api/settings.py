"""Endpoints of the gateway's settings (``proxy.yml``), with their descriptions."""

from typing import Any, Protocol

import msgspec
from msgspec import Struct, structs

from agentd.core.errors import BadRequest, ConfigProblem, Conflict, PreconditionFailed, Unavailable
from agentd.gateway.admin.api import shapes
from agentd.gateway.admin.api.daemon_settings import DaemonSettingsEndpoints, DaemonSettingsPatch
from agentd.gateway.admin.api.resource import DRY_RUN, IF_MATCH, parse_change_request
from agentd.gateway.admin.api.route_builders import build_route
from agentd.gateway.admin.service import ChangeLog, GatewaySettingsStore, ManagedSettings
from agentd.gateway.channels.masking import keep_unless_moved, mask, refuse_reference
from agentd.gateway.settings.model import GatewaySettings
from agentd.http.request import Request, Response
from agentd.http.routing import Route
from agentd.settings.status import SettingsView

SettingsPatch = shapes.define_patch(GatewaySettings, spelling=None)
"""Absent fields stay, null resets to the default; names are those of ``proxy.yml``."""


class SettingView(Struct, frozen=True):
    """A setting; secrets are masked."""

    name: str
    """The name as in ``proxy.yml``."""
    value: Any
    """The current value."""
    default: Any
    """The default value."""
    description: str
    """Its purpose."""


class GatewaySettingsView(Struct, frozen=True):
    """All settings and the problems of ``proxy.yml``."""

    settings: list[SettingView]
    """All settings."""
    problems: list[str]
    """Problems of the file; while there are any, its last valid content is used."""


class GatewaySettingsSource(GatewaySettingsStore[GatewaySettings], Protocol):
    """The settings and their file (``gateway.settings.store``)."""

    @property
    def problems(self) -> tuple[ConfigProblem, ...]:
        """Problems of the file; while there are any, its last valid content is used."""
        ...


class GatewaySettingsEndpoints:
    """The endpoints of ``/api/agent/settings``."""

    def __init__(self, store: GatewaySettingsSource, journal: ChangeLog) -> None:
        self._store = store
        self.managed = ManagedSettings(
            "settings", store, journal, show=_mask_settings, unmask=_restore_masked
        )

    async def get_gateway_settings(self, _: Request) -> Response:
        """Return all settings."""
        return self._respond(await self._store.read())

    async def change_gateway_settings(self, call: Request) -> Response:
        """Change settings, all or none; they take effect at once."""
        patch = call.parse_json(SettingsPatch)

        def revise(old: GatewaySettings) -> GatewaySettings:
            return shapes.apply_patch(
                _drop_password_on_move(old, shapes.apply_patch(old, patch)), patch
            )

        return self._respond(await self.managed.change(revise, parse_change_request(call)))

    def _respond(self, settings: GatewaySettings) -> Response:
        masked, defaults = _mask_settings(settings), GatewaySettings()
        view = GatewaySettingsView(
            [
                SettingView(
                    one.name,
                    _to_plain(getattr(masked, one.name)),
                    _to_plain(getattr(defaults, one.name)),
                    _get_description(one),
                )
                for one in structs.fields(GatewaySettings)
            ],
            [str(problem) for problem in self._store.problems],
        )
        return Response(view, headers={"ETag": f'"{self.managed.create_tag(settings)}"'})


def _to_plain(value: object) -> object:
    """Convert to plain values, named as in the file."""
    if isinstance(value, Struct):
        return {name: _to_plain(getattr(value, name)) for name in value.__struct_fields__}
    return value


def _get_description(one: structs.FieldInfo) -> str:
    metas = (meta for meta in one.type.__metadata__ if isinstance(meta, msgspec.Meta))
    return next((meta.description for meta in metas if meta.description), "")


def _mask_settings(settings: GatewaySettings) -> GatewaySettings:
    """Return the settings with the secret masked."""
    export = structs.replace(settings.export, password=mask(settings.export.password))
    return structs.replace(settings, export=export)


def _drop_password_on_move(old: GatewaySettings, new: GatewaySettings) -> GatewaySettings:
    """Drop the database's password from ``old`` if ``new`` has another URL."""
    if new.export.url == old.export.url:
        return old
    return structs.replace(old, export=structs.replace(old.export, password=""))


def _restore_masked(new: GatewaySettings, old: GatewaySettings) -> GatewaySettings:
    """Return ``new`` with a masked secret replaced by that of ``old``. ``BadRequest``."""
    before, after = old.export, new.export
    refuse_reference(after.password, before.password)
    password = keep_unless_moved(
        "export.password", after.password, before.password, after.url != before.url
    )
    return structs.replace(new, export=structs.replace(after, password=password))


_ALL = "/api/agent/settings"
_DAEMON = "/api/agent/settings/daemon"


def routes(
    endpoints: GatewaySettingsEndpoints, daemon: DaemonSettingsEndpoints
) -> tuple[Route, ...]:
    """Return the routes of the gateway's and the daemon's settings."""
    return (
        build_route(
            "GET",
            _ALL,
            endpoint=endpoints.get_gateway_settings,
            summary="List the gateway's settings: value, default and purpose; secrets are masked.",
            response_type=GatewaySettingsView,
            operation_id="get_gateway_settings",
        ),
        build_route(
            "PATCH",
            _ALL,
            endpoint=endpoints.change_gateway_settings,
            summary="Change settings in proxy.yml, all or none: absent fields stay, null resets to"
            " the default. They take effect at once.",
            request_type=SettingsPatch,
            example={"time_zone": "Europe/Berlin", "bodies": {"keep_days": 3}},
            response_type=GatewaySettingsView,
            errors=(BadRequest, Conflict, PreconditionFailed, Unavailable),
            parameters=(DRY_RUN, IF_MATCH),
        ),
        build_route(
            "GET",
            _DAEMON,
            endpoint=daemon.get_daemon_settings,
            summary="List the daemon's settings: the effective value, that of agentd.yml, and what"
            " needs a restart; secrets are masked.",
            response_type=SettingsView,
            operation_id="get_daemon_settings",
        ),
        build_route(
            "PATCH",
            _DAEMON,
            endpoint=daemon.change_daemon_settings,
            summary="Change settings in agentd.yml, all or none: absent fields stay, null resets to"
            " the default. Settings that need no restart take effect at once. The administrator's"
            " name and password and the management key cannot be changed here.",
            request_type=DaemonSettingsPatch,
            example={"max_parallel_turns": 3, "budget_per_day": 20},
            response_type=SettingsView,
            errors=(BadRequest, Conflict, PreconditionFailed, Unavailable),
            parameters=(DRY_RUN, IF_MATCH),
        ),
    )
