"""The modules of agentd, each read and parsed once for all rules."""

import ast
from functools import cache
from pathlib import Path

import agentd

ROOT = Path(agentd.__file__).parent
MODULES = sorted(ROOT.rglob("*.py"))


def name_of(path: Path) -> str:
    """A module's name within agentd, such as ``chats.fold``."""
    return ".".join(path.relative_to(ROOT).with_suffix("").parts)


@cache
def text_of(path: Path) -> str:
    """A module's text."""
    return path.read_text()


@cache
def tree_of(path: Path) -> ast.Module:
    """A module's syntax tree, which nobody changes."""
    return ast.parse(text_of(path))
