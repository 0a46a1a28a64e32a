"""The settings as the extended surface shows and changes them; secrets are masked.

Source: the remote-control specification, section 4, 'Extended surface'; fields are ours.
"""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from msgspec import defstruct, field, structs

from agentd.catalog.settings import BY_ADMINISTRATORS, Settings
from agentd.catalog.standing import SettingsView
from agentd.errors import Forbidden
from agentd.web.call import Answer, Call

SetSettings = defstruct(
    "SetSettings",
    [(one.name, one.type | None, field(default=None)) for one in structs.fields(Settings)],
    forbid_unknown_fields=True,
)
"""The body of ``settings/set``, described: what is absent stays, null is the default."""


class InForce(Protocol):
    """The settings and their file (``disk.in_force.SettingsInForce``)."""

    async def refresh(self) -> None:
        """Take up what the file says at the call."""
        ...

    async def change(self, changes: Mapping[str, object]) -> Settings:
        """Write these into the file, all or none."""
        ...


class SettingsDesk:
    """The endpoints below ``/api/settings``. ``view`` shows all settings and all mistakes."""

    def __init__(self, settings: InForce, view: Callable[[], SettingsView]) -> None:
        self._settings = settings
        self._view = view

    async def all_settings(self, _: Call) -> Answer:
        """Every setting, and what is wrong with any hand-written file."""
        await self._settings.refresh()
        return Answer(self._view())

    async def set_settings(self, call: Call) -> Answer:
        """Change some, all or none; what waits for a restart says so."""
        changes = call.json(dict[str, Any])
        kept = sorted(changes.keys() & BY_ADMINISTRATORS)
        if kept and call.caller.role != "administrator":
            raise Forbidden(
                f"Only an administrator may change {' and '.join(kept)}",
                "It would widen what a key or a manager can do. Sign in as an administrator,"
                " or edit agentd.yml.",
            )
        await self._settings.change(changes)
        shown = self._view()
        told = tuple(one for one in shown.settings if one.name in changes)
        return Answer(SettingsView(told, shown.mistakes))
