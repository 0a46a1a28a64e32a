"""Endpoints of the gateway's settings (``proxy.yml``), with their descriptions."""

from typing import Any, Protocol

import msgspec
from msgspec import Struct, structs

from agentd.core.errors import BadRequest, ConfigProblem, Conflict, PreconditionFailed, Unavailable
from agentd.core.secret_text import get_secret_part, is_reference
from agentd.gateway.admin.api import shapes
from agentd.gateway.admin.api.daemon_settings import DaemonSettingsEndpoints, DaemonSettingsPatch
from agentd.gateway.admin.api.resource import DRY_RUN, IF_MATCH, parse_change_request
from agentd.gateway.admin.api.route_builders import build_route
from agentd.gateway.admin.service import ChangeLog, GatewaySettingsStore, ManagedSettings
from agentd.gateway.channels.masking import keep_unless_moved, mask, refuse_reference
from agentd.gateway.settings.model import GatewaySettings, TracingSettings
from agentd.http.parameters import ETAG
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
                _drop_secrets_on_move(old, shapes.apply_patch(old, patch)), patch
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
    """Return the settings with the secrets masked."""
    export = structs.replace(settings.export, password=mask(settings.export.password))
    headers = {name: _mask_header(value) for name, value in settings.tracing.headers.items()}
    tracing = structs.replace(settings.tracing, headers=headers)
    return structs.replace(settings, export=export, tracing=tracing)


def _mask_header(value: str) -> str:
    return value if is_reference(get_secret_part(value)) else mask(value)


def _drop_secrets_on_move(old: GatewaySettings, new: GatewaySettings) -> GatewaySettings:
    """Drop from ``old`` the secrets that must not be sent to the addresses of ``new``."""
    if new.export.url != old.export.url:
        old = structs.replace(old, export=structs.replace(old.export, password=""))
    if new.tracing.endpoint != old.tracing.endpoint:
        old = structs.replace(old, tracing=structs.replace(old.tracing, headers={}))
    return old


def _restore_masked(new: GatewaySettings, old: GatewaySettings) -> GatewaySettings:
    """Return ``new`` with masked secrets replaced by those of ``old``. ``BadRequest``."""
    before, after = old.export, new.export
    refuse_reference(after.password, before.password)
    password = keep_unless_moved(
        "export.password", after.password, before.password, after.url != before.url
    )
    return structs.replace(
        new,
        export=structs.replace(after, password=password),
        tracing=_restore_headers(new.tracing, old.tracing),
    )


def _restore_headers(new: TracingSettings, old: TracingSettings) -> TracingSettings:
    moved, headers = new.endpoint != old.endpoint, {}
    for name, value in new.headers.items():
        before = old.headers.get(name, "")
        if value != before or moved:
            refuse_reference(get_secret_part(value))
        headers[name] = keep_unless_moved(f"tracing.headers.{name}", value, before, moved)
    return structs.replace(new, headers=headers)


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
            response_headers=ETAG,
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
            response_headers=ETAG,
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
            response_headers=ETAG,
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
            response_headers=ETAG,
            errors=(BadRequest, Conflict, PreconditionFailed, Unavailable),
            parameters=(DRY_RUN, IF_MATCH),
        ),
    )
