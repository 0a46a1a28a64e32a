"""The settings of the gateway with their one secret: how they are shown, and what keeps it."""

from msgspec import structs

from agentd.proxy.masking import at_address, masked, refuse_reference
from agentd.proxy.settings import GatewaySettings


def shown(settings: GatewaySettings) -> GatewaySettings:
    """As they may be told to anybody who manages."""
    export = structs.replace(settings.export, password=masked(settings.export.password))
    return structs.replace(settings, export=export)


def carried(old: GatewaySettings, new: GatewaySettings) -> GatewaySettings:
    """``old`` as it is changed to ``new``: a database's password goes to no other address."""
    if new.export.url == old.export.url:
        return old
    return structs.replace(old, export=structs.replace(old.export, password=""))


def revised(new: GatewaySettings, old: GatewaySettings) -> GatewaySettings:
    """What ``old`` becomes when ``new``, in which the secret may be masked, is written instead.

    Raises ``BadRequest`` as ``proxy.masking.revised`` does.
    """
    before, after = old.export, new.export
    refuse_reference(after.password, before.password)
    password = at_address(
        "export.password", after.password, before.password, after.url != before.url
    )
    return structs.replace(new, export=structs.replace(after, password=password))
