"""Find problems in the files of the state and configuration folders, without changing them."""

import os
import re
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress

from agentd.agent.workspace_decisions import open_hook_decisions, open_server_decisions
from agentd.app.state import read_format, read_marks
from agentd.auth.session_store import SessionFile
from agentd.bots.store import BotsYmlFile
from agentd.chats.journal_reader import JournalDamage
from agentd.chats.journal_reader import read_entries as read_lines
from agentd.chats.labels.store import LabelChangeFile
from agentd.core.clock import SystemClock
from agentd.core.errors import AgentdError, ConfigError, ConfigProblem
from agentd.gateway.admin import changes_store
from agentd.gateway.alerts import targets as alert_targets
from agentd.gateway.alerts.store import AlertFile
from agentd.gateway.channels import store as channels_store
from agentd.gateway.keys.file import AccessKeyFile
from agentd.gateway.ledger.day_report import read_report_position
from agentd.gateway.licence.store import LicenceFile
from agentd.gateway.limits import budget_store
from agentd.gateway.management_keys.file import ManagementKeyFile
from agentd.gateway.secrets import rule_file as secrets_rule_file
from agentd.gateway.secrets.rule_file import check_seed
from agentd.gateway.settings import store as settings_store
from agentd.models import store as models_store
from agentd.storage.checksummed_json import ChecksumMismatch
from agentd.storage.document import FileStamp, get_stamp, read_document
from agentd.storage.layout import Layout
from agentd.ui.preference_store import PreferenceFiles
from agentd.ui.push.store import PushFile

CACHE_SECONDS = 10.0
"""Seconds for which the problems of unchanged files are cached."""

_LIMIT = 16 * 1024**3
_LOCK_HELP = "it is created again where it is needed"


def find_corrupt_journals(layout: Layout) -> list[ConfigProblem]:
    """Return the problems of all chat journals. Blocking.

    An unfinished last line is reported too; nothing is lost, and the next start removes it.
    """
    found: list[ConfigProblem] = []
    for name in sorted(_list_numbered(layout.chats), key=lambda name: (len(name), name)):
        path = os.path.join(layout.chats, name, "journal.jsonl")
        try:
            document = read_document(path, _LIMIT)
        except ConfigError as error:
            found += error.problems
            continue
        except AgentdError as error:
            found.append(ConfigProblem(path, 0, error.message))
            continue
        if document is None:
            found.append(ConfigProblem(path, 0, "is missing"))
            continue
        if not document.data:
            found.append(ConfigProblem(path, 0, "is empty; restore the chat's folder from a copy"))
        found += (
            ConfigProblem(path, step.line, _describe(step))
            for step in read_lines(document.data)
            if isinstance(step, JournalDamage)
        )
    return found


def find_silent_corruption(layout: Layout) -> list[ConfigProblem]:
    """Find damaged files in the state folder that are not reported otherwise. Blocking.

    Deliberate changes are reported, too, if they look like damage.
    """
    found = collect_problems(lambda: _require_content(layout.keys))
    found += collect_problems(lambda: _require_content(layout.access_keys))
    found += collect_problems(lambda: _require_content(layout.management_keys))
    found += _collect_listed(lambda: changes_store.find_gaps(layout))
    found += _find_corrupt_undo_records(layout)
    found += _find_truncated_days(layout)
    return found


def find_state_problems(layout: Layout) -> list[ConfigProblem]:
    """Return the problems of the state folder's files, chats excepted. Blocking."""
    found: list[ConfigProblem] = []
    decisions = (layout.mcp_decisions_lock, layout.hook_decisions_lock)
    locks = (layout.keys_lock, layout.access_keys_lock, layout.management_keys_lock)
    for lock in (layout.daemon_lock, *decisions, *locks):
        if os.path.lexists(lock) and not os.path.isfile(lock):
            found.append(ConfigProblem(lock, 0, f"is not a file: move it away ({_LOCK_HELP})"))
    found += collect_problems(lambda: read_format(layout))
    found += collect_problems(lambda: read_marks(layout))
    found += collect_problems(SessionFile(layout).load)
    found += collect_problems(open_server_decisions(layout).load)
    found += collect_problems(open_hook_decisions(layout).load)
    found += collect_problems(LabelChangeFile(layout).load)
    found += collect_problems(PushFile(layout).load)
    found += collect_problems(AlertFile(layout).load)
    found += _collect_listed(PreferenceFiles(layout).find_problems)
    found += _collect_listed(lambda: check_seed(layout))
    return found + find_silent_corruption(layout)


def find_gateway_problems(layout: Layout) -> list[ConfigProblem]:
    """Return the problems of the model gateway's files, except ``models.yml``. Blocking.

    Mismatches between its models and its channels, and of targets of alerts and bots, are reported
    once both can be read.
    """
    found = collect_problems(lambda: channels_store.check(layout))
    found += collect_problems(lambda: settings_store.load(layout))
    found += collect_problems(lambda: budget_store.load(layout))
    found += collect_problems(lambda: secrets_rule_file.check_rules(layout))
    found += collect_problems(lambda: alert_targets.check(layout))
    found += collect_problems(lambda: LicenceFile(layout).check(SystemClock().now()))
    found += AccessKeyFile(layout).read().problems
    found += _collect_listed(lambda: ManagementKeyFile(layout).load().problems)
    with suppress(AgentdError):  # told by then
        found += models_store.find_unknown_channels(layout, channels_store.load(layout))
    with suppress(AgentdError):
        bots = {bot.id: bot.enabled for bot in BotsYmlFile(layout).load()}
        found += alert_targets.find_unusable_bots(layout, bots)
    return found


class GatewayInspection:
    """Caches the problems of the gateway's files, including ``models.yml``.

    They are looked for again once a file has changed, and after ``CACHE_SECONDS``: a file may refer
    to others, such as one that holds a key.
    """

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._files = (
            *(layout.models, layout.channels, layout.gateway_settings, layout.secret_rules),
            *(layout.access_keys, layout.management_keys, layout.budgets, layout.alert_targets),
            *(layout.licence, layout.licence_issuers),
        )
        self._seen: tuple[FileStamp | None, ...] | None = None
        self._until = 0.0
        self._found: tuple[ConfigProblem, ...] = ()

    def find_problems(self) -> tuple[ConfigProblem, ...]:
        """Return the current problems. Blocking."""
        seen = tuple(map(get_stamp, self._files))
        if seen != self._seen or time.monotonic() >= self._until:
            layout = self._layout
            self._found = (
                *collect_problems(lambda: models_store.load(layout)),
                *find_gateway_problems(layout),
            )
            self._seen, self._until = seen, time.monotonic() + CACHE_SECONDS
        return self._found


def collect_problems(look: Callable[[], object]) -> list[ConfigProblem]:
    """Return the problems that ``look`` raises."""
    try:
        look()
    except ConfigError as error:
        return error.problems
    except AgentdError as error:
        return [ConfigProblem("agentd", 0, error.message)]
    return []


def _collect_listed(look: Callable[[], Iterable[ConfigProblem]]) -> list[ConfigProblem]:
    """Return the problems that ``look`` yields, and those that it raises."""
    found: list[ConfigProblem] = []
    raised = collect_problems(lambda: found.extend(look()))
    return found + raised


def _require_content(path: str) -> None:
    """Raise ``ConfigError`` for an empty file of keys: agentd never writes one."""
    document = read_document(path, _LIMIT)
    if document is not None and not document.data.strip(b"\0 \t\r\n"):
        what = "is empty, so none of its keys is good: restore it from a copy; or, if that is"
        raise ConfigError(
            [ConfigProblem(path, 0, f"{what} meant, write keys: [] or delete the file")]
        )


def _find_corrupt_undo_records(layout: Layout) -> Iterator[ConfigProblem]:
    """Yield undo records that cannot be decrypted; none if ``proxy/seed`` itself is damaged."""
    folder = os.path.dirname(layout.get_undo_path(0))
    names = sorted(filter(str.isdecimal, _list_dated(folder, ".enc")), key=int)
    secret = read_document(layout.placeholder_seed, _LIMIT) if names else None
    if secret is None or next(check_seed(layout), None):
        return
    for name in names:
        path = layout.get_undo_path(int(name))
        try:
            document = read_document(path, _LIMIT)
            if document:
                changes_store.check_undo(secret.data, int(name), document.data)
        except (AgentdError, ChecksumMismatch) as error:
            yield ConfigProblem(path, 0, f"is damaged ({error}): change {name} cannot be undone")


def _find_truncated_days(layout: Layout) -> Iterator[ConfigProblem]:
    """Yield days of the ledger whose file is shorter than what its report was made from."""
    for day in _list_dated(layout.ledger_reports, ".json"):
        path = layout.get_ledger_day_path(day)
        try:
            reported = read_report_position(layout, day).size
            size = os.stat(path).st_size
        except (ChecksumMismatch, OSError):
            continue  # a damaged report is made again; the day may be deleted, its report kept
        if size < reported:
            what = f"has {size} bytes, of the {reported} that its report was made from"
            yield ConfigProblem(path, 0, f"{what}: requests are lost; restore it from a copy")


def _list_dated(folder: str, ending: str) -> list[str]:
    """Return the names in a folder that are numbers or dates, without this ending."""
    try:
        names = [name.removesuffix(ending) for name in os.listdir(folder) if name.endswith(ending)]
    except OSError:
        return []
    return sorted(name for name in names if re.fullmatch("[0-9]+|[0-9]{4}-[0-9]{2}-[0-9]{2}", name))


def _list_numbered(folder: str) -> list[str]:
    try:
        return [name for name in os.listdir(folder) if name.isascii() and name.isdecimal()]
    except FileNotFoundError:
        return []


def _describe(damage: JournalDamage) -> str:
    if damage.torn:
        return "an unfinished last line; the next start cuts it off and keeps it beside"
    return f"{damage.reason}; the chat is read-only from here on: restore it from a copy"
