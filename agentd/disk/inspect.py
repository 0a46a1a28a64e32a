"""Reading the files of both folders without changing them, for ``agentd check``."""

import os
import time
from collections.abc import Callable

from agentd.disk import channels, gateway_settings, models
from agentd.disk.access_keys import AccessKeyFile
from agentd.disk.document import Stamp, read, stamp
from agentd.disk.layout import Layout
from agentd.disk.licence import LicenceFile
from agentd.disk.lines import Damage
from agentd.disk.lines import read as read_lines
from agentd.errors import AgentdError, Misconfigured, Mistake

INSPECTED_SECONDS = 10.0
"""For how long files that did not change are believed to be as they were found."""

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


def gateway_mistakes(layout: Layout) -> list[Mistake]:
    """What is wrong with the model gateway's files, those of its models apart. Blocking.

    What does not fit between its models and its channels is told once both can be read.
    """
    found = mistakes_of(lambda: channels.check(layout))
    found += mistakes_of(lambda: gateway_settings.load(layout))
    found += mistakes_of(LicenceFile(layout).issuers)
    found += AccessKeyFile(layout).read().mistakes
    try:
        return [*found, *models.strays(layout, channels.load(layout))]
    except AgentdError:
        return found


class GatewayInspection:
    """The mistakes in the gateway's files, those of its models too, remembered.

    Looked for anew once a file is another, and after some seconds: a file may name others, such as
    one that holds a key.
    """

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._files = (
            *(layout.models, layout.channels, layout.gateway_settings, layout.secret_rules),
            *(layout.access_keys, layout.licence, layout.licence_issuers),
        )
        self._seen: tuple[Stamp | None, ...] | None = None
        self._until = 0.0
        self._found: tuple[Mistake, ...] = ()

    def mistakes(self) -> tuple[Mistake, ...]:
        """Return all mistakes that there are now. Blocking."""
        seen = tuple(map(stamp, self._files))
        if seen != self._seen or time.monotonic() >= self._until:
            layout = self._layout
            self._found = (
                *mistakes_of(lambda: models.load(layout)),
                *gateway_mistakes(layout),
            )
            self._seen, self._until = seen, time.monotonic() + INSPECTED_SECONDS
        return self._found


def mistakes_of(look: Callable[[], object]) -> list[Mistake]:
    """The mistakes that ``look`` raises."""
    try:
        look()
    except Misconfigured as error:
        return error.mistakes
    except AgentdError as error:
        return [Mistake("agentd", 0, error.message)]
    return []


def _names(folder: str) -> list[str]:
    try:
        return [name for name in os.listdir(folder) if name.isascii() and name.isdecimal()]
    except FileNotFoundError:
        return []


def _told(damage: Damage) -> str:
    if damage.torn:
        return "an unfinished last line; the next start cuts it off and keeps it beside"
    return f"{damage.reason}; the chat is read-only from here on: restore it from a copy"
