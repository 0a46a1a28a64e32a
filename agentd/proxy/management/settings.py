"""The settings of the gateway with their one secret: how they are shown, and what keeps it."""

from msgspec import structs

from agentd.proxy.masking import kept, masked, refuse_reference
from agentd.proxy.settings import GatewaySettings


def shown(settings: GatewaySettings) -> GatewaySettings:
    """As they may be told to anybody who manages."""
    export = structs.replace(settings.export, password=masked(settings.export.password))
    return structs.replace(settings, export=export)


def revised(new: GatewaySettings, old: GatewaySettings) -> GatewaySettings:
    """What ``old`` becomes when ``new``, in which the secret may be masked, is written instead.

    The password of a database goes to no other address. ``BadRequest`` as ``proxy.masking``.
    """
    before, after = old.export, new.export
    refuse_reference(after.password, before.password)
    password = kept(after.password, before.password)
    if after.url != before.url and password == before.password:
        password = ""
    return structs.replace(new, export=structs.replace(after, password=password))
