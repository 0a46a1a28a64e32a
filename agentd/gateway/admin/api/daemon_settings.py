"""Endpoints of the daemon's settings (``agentd.yml``) for the management key.

``settings.api`` offers the same to users; here each change is logged and can be undone.
"""

from collections.abc import Callable

from agentd.gateway.admin.api import shapes
from agentd.gateway.admin.api.resource import parse_change_request
from agentd.gateway.admin.service import ChangeLog, GatewaySettingsStore, ManagedSettings
from agentd.http.request import Request, Response
from agentd.settings.model import IDENTITIES, Settings
from agentd.settings.status import SettingsView, mask_secrets, unmask_secrets

DaemonSettingsPatch = shapes.define_patch(Settings, *sorted(IDENTITIES), spelling=None)
"""Absent fields stay, null resets to the default; names are those of ``agentd.yml``.

The management key does not replace the administrator's password (the proxy specification, section
1), so the identity settings are left out.
"""


class DaemonSettingsEndpoints:
    """The endpoints of ``/api/agent/settings/daemon``.

    ``view`` shows all settings and problems, or those that other settings would have.
    """

    def __init__(
        self,
        store: GatewaySettingsStore[Settings],
        journal: ChangeLog,
        view: Callable[[Settings | None], SettingsView],
    ) -> None:
        self._store = store
        self._view = view
        self.managed = ManagedSettings(
            "daemon-settings", store, journal, show=mask_secrets, unmask=unmask_secrets
        )

    async def get_daemon_settings(self, _: Request) -> Response:
        """Return all settings."""
        return self._respond(await self._store.read(), None)

    async def change_daemon_settings(self, call: Request) -> Response:
        """Change settings, all or none; the response says which need a restart."""
        patch, request = call.parse_json(DaemonSettingsPatch), parse_change_request(call)
        settings = await self.managed.change(lambda old: shapes.apply_patch(old, patch), request)
        return self._respond(settings, settings if request.dry_run else None)

    def _respond(self, settings: Settings, pending: Settings | None) -> Response:
        return Response(
            self._view(pending), headers={"ETag": f'"{self.managed.create_tag(settings)}"'}
        )
