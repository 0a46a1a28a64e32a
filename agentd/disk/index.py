"""The index: every chat at a glance in one file, so that a start opens only what changed.

It is a cache, believed only where a journal still has the size that it names.
"""

import logging

import msgspec
from msgspec import Struct

from agentd.chats.fold import Summary
from agentd.disk.document import read, replace
from agentd.disk.lines import Broken, seal, unseal
from agentd.errors import AgentdError
from agentd.ids import Marks

log = logging.getLogger(__name__)

FORMAT = 2
_LIMIT = 256 * 1024 * 1024


class Index(Struct, frozen=True):
    """What ``index.json`` holds; ``highest`` are the marks when it was written."""

    format: int
    highest: Marks
    chats: list[Summary]


_decoder = msgspec.json.Decoder(Index)


def write_index(path: str, highest: Marks, chats: list[Summary]) -> None:
    """Store it. Blocking; raises ``Unavailable``."""
    replace(path, seal(Index(FORMAT, highest, chats)))


def read_index(path: str) -> Index:
    """The stored index; an empty one when there is none that can be believed."""
    empty = Index(FORMAT, Marks(), [])
    try:
        document = read(path, _LIMIT)
        if document is None:
            return empty
        found = _decoder.decode(unseal(document.data))
    except (AgentdError, Broken, msgspec.DecodeError) as error:
        log.warning("%s is not used, every chat is read instead: %s", path, error)
        return empty
    return found if found.format == FORMAT else empty
