"""The settings of the daemon, as the settings window has them: ``agentd.yml``, and what waits.

``web.settings`` has the same for keys and logins; here each change is noted, and can be undone.
"""

from collections.abc import Callable

from agentd.catalog.settings import IDENTITIES, Settings
from agentd.catalog.standing import SettingsView, masked, unmasked
from agentd.proxy.management.service import Journal, ManagedSettings, SettingsBook
from agentd.web.call import Answer, Call
from agentd.web.manage import shapes
from agentd.web.manage.resource import doing

DaemonSettingsPatch = shapes.patch(Settings, *sorted(IDENTITIES), spelling=None)
"""What is absent stays, null is the default; the names are those of ``agentd.yml``.

The management key does not replace the administrator's password (the proxy specification, section
1), so that stands not among them.
"""


class DaemonSettingsDesk:
    """The endpoints of ``/api/agent/settings/daemon``.

    ``view`` shows all settings and all mistakes, or how they would be by other settings.
    """

    def __init__(
        self,
        book: SettingsBook[Settings],
        journal: Journal,
        view: Callable[[Settings | None], SettingsView],
    ) -> None:
        self._book = book
        self._view = view
        self.managed = ManagedSettings(
            "daemon-settings", book, journal, show=masked, unmask=unmasked
        )

    async def daemon_settings(self, _: Call) -> Answer:
        """Every one."""
        return self._told(await self._book.read(), None)

    async def change_daemon_settings(self, call: Call) -> Answer:
        """Those that are named, all or none; what waits for a restart says so."""
        wish, how = call.json(DaemonSettingsPatch), doing(call)
        settings = await self.managed.change(lambda old: shapes.patched(old, wish), how)
        return self._told(settings, settings if how.dry_run else None)

    def _told(self, settings: Settings, would: Settings | None) -> Answer:
        return Answer(self._view(would), headers={"ETag": f'"{self.managed.tag(settings)}"'})
