"""``proxy.yml`` of the configuration folder: the settings of the model gateway.

It is written by hand, and by the API, which leaves every other byte as it is.
"""

from agentd.disk import document, handwritten
from agentd.disk.layout import Layout
from agentd.proxy.settings import GatewaySettings, contradictions


def load(layout: Layout) -> GatewaySettings:
    """The settings; the defaults without a file. Blocking.

    Raises ``Misconfigured`` with every mistake, or ``Unavailable``.
    """
    found = document.read(layout.gateway_settings, handwritten.LIMIT)
    return _parsed(layout.gateway_settings, found.data if found else b"")


def _parsed(path: str, data: bytes) -> GatewaySettings:
    return handwritten.load(path, data, GatewaySettings, contradictions)
