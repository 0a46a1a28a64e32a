"""``prices.json``: the price catalogue, as it was last read from the library. Everything blocks.

It is read anew for each use: it is needed rarely, and takes no memory in between.
"""

import logging
import os
from datetime import timedelta

import msgspec

from agentd.core.clock import Timestamp, parse_iso
from agentd.core.errors import Unavailable
from agentd.gateway.catalogue.model import PriceCatalogue
from agentd.storage import document
from agentd.storage.layout import Layout
from agentd.system.installed import get_install_command

log = logging.getLogger(__name__)

MAX_BYTES = 16 * 1024 * 1024
MAX_AGE = timedelta(days=1)
"""After this time the catalogue is read from the library again."""


def load_catalogue(layout: Layout) -> PriceCatalogue | None:
    """Return the catalogue; None without one, or where the file is damaged, which is logged."""
    found = document.read_document(layout.price_catalogue, MAX_BYTES)
    if found is None:
        return None
    try:
        return msgspec.json.decode(found.data, type=PriceCatalogue)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        log.warning("%s is damaged, and made again: %s", layout.price_catalogue, error)
        return None


def require_catalogue(layout: Layout) -> PriceCatalogue:
    """Return the catalogue. Raises ``Unavailable`` with what to do where there is none."""
    found = load_catalogue(layout)
    if found is None:
        raise Unavailable(
            "There is no price catalogue yet",
            f"agentd proxy prices update reads it; the library: {get_install_command('prices')}",
        )
    return found


def save_catalogue(layout: Layout, data: bytes) -> PriceCatalogue:
    """Check and keep an encoded catalogue. Raises ``Unavailable``."""
    try:
        catalogue = msgspec.json.decode(data, type=PriceCatalogue)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Unavailable("The library's prices are not in a known form", str(error)) from error
    document.make_folder(os.path.dirname(layout.price_catalogue))
    document.replace_document(layout.price_catalogue, data)
    return catalogue


def is_current(layout: Layout, now: Timestamp) -> bool:
    """Return whether the catalogue was read from the library within the last day.

    One that was read tomorrow, by a wrong clock, is not.
    """
    found = load_catalogue(layout)
    return found is not None and abs(parse_iso(now) - parse_iso(found.at)) < MAX_AGE
