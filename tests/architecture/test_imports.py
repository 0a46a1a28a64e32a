"""The import rule, as told in ``agentd/__init__.py``."""

import ast
from functools import cache
from pathlib import Path

import agentd
from tests.architecture.support import MODULES, ROOT, name_of, tree_of

FOUNDATION = {"errors", "clock", "threads", "refresh", "retries", "ids", "redaction"}
PRODUCT = {"chats", "agent", "access", "bots", "catalog", "proxy", "workspace"}
SHELLS = {"disk", "outside", "web"}
OUTERMOST = {"daemon", "cli", "__main__"}

FORBIDDEN_TO_PRODUCT = {
    "filelock",
    "os",
    "ruamel",
    "socket",
    "subprocess",
    "tornado",
    "watchdog",
    "yaml",
}
ONLY_IN_DISK = {"filelock", "ruamel", "watchdog", "yaml"}
MAY_AWAIT = {
    "answering",
    "hiding_threads",
    "house",
    "relay",
    "attempt",
    "stream",
    "bill",
    "messenger",
    "polling",
    "service",
    "telling",
    "shelf",
    "turns",
    "building",
    "deploying",
    "autofix",
    "engine",
    "people",
    "toolbox",
    "approvals",
    "assigning",
    "editing",
    "history",
    "labelling",
    "trash",
    "work",
}
"""In a product folder: services, the dispatcher, and engines (which carry out turns, by tools)."""

NAMES = {name_of(path) for path in MODULES}


def _room(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


@cache
def _imports(path: Path) -> list[str]:
    """Absolute names of all that a module imports, wherever in it the import stands."""
    found = []
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: a relative import"
            found += [f"{node.module}.{alias.name}" for alias in node.names]
    return found


def _libraries(path: Path) -> set[str]:
    return {name.split(".")[0] for name in _imports(path)}


def _ours(path: Path) -> set[str]:
    """The rooms of agentd that a module imports from."""
    parts = [name.split(".") for name in _imports(path) if name.split(".")[0] == "agentd"]
    return {part[1] if len(part) > 1 else "" for part in parts} - {"__version__", "DISTRIBUTION"}


def _modules(path: Path) -> set[str]:
    """The modules of agentd that a module imports, such as ``chats.fold``."""
    found = set()
    for name in _imports(path):
        parts = name.split(".")[1:] if name.startswith("agentd.") else []
        for length in range(len(parts), 0, -1):
            if ".".join(parts[:length]) in NAMES:
                found.add(".".join(parts[:length]))
                break
    return found


def _none(found: dict[Path, set[str]], why: str) -> None:
    """Fail, with a line for each module of which something was found."""
    lines = [f"{name_of(path)}: {', '.join(sorted(what))}" for path, what in found.items() if what]
    assert not lines, "\n".join([why, *lines])


def test_the_rule_is_told_of_every_room() -> None:
    rooms = FOUNDATION | PRODUCT | SHELLS | {"wire", "events", "daemon", "cli"}
    assert not {room for room in rooms if f"``{room}``" not in str(agentd.__doc__)}


def test_imports_point_inward() -> None:
    found = {}
    for path in MODULES:
        room = _room(path)
        allowed = set(FOUNDATION) | {room}
        if room in PRODUCT | SHELLS | {"events"}:
            allowed |= PRODUCT | {"wire"}
        if room in PRODUCT | SHELLS:
            allowed |= {"events"}
        if room not in OUTERMOST:
            found[path] = _ours(path) - allowed
    _none(found, "imports of a room further out:")


def test_a_product_folder_imports_nouns_of_another_and_never_its_service() -> None:
    found = {}
    for path in MODULES:
        room = _room(path)
        services = {name for name in _modules(path) if name.endswith(".service")}
        foreign = {name for name in services if name.split(".")[0] != room}
        # The dispatcher and the bots command chats: they are to them what a caller is.
        commands = name_of(path) in {"agent.service", "bots.answering", "bots.house"}
        if room in PRODUCT:
            found[path] = foreign - ({"chats.service"} if commands else set())
    _none(found, "imports of another folder's service:")


def test_product_folders_only_think() -> None:
    product = [path for path in MODULES if _room(path) in PRODUCT]
    touching = {path: _libraries(path) & FORBIDDEN_TO_PRODUCT for path in product}
    _none(touching, "product folders that touch the machine:")
    waiting = {
        path: {
            f"line {node.lineno}"
            for node in ast.walk(tree_of(path))
            if isinstance(node, ast.AsyncFunctionDef)
        }
        for path in product
        if path.stem not in MAY_AWAIT
    }
    _none(waiting, "functions that wait, outside services, the dispatcher and engines:")


def test_each_dangerous_library_has_one_importer() -> None:
    found = {}
    for path in MODULES:
        elsewhere = set() if _room(path) == "disk" else set(ONLY_IN_DISK)
        if name_of(path) != "ids":
            elsewhere.add("secrets")
        if _room(path) not in {"web", "daemon"}:
            elsewhere.add("tornado")
        found[path] = _libraries(path) & elsewhere
    _none(found, "libraries that belong to another room:")


def test_there_is_no_import_cycle() -> None:
    graph = {name_of(path): _modules(path) for path in MODULES}
    done: set[str] = set()

    def visit(name: str, above: tuple[str, ...]) -> None:
        assert name not in above, " -> ".join((*above, name))
        if name not in done:
            for step in graph[name] - {name}:
                visit(step, (*above, name))
            done.add(name)

    for name in graph:
        visit(name, ())
