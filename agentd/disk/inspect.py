"""Reading everything in the state folder without changing it, for ``agentd check``."""

import os

from agentd.disk.document import read
from agentd.disk.layout import Layout
from agentd.disk.lines import Damage
from agentd.disk.lines import read as read_lines
from agentd.errors import AgentdError, Misconfigured, Mistake

_LIMIT = 16 * 1024**3


def damaged_chats(layout: Layout) -> list[Mistake]:
    """Every journal that is not sound from its first line to its last. Blocking.

    An unfinished last line is told too; it is no loss, and the next start cuts it off.
    """
    found: list[Mistake] = []
    for name in sorted(_names(layout.chats), key=lambda name: (len(name), name)):
        path = os.path.join(layout.chats, name, "journal.jsonl")
        try:
            document = read(path, _LIMIT)
        except Misconfigured as error:
            found += error.mistakes
            continue
        except AgentdError as error:
            found.append(Mistake(path, 0, error.message))
            continue
        if document is None:
            found.append(Mistake(path, 0, "is missing"))
            continue
        found += (
            Mistake(path, step.line, _told(step))
            for step in read_lines(document.data)
            if isinstance(step, Damage)
        )
    return found


def _names(folder: str) -> list[str]:
    try:
        return [name for name in os.listdir(folder) if name.isascii() and name.isdecimal()]
    except FileNotFoundError:
        return []


def _told(damage: Damage) -> str:
    if damage.torn:
        return "an unfinished last line; the next start cuts it off and keeps it beside"
    return f"{damage.reason}; the chat is read-only from here on: restore it from a copy"
