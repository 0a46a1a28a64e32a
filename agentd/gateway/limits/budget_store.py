"""``budgets.yml`` of the configuration folder: limits that access keys share.

It is written by hand, and by the API, which leaves the comments as they are.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial

from msgspec import Struct

from agentd.core.errors import Conflict
from agentd.gateway.limits.budgets import Budget, index_by_account, validate
from agentd.storage import document
from agentd.storage.layout import Layout
from agentd.storage.watched_file import WatchedFile
from agentd.storage.yaml import reader as yaml_reader
from agentd.storage.yaml.entries import NamedEntries, WatchedEntries


class BudgetsYml(Struct, frozen=True):
    """The content of ``budgets.yml``."""

    budgets: tuple[Budget, ...] | None = None


def load(layout: Layout) -> Mapping[str, Budget]:
    """Return the budgets by name, in the file's order; none without a file. Blocking.

    Raises ``ConfigError`` with every problem, or ``Unavailable``.
    """
    found = document.read_document(layout.budgets, yaml_reader.MAX_FILE_SIZE)
    if found is None:
        return {}
    content = yaml_reader.load_yaml(layout.budgets, found.data, BudgetsYml, _validate)
    return {budget.name: budget for budget in content.budgets or ()}


def watch_budgets(layout: Layout, changed: Callable[[], None]) -> WatchedFile[Mapping[str, Budget]]:
    """Return the file as it is followed; ``changed`` is called on the loop when it changes."""
    nothing: Mapping[str, Budget] = {}
    return WatchedFile(layout.budgets, partial(load, layout), nothing, changed)


class BudgetEntries(NamedEntries[Budget]):
    """Edits of the file's budgets; no two are of the same owner or tag."""

    def require_free(self, others: list[Budget], entry: Budget) -> None:
        """Raise ``Conflict`` if another has the name, or is of the same owner or tag."""
        super().require_free(others, entry)
        known = index_by_account(others).get((entry.scope, entry.owner or entry.tag))
        if known:
            raise Conflict(
                f'The budget "{known.name}" is of the same {entry.scope}.',
                "Write all limits into one.",
            )


def open_entries(layout: Layout) -> BudgetEntries:
    """Return the editor of the file's budgets."""
    return BudgetEntries(layout.budgets, BudgetsYml, "budgets", _validate, "budget")


class BudgetRepository(WatchedEntries[Budget]):
    """The budgets as they are now, and how they are changed; ``file`` is followed already."""

    def __init__(self, layout: Layout, file: WatchedFile[Mapping[str, Budget]]) -> None:
        super().__init__(open_entries(layout), file)
        self.file = file

    @property
    def current(self) -> Mapping[str, Budget]:
        """The budgets by name, as of the last valid version of the file."""
        return self.file.current


def _validate(content: BudgetsYml) -> Iterator[tuple[tuple[str | int, ...], str]]:
    return ((("budgets", *place), what) for place, what in validate(content.budgets or ()))
