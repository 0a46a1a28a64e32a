"""The import rule: ``FLOORS`` is the rule itself, told in words in ``agentd/README.md``."""

import ast
from functools import cache
from pathlib import Path

from tests.architecture.support import MODULES, ROOT, get_name, read_tree

FLOORS: tuple[tuple[str, ...], ...] = (
    ("core",),
    ("system", "storage"),
    ("http",),
    ("auth",),
    ("live",),
    ("llm",),
    ("chats",),
    ("models", "skills"),
    ("agent", "bots", "schedules"),
    ("settings", "speech", "workspace"),
    ("acp", "gateway", "mcp", "ui"),
    ("app",),
    ("cli",),
)
"""A package imports only from floors above it in this table, which are below it in the building."""

ONLY_IN: dict[str, tuple[str, ...]] = {
    "yaml": ("storage",),
    "filelock": ("storage", "app.state"),
    "watchdog": ("storage",),
    "tornado": ("http", "live", "app"),
    "secrets": ("core.ids",),
}
"""Libraries, and the only packages or modules that import them."""

PURE = ("model.py", "rules.py")
"""Files of types and rules: they neither wait nor touch the machine."""

NOT_IN_RULES = {"asyncio", "filelock", "os", "socket", "subprocess", "tornado", "yaml"}

NAMES = {get_name(path) for path in MODULES}
FLOOR_OF = {package: floor for floor, packages in enumerate(FLOORS) for package in packages}


def _get_package(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


@cache
def _list_imports(path: Path) -> list[str]:
    """Return the absolute names of all that a module imports, wherever the import stands."""
    found = []
    for node in ast.walk(read_tree(path)):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: a relative import"
            found += [f"{node.module}.{alias.name}" for alias in node.names]
    return found


def _list_modules(path: Path) -> set[str]:
    """Return the modules of agentd that a module imports, such as ``chats.state``."""
    found = set()
    for name in _list_imports(path):
        parts = name.split(".")[1:] if name.startswith("agentd.") else []
        for length in range(len(parts), 0, -1):
            if ".".join(parts[:length]) in NAMES:
                found.add(".".join(parts[:length]))
                break
    return found


def _fail_if_any(found: dict[str, set[str]], why: str) -> None:
    """Fail with one line for each module of which something was found."""
    lines = [f"{name}: {', '.join(sorted(what))}" for name, what in found.items() if what]
    assert not lines, "\n".join([why, *lines])


def _list_upward_imports() -> dict[str, set[tuple[str, str]]]:
    """Return each module's imports of packages on its own floor or above it."""
    found: dict[str, set[tuple[str, str]]] = {}
    for path in MODULES:
        package = _get_package(path)
        others = {name.split(".")[0] for name in _list_modules(path)} - {package}
        if package in FLOOR_OF:
            found[get_name(path)] = {
                (package, other)
                for other in others & set(FLOOR_OF)
                if FLOOR_OF[other] >= FLOOR_OF[package]
            }
    return found


def test_every_package_has_its_floor() -> None:
    packages = {path.parent.name for path in ROOT.glob("*/__init__.py")}
    assert packages == set(FLOOR_OF)


def test_a_package_imports_only_from_floors_below_its_own() -> None:
    found = {
        name: {f"{other} (from {package})" for package, other in pairs}
        for name, pairs in _list_upward_imports().items()
    }
    _fail_if_any(found, "imports of the same floor or of one above:")


def test_each_dangerous_library_has_its_importers() -> None:
    found = {}
    for path in MODULES:
        libraries = {name.split(".")[0] for name in _list_imports(path)}
        allowed = {_get_package(path), get_name(path)}
        found[get_name(path)] = {
            library for library in libraries & set(ONLY_IN) if not allowed & set(ONLY_IN[library])
        }
    _fail_if_any(found, "libraries that belong to another package:")


def test_files_of_rules_neither_wait_nor_touch_the_machine() -> None:
    found = {}
    for path in MODULES:
        if path.name in PURE:
            libraries = {name.split(".")[0] for name in _list_imports(path)} & NOT_IN_RULES
            waiting = {
                f"async {node.name}"
                for node in ast.walk(read_tree(path))
                if isinstance(node, ast.AsyncFunctionDef)
            }
            found[get_name(path)] = libraries | waiting
    _fail_if_any(found, "rules that are not pure:")


def test_there_is_no_import_cycle() -> None:
    graph = {get_name(path): _list_modules(path) for path in MODULES}
    done: set[str] = set()

    def visit(name: str, above: tuple[str, ...]) -> None:
        assert name not in above, " -> ".join((*above, name))
        if name not in done:
            for step in graph[name] - {name}:
                visit(step, (*above, name))
            done.add(name)

    for name in graph:
        visit(name, ())
