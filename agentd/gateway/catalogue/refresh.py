"""Reloads the price catalogue in a separate process, so that the daemon stays small."""

import asyncio
import sys

from agentd.core.clock import Timestamp
from agentd.core.errors import Unavailable
from agentd.gateway.catalogue import extraction_child
from agentd.gateway.catalogue.model import PriceCatalogue
from agentd.gateway.catalogue.store import MAX_BYTES, save_catalogue
from agentd.storage.layout import Layout
from agentd.system.process import run

TIMEOUT = 60.0
"""Seconds that the process may take; it needs half of one."""


async def refresh_catalogue(layout: Layout, now: Timestamp) -> PriceCatalogue:
    """Read the installed library's catalogue and keep it.

    Raises ``Unavailable`` with what to do where the library is not installed or fails.
    """
    done = await run(
        [sys.executable, "-P", extraction_child.__file__],
        folder="/",
        given=now.encode(),
        timeout=TIMEOUT,
        limit=MAX_BYTES,
    )
    message, _, hint = done.errors.decode("utf-8", "replace").strip().partition("\n")
    if done.code == extraction_child.NOT_INSTALLED:
        raise Unavailable(message, hint)
    if done.code or done.truncated or done.late:
        raise Unavailable("The price catalogue could not be read from the library", message[-500:])
    return await asyncio.to_thread(save_catalogue, layout, done.output)
