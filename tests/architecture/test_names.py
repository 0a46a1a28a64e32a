"""Names that a reader knows without a glossary of our own."""

import ast
from collections import defaultdict

from tests.architecture.support import MODULES, get_name, read_tree

SHARED: dict[str, str] = {}
"""Public classes of one name, and why they may share it."""


def _list_public_classes() -> dict[str, list[str]]:
    found: dict[str, list[str]] = defaultdict(list)
    for path in MODULES:
        for node in ast.walk(read_tree(path)):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(get_name(path))
    return found


def test_no_two_public_classes_share_a_name() -> None:
    shared = {name: modules for name, modules in _list_public_classes().items() if len(modules) > 1}
    lines = [f"{name}: {', '.join(modules)}" for name, modules in sorted(shared.items())]
    assert not [line for line in lines if line.partition(":")[0] not in SHARED], "\n".join(lines)
    assert set(SHARED) <= set(shared)
