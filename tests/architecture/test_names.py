"""Names that a reader knows without a glossary of our own."""

import ast
import re
from collections import defaultdict

from tests.architecture.support import MODULES, ROOT, get_name, read_text, read_tree

SHARED: dict[str, str] = {}
"""Public classes of one name, and why they may share it."""
FOREIGN = frozenset(
    ("mcp__server__tool", "is_multi_key", "index.lock", "limit_day", "limit_tag_day")
)
"""Names in backquotes that are another program's, or are put together when they are needed."""


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


def test_a_representation_begins_with_the_name_of_its_class() -> None:
    wrong = []
    for path in MODULES:
        for node in ast.walk(read_tree(path)):
            if not isinstance(node, ast.ClassDef):
                continue
            for method in node.body:
                if isinstance(method, ast.FunctionDef) and method.name == "__repr__":
                    shown = re.search(r"['\"](\w+)\(", ast.unparse(method))
                    if shown and shown[1] != node.name:
                        wrong.append(f"{get_name(path)}.{node.name} is shown as {shown[1]}")
    assert wrong == [], "\n".join(wrong)


def _list_code_words() -> set[str]:
    """Return the names in the code, ``a.b`` and file names included, and the words of its texts."""
    found: set[str] = set()
    for path in MODULES:
        name, _, of = (*reversed(path.relative_to(ROOT).with_suffix("").parts), "", "")[:3]
        found.update((name, path.name, f"{path.parent.name}.{name}", f"{of}.{path.parent.name}"))
        docstrings: set[ast.AST] = set()
        for node in ast.walk(read_tree(path)):
            match node:
                case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                    found.update((node.name, f"{path.stem}.{node.name}"))
                case ast.Name(id=name) | ast.arg(arg=name):
                    found.update((name, f"{path.stem}.{name}"))
                case ast.Attribute(value=ast.Name(id=of), attr=name):
                    found.update((name, f"{of}.{name}"))
                case ast.Attribute(attr=name):
                    found.add(name)
                case ast.Expr(value=ast.Constant() as text):
                    docstrings.add(text)
                case ast.Constant(value=str(text)) if node not in docstrings:
                    found.update(re.findall(r"[\w.]+", text), re.findall(r"\w+", text))
    return found


def test_a_name_in_backquotes_is_one_of_the_code() -> None:
    """A comment that names what has another name now leads a reader nowhere."""
    known = _list_code_words() | FOREIGN
    ours = {path.stem for path in MODULES} | {path.parent.name for path in MODULES}
    lost = []
    for path in MODULES:
        for number, line in enumerate(read_text(path).splitlines(), 1):
            for name in re.findall(r"``([a-z_]\w*(?:\.\w+)?)(?:\(\))?``", line):
                of, _, word = name.rpartition(".")
                is_ours = of in ours if of else "_" in word
                if is_ours and name not in known:
                    lost.append(f"{get_name(path)}:{number}: {name}")
    assert lost == [], "\n".join(lost)
