"""Sizes that make one stop and think, and what every name owes its reader.

Where a longer piece reads better, it is listed here with its reason.
"""

import ast
from functools import cache
from pathlib import Path

from tests.architecture.support import MODULES, name_of, text_of, tree_of

Piece = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef

FILE_LINES = 600
CLASS_LINES = 250
FUNCTION_LINES = 50

LONGER: dict[str, str] = {
    "daemon.life.started": "the daemon's life in its order, one step after the other",
    "disk.layout.Layout": "every path of ours, one short property each",
    "chats.service.ChatService": "every command on a chat, one short method each",
    "chats.fold.Chat": "the fold of one chat, one short method for each kind of record",
    "web.exchange.Exchange": "one request from its head to its last byte, each step a method",
    "web.routes._remote": "a table: one row after the other",
    "web.routes._agent": "a table: one row after the other",
    "web.routes._live": "a table: one row after the other",
    "web.tables.bots.rows": "a table: one row after the other",
    "web.tables.files.rows": "a table: one row after the other",
    "web.tables.gateway.rows": "a table: one row after the other",
    "web.tables.manage_channels.rows": "a table: one row after the other",
    "web.tables.manage_keys.rows": "a table: one row after the other",
    "web.tables.manage_models.rows": "a table: one row after the other",
    "web.tables.manage_reports._reports": "a table: one row after the other",
    "web.tables.manage_secret_rules.rows": "a table: one row after the other",
}

CATCH_ALL = {
    "events.Bus.publish": "one listener's failure never reaches another",
    "agent.work.Work.follow": "an engine's bug ends its turn, not the daemon",
    "disk.journal.Committer._run": "nobody may wait for ever for a write",
    "disk.journal._tell": "one line that cannot be told keeps nobody else waiting",
    "disk.ledger_writer.Writer._write_lines": "nobody may wait for ever for a line",
    "disk.ledger_writer.Writer._sync_all": "nobody may wait for ever for a line",
    "disk.ledger_writer.Writer._carry_out": "a bug of who asks is no matter of the lines",
    "web.hub.Hub._tell_one": "what one client breaks silences no other",
    "web.exchange.Exchange.finish": "any error becomes an answer",
    "web.exchange.Exchange._finish_later": "any error becomes an answer",
}
"""The task boundaries at which everything may be caught."""


@cache
def _definitions(path: Path) -> list[tuple[str, Piece]]:
    """Each class and function with its dotted name; one inside a function bears ``<locals>``."""
    found: list[tuple[str, Piece]] = []

    def walk(node: ast.AST, above: str) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, Piece):
                name = f"{above}.{child.name}"
                found.append((name, child))
                walk(child, name if isinstance(child, ast.ClassDef) else f"{name}.<locals>")
            else:
                walk(child, above)

    walk(tree_of(path), name_of(path))
    return found


def test_pieces_are_short_enough_to_see_whole() -> None:
    too_long = []
    for path in MODULES:
        lines = text_of(path).count("\n")
        if lines > FILE_LINES and name_of(path) not in LONGER:
            too_long.append(f"{name_of(path)}: {lines} lines")
        for name, node in _definitions(path):
            assert node.end_lineno is not None
            documented = ast.get_docstring(node) is not None
            first = node.body[min(1, len(node.body) - 1)] if documented else node.body[0]
            size = node.end_lineno - first.lineno + 1
            limit = CLASS_LINES if isinstance(node, ast.ClassDef) else FUNCTION_LINES
            if size > limit and name not in LONGER:
                too_long.append(f"{name}: {size} lines")
    assert not too_long, "\n".join(too_long)


def test_everything_is_caught_only_at_named_task_boundaries() -> None:
    found = set()
    for name, node in [piece for path in MODULES for piece in _definitions(path)]:
        if isinstance(node, ast.ClassDef):
            continue
        for inner in ast.walk(node):
            if isinstance(inner, ast.ExceptHandler):
                caught = ast.unparse(inner.type) if inner.type else "BaseException"
                reraised = any(isinstance(step, ast.Raise) for step in inner.body)
                if caught in ("Exception", "BaseException") and not reraised:
                    found.add(name)
    assert found <= set(CATCH_ALL), "\n".join(sorted(found - set(CATCH_ALL)))


def test_every_listed_exception_is_still_one() -> None:
    names = {name for path in MODULES for name, _ in _definitions(path)}
    assert set(LONGER) | set(CATCH_ALL) <= names | {name_of(path) for path in MODULES}


def test_every_module_and_public_name_is_documented() -> None:
    missing = [name_of(path) for path in MODULES if not ast.get_docstring(tree_of(path))]
    for path in MODULES:
        for name, node in _definitions(path):
            parts = name.removeprefix(name_of(path)).split(".")[1:]
            hidden = any(part.startswith(("_", "<")) for part in parts)
            if not hidden and not ast.get_docstring(node):
                missing.append(name)
    assert not missing, "\n".join(missing)
