"""Sizes that make one stop and think, and what every name owes its reader.

Where a longer piece reads better, it is listed here with its reason.
"""

import ast

from tests.architecture.support import MODULES, get_name, list_definitions, read_text, read_tree

FILE_LINES = 600
CLASS_LINES = 250
FUNCTION_LINES = 50

LONGER: dict[str, str] = {
    "storage.layout.Layout": "every path of ours, one short property each",
    "chats.service.ChatService": "every command on a chat, one short method each",
    "chats.state.Chat": "the fold of one chat, one short method for each kind of record",
    "http.request_handler.RequestHandler": "one request from head to last byte, each step a method",
    "http.http_connection.HttpConnection": "one connection from first byte to last, likewise",
}

CATCH_ALL = {
    "core.events.EventBus.publish": "one listener's failure never reaches another",
    "agent.turn_runner.TurnRunner.run": "an engine's bug ends its turn, not the daemon",
    "core.threads._try_each": "the caller who waits for the threads gets what one raised",
    "storage.journal.GroupCommitter._write_batch": "whoever waits for the batch gets the error",
    "storage.journal._call": "one line that cannot be told keeps nobody else waiting",
    "gateway.ledger.writer.LedgerWriter._write_lines": "nobody may wait for ever for a line",
    "gateway.ledger.writer.LedgerWriter._sync_all": "nobody may wait for ever for a line",
    "gateway.ledger.writer.LedgerWriter._run_job": "a bug of who asks is no matter of the lines",
    "workspace.builds.runner._run": "a build must not seem to run for ever",
    "workspace.deployments.service._Keeper._run_inbox": "who asks next waits for the same task",
    "live.hub.Hub._send_to": "what one client breaks silences no other",
    "http.request_handler.RequestHandler.finish": "any error becomes an answer",
    "http.request_handler.RequestHandler._send_when_ready": "any error becomes an answer",
}
"""The task boundaries at which everything may be caught."""


def test_pieces_are_short_enough_to_see_whole() -> None:
    too_long = []
    for path in MODULES:
        lines = read_text(path).count("\n")
        if lines > FILE_LINES and get_name(path) not in LONGER:
            too_long.append(f"{get_name(path)}: {lines} lines")
        for name, node in list_definitions(path):
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
    for name, node in [piece for path in MODULES for piece in list_definitions(path)]:
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
    names = {name for path in MODULES for name, _ in list_definitions(path)}
    assert set(LONGER) | set(CATCH_ALL) <= names | {get_name(path) for path in MODULES}


def test_every_module_and_public_name_is_documented() -> None:
    missing = [get_name(path) for path in MODULES if not ast.get_docstring(read_tree(path))]
    for path in MODULES:
        for name, node in list_definitions(path):
            parts = name.removeprefix(get_name(path)).split(".")[1:]
            hidden = any(part.startswith(("_", "<")) for part in parts)
            if not hidden and not ast.get_docstring(node):
                missing.append(name)
    assert not missing, "\n".join(missing)
