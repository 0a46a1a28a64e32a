"""The settings of the gateway, as the settings window has them: all of them, with their uses."""

from typing import Any, Protocol

import msgspec
from msgspec import Struct, structs

from agentd.errors import Mistake
from agentd.proxy.management.service import Journal, ManagedSettings, SettingsBook
from agentd.proxy.management.settings import carried, revised, shown
from agentd.proxy.settings import GatewaySettings
from agentd.web.call import Answer, Call
from agentd.web.manage import shapes
from agentd.web.manage.resource import doing

SettingsPatch = shapes.patch(GatewaySettings, spelling=None)
"""What is absent stays, null is the default; the names are those of ``proxy.yml``."""


class SettingView(Struct, frozen=True):
    """One setting; a secret in it is masked."""

    name: str
    """As in ``proxy.yml``."""
    value: Any
    """What holds now."""
    default: Any
    """What holds where the file says nothing."""
    description: str
    """What it is for."""


class GatewaySettingsView(Struct, frozen=True):
    """All settings, and what is wrong with ``proxy.yml`` (empty: nothing)."""

    settings: list[SettingView]
    """Each setting."""
    mistakes: list[str]
    """What is wrong with the file; what it said before holds then."""


class Following(SettingsBook[GatewaySettings], Protocol):
    """The settings and their file (``disk.gateway_settings.GatewaySettingsBook``)."""

    @property
    def mistakes(self) -> tuple[Mistake, ...]:
        """What is wrong with the file; what it said before holds."""
        ...


class GatewaySettingsDesk:
    """The endpoints of ``/api/agent/settings``."""

    def __init__(self, book: Following, journal: Journal) -> None:
        self._book = book
        self.managed = ManagedSettings("settings", book, journal, show=shown, unmask=revised)

    async def gateway_settings(self, _: Call) -> Answer:
        """Every one."""
        return self._told(await self._book.read())

    async def change_gateway_settings(self, call: Call) -> Answer:
        """Those that are named, all or none; they hold at once."""
        wish = call.json(SettingsPatch)

        def revise(old: GatewaySettings) -> GatewaySettings:
            return shapes.patched(carried(old, shapes.patched(old, wish)), wish)

        return self._told(await self.managed.change(revise, doing(call)))

    def _told(self, settings: GatewaySettings) -> Answer:
        masked, usual = shown(settings), GatewaySettings()
        view = GatewaySettingsView(
            [
                SettingView(
                    one.name,
                    _plain(getattr(masked, one.name)),
                    _plain(getattr(usual, one.name)),
                    _description(one),
                )
                for one in structs.fields(GatewaySettings)
            ],
            [str(mistake) for mistake in self._book.mistakes],
        )
        return Answer(view, headers={"ETag": f'"{self.managed.tag(settings)}"'})


def _plain(value: object) -> object:
    """All its fields by their names in the file."""
    if isinstance(value, Struct):
        return {name: _plain(getattr(value, name)) for name in value.__struct_fields__}
    return value


def _description(one: structs.FieldInfo) -> str:
    metas = (meta for meta in one.type.__metadata__ if isinstance(meta, msgspec.Meta))
    return next((meta.description for meta in metas if meta.description), "")
