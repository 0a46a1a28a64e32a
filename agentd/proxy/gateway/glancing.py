"""What must be known of every request before anything is done with it."""

from agentd.proxy.dialects.caller import Glance
from agentd.proxy.dialects.callers import CALLERS
from agentd.proxy.gateway.asking import Asked


def glanced(asked: Asked) -> Glance:
    """The model, whether it streams, and how much it may cost. Raises ``BadRequest``."""
    return CALLERS[asked.endpoint.dialect].glance(asked.body)
