"""The functions of the daemon that sync something, found in its code."""

import ast
from collections.abc import Iterator
from functools import cache

from tests.support.paths import REPOSITORY

_SYNCS = {"fsync", "fdatasync"}
_Definition = ast.FunctionDef | ast.AsyncFunctionDef


@cache
def list_writers() -> set[str]:
    """Return the functions outside of the storage that sync, by themselves or by the storage.

    They are named as the recorder names them: by module without ``agentd``, and qualified name.
    """
    code = REPOSITORY / "agentd"
    functions = [
        (path.relative_to(code).with_suffix("").as_posix().replace("/", "."), name, calls)
        for path in sorted(code.rglob("*.py"))
        for name, calls in _list_functions(ast.parse(path.read_text()))
    ]
    syncing, size = set(_SYNCS), 0
    while size != len(syncing):  # functions of the storage call each other
        size = len(syncing)
        syncing |= {
            name
            for module, name, calls in functions
            if module.startswith("storage.") and "." not in name and calls & syncing
        }
    public = {name for name in syncing if not name.startswith("_")}
    return {
        f"{module}.{name}"
        for module, name, calls in functions
        if not module.startswith("storage.") and calls & public
    }


def _list_functions(tree: ast.AST, above: str = "") -> Iterator[tuple[str, set[str]]]:
    """Yield each function's qualified name, and the names that it mentions."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, _Definition):
            yield f"{above}{node.name}", set(_list_names(node))
            yield from _list_functions(node, f"{above}{node.name}.<locals>.")
        elif isinstance(node, ast.ClassDef):
            yield from _list_functions(node, f"{above}{node.name}.")
        else:
            yield from _list_functions(node, above)


def _list_names(function: _Definition) -> Iterator[str]:
    """Yield the names in a function, but not in those that are defined in it."""
    nodes: list[ast.AST] = list(ast.iter_child_nodes(function))
    while nodes:
        node = nodes.pop()
        if isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.Name):
            yield node.id
        if not isinstance(node, _Definition):
            nodes += ast.iter_child_nodes(node)
