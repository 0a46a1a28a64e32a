"""The import rule, as told in ``agentd/__init__.py``."""

import ast
from pathlib import Path

import pytest

import agentd

ROOT = Path(agentd.__file__).parent
FOUNDATION = {"errors", "clock", "ids", "redaction"}
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

MODULES = sorted(ROOT.rglob("*.py"))


def _name(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts)


def _room(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def _imports(path: Path) -> list[str]:
    """Absolute names of all that a module imports, wherever in it the import stands."""
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: a relative import"
            found += [f"{node.module}.{alias.name}" for alias in node.names]
    return found


def _ours(path: Path) -> set[str]:
    """The rooms of agentd that a module imports from."""
    parts = [name.split(".") for name in _imports(path) if name.split(".")[0] == "agentd"]
    return {part[1] if len(part) > 1 else "" for part in parts} - {"__version__"}


def _modules(path: Path) -> set[str]:
    """The modules of agentd that a module imports, such as ``chats.fold``."""
    known = {_name(module) for module in MODULES}
    found = set()
    for name in _imports(path):
        parts = name.split(".")[1:] if name.startswith("agentd.") else []
        for length in range(len(parts), 0, -1):
            if ".".join(parts[:length]) in known:
                found.add(".".join(parts[:length]))
                break
    return found


@pytest.mark.parametrize("path", MODULES, ids=_name)
def test_imports_point_inward(path: Path) -> None:
    room, ours = _room(path), _ours(path)
    if room in OUTERMOST:
        return
    allowed = set(FOUNDATION)
    if room in PRODUCT | SHELLS | {"events"}:
        allowed |= PRODUCT | {"wire"}
    if room in PRODUCT | SHELLS:
        allowed |= {"events"}
    assert ours <= allowed | {room}


@pytest.mark.parametrize("path", MODULES, ids=_name)
def test_a_product_folder_imports_nouns_of_another_and_never_its_service(path: Path) -> None:
    room = _room(path)
    if room not in PRODUCT:
        return
    services = {name for name in _modules(path) if name.endswith(".service")}
    foreign = {name for name in services if name.split(".")[0] != room}
    # The dispatcher and the bots command chats: they are to them what a caller is.
    commands = _name(path) in {"agent.service", "bots.answering", "bots.work"}
    assert foreign <= ({"chats.service"} if commands else set())


@pytest.mark.parametrize("path", MODULES, ids=_name)
def test_product_folders_only_think(path: Path) -> None:
    if _room(path) not in PRODUCT:
        return
    assert not {name.split(".")[0] for name in _imports(path)} & FORBIDDEN_TO_PRODUCT
    if path.stem not in MAY_AWAIT:
        waits = [
            node.lineno
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.AsyncFunctionDef)
        ]
        assert not waits


@pytest.mark.parametrize("path", MODULES, ids=_name)
def test_each_dangerous_library_has_one_importer(path: Path) -> None:
    libraries = {name.split(".")[0] for name in _imports(path)}
    if _room(path) != "disk":
        assert not libraries & ONLY_IN_DISK
    if _name(path) != "ids":
        assert "secrets" not in libraries
    if _room(path) not in {"web", "daemon"}:
        assert "tornado" not in libraries


def test_there_is_no_import_cycle() -> None:
    graph = {_name(path): _modules(path) for path in MODULES}
    done: set[str] = set()

    def visit(name: str, above: tuple[str, ...]) -> None:
        assert name not in above, " -> ".join((*above, name))
        if name not in done:
            for step in graph[name] - {name}:
                visit(step, (*above, name))
            done.add(name)

    for name in graph:
        visit(name, ())
