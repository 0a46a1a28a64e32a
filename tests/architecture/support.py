"""The modules of agentd, each read and parsed once for all rules."""

import ast
from functools import cache
from pathlib import Path

import agentd

ROOT = Path(agentd.__file__).parent
MODULES = sorted(ROOT.rglob("*.py"))

Piece = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def get_name(path: Path) -> str:
    """Return a module's name within agentd, such as ``chats.state``."""
    return ".".join(path.relative_to(ROOT).with_suffix("").parts)


@cache
def read_text(path: Path) -> str:
    """Return a module's text."""
    return path.read_text()


@cache
def read_tree(path: Path) -> ast.Module:
    """Return a module's syntax tree, which nobody changes."""
    return ast.parse(read_text(path))


@cache
def list_definitions(path: Path) -> list[tuple[str, Piece]]:
    """Return each class and function with its dotted name; a nested one bears ``<locals>``."""
    found: list[tuple[str, Piece]] = []

    def walk(node: ast.AST, above: str) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, Piece):
                name = f"{above}.{child.name}"
                found.append((name, child))
                walk(child, name if isinstance(child, ast.ClassDef) else f"{name}.<locals>")
            else:
                walk(child, above)

    walk(read_tree(path), get_name(path))
    return found
