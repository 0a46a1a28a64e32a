"""The runs of the daemon over a state folder, so that an older copy of it is told from the folder.

A listener comes back with a seq and the life that told it. A copy that was restored knows no life
that began after it was made, and of the one that it was made in only what it holds.
"""

import logging

import msgspec
from msgspec import Struct

from agentd import ids
from agentd.disk.document import read, replace
from agentd.disk.lines import Broken, seal, unseal
from agentd.errors import AgentdError
from agentd.ids import Life, Lives

log = logging.getLogger(__name__)

MOST = 1000
"""Older lives are forgotten: who comes back with a mark of theirs is told of a gap."""
_LIMIT = 1024 * 1024


class _Kept(Struct, frozen=True):
    """What ``lives.json`` holds."""

    lives: list[Life]


def begin_life(path: str, used: int, there: int, *, writable: bool) -> Lives:
    """End the last life at ``there``, the highest seq in a journal, and begin one after ``used``.

    Blocking. A life that cannot be stored is one all the same: a later start will not know it.
    """
    lives = _stored(path)
    if lives and lives[-1].upto is None:
        last = lives.pop()
        lives.append(Life(last.name, last.after, max(last.after, there)))
    lives = [*lives, Life(ids.new_life(), used)][-MOST:]
    if writable:
        try:
            replace(path, seal(_Kept(lives)))
        except AgentdError as error:
            log.warning("listeners will be told of a gap after the next start: %s", error)
    return Lives(lives)


def _stored(path: str) -> list[Life]:
    try:
        document = read(path, _LIMIT)
        return msgspec.json.decode(unseal(document.data), type=_Kept).lives if document else []
    except (AgentdError, Broken, msgspec.DecodeError) as error:
        log.warning("%s is not used, who listened before is told of a gap: %s", path, error)
        return []
