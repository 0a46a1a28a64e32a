"""Reading the files of both folders without changing them, for ``agentd check``."""

import os
import re
import time
from collections.abc import Callable, Iterable, Iterator

from agentd.disk import changes, channels, gateway_settings, models, secret_rules
from agentd.disk.access_keys import AccessKeyFile
from agentd.disk.document import Stamp, read, stamp
from agentd.disk.labels import IntentFile
from agentd.disk.layout import Layout
from agentd.disk.ledger_report import report_standing
from agentd.disk.licence import LicenceFile
from agentd.disk.lines import Broken, Damage
from agentd.disk.lines import read as read_lines
from agentd.disk.secret_rules import seed_mistakes
from agentd.disk.sessions import SessionFile
from agentd.disk.state import stored_format, stored_marks
from agentd.errors import AgentdError, Misconfigured, Mistake

INSPECTED_SECONDS = 10.0
"""For how long files that did not change are believed to be as they were found."""

_LIMIT = 16 * 1024**3
_LOCK_HELP = "it is made anew where it is needed"


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
        if not document.data:
            found.append(Mistake(path, 0, "is empty; restore the chat's folder from a copy"))
        found += (
            Mistake(path, step.line, _told(step))
            for step in read_lines(document.data)
            if isinstance(step, Damage)
        )
    return found


def silent_damage(layout: Layout) -> list[Mistake]:
    """Damage of files in the state folder that nobody would be told of otherwise. Blocking.

    What a person may have done on purpose is told, too, where it looks like damage.
    """
    found = mistakes_of(lambda: _emptied(layout.keys))
    found += mistakes_of(lambda: _emptied(layout.access_keys))
    found += _listed(lambda: changes.damage(layout))
    found += _damaged_undos(layout)
    found += _shortened_days(layout)
    return found


def state_mistakes(layout: Layout) -> list[Mistake]:
    """What is wrong with the files that the daemon keeps for itself. Blocking."""
    found: list[Mistake] = []
    for lock in (layout.daemon_lock, layout.keys_lock, layout.access_keys_lock):
        if os.path.lexists(lock) and not os.path.isfile(lock):
            found.append(Mistake(lock, 0, f"is not a file: move it away ({_LOCK_HELP})"))
    found += mistakes_of(lambda: stored_format(layout))
    found += mistakes_of(lambda: stored_marks(layout))
    found += mistakes_of(SessionFile(layout).load)
    found += mistakes_of(IntentFile(layout).load)
    found += _listed(lambda: seed_mistakes(layout))
    return found + silent_damage(layout)


def gateway_mistakes(layout: Layout) -> list[Mistake]:
    """What is wrong with the model gateway's files, those of its models apart. Blocking.

    What does not fit between its models and its channels is told once both can be read.
    """
    found = mistakes_of(lambda: channels.check(layout))
    found += mistakes_of(lambda: gateway_settings.load(layout))
    found += mistakes_of(lambda: secret_rules.check(layout))
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


def _listed(look: Callable[[], Iterable[Mistake]]) -> list[Mistake]:
    """What ``look`` finds, and why it finds no more."""
    found: list[Mistake] = []
    trouble = mistakes_of(lambda: found.extend(look()))
    return found + trouble


def _emptied(path: str) -> None:
    """Raise for a file of keys without a word in it: agentd writes none like that."""
    document = read(path, _LIMIT)
    if document is not None and not document.data.strip(b"\0 \t\r\n"):
        what = "is empty, so none of its keys is good: restore it from a copy; or, if that is"
        raise Misconfigured([Mistake(path, 0, f"{what} meant, write keys: [] or delete the file")])


def _damaged_undos(layout: Layout) -> Iterator[Mistake]:
    """Each file that is to undo a change, and cannot; none where ``proxy/seed`` is damaged."""
    folder = os.path.dirname(layout.undo(0))
    names = sorted(filter(str.isdecimal, _files(folder, ".enc")), key=int)
    secret = read(layout.placeholder_seed, _LIMIT) if names else None
    if secret is None or next(seed_mistakes(layout), None):
        return
    for name in names:
        path = layout.undo(int(name))
        try:
            document = read(path, _LIMIT)
            if document:
                changes.check_undo(secret.data, int(name), document.data)
        except (AgentdError, Broken) as error:
            yield Mistake(path, 0, f"is damaged ({error}): change {name} cannot be undone")


def _shortened_days(layout: Layout) -> Iterator[Mistake]:
    """Each day of the ledger whose file has less than its report was made from."""
    for day in _files(layout.ledger_reports, ".json"):
        path = layout.ledger_day(day)
        try:
            told = report_standing(layout, day).size
            size = os.stat(path).st_size
        except (Broken, OSError):
            continue  # a report is made anew; a day's file may be gone when its report is kept
        if size < told:
            what = f"has {size} bytes, of the {told} that its report was made from"
            yield Mistake(path, 0, f"{what}: requests are lost; restore it from a copy")


def _files(folder: str, ending: str) -> list[str]:
    """The names in a folder, without this ending, that are numbers or days."""
    try:
        names = [name.removesuffix(ending) for name in os.listdir(folder) if name.endswith(ending)]
    except OSError:
        return []
    return sorted(name for name in names if re.fullmatch("[0-9]+|[0-9]{4}-[0-9]{2}-[0-9]{2}", name))


def _names(folder: str) -> list[str]:
    try:
        return [name for name in os.listdir(folder) if name.isascii() and name.isdecimal()]
    except FileNotFoundError:
        return []


def _told(damage: Damage) -> str:
    if damage.torn:
        return "an unfinished last line; the next start cuts it off and keeps it beside"
    return f"{damage.reason}; the chat is read-only from here on: restore it from a copy"
