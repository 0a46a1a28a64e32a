"""What a Python file defines: a program of its own, and only the standard library.

It runs as a child (``python -I outline.py``), with source on its input and one JSON object on
its output: parsing holds the interpreter's lock for as long as it takes, and hostile source can
bring the parser down. Neither may happen to the daemon.
"""

import ast
import json
import sys
import warnings
from collections.abc import Iterator

ARGUMENTS_LIMIT = 160
MOST_DEFINITIONS = 2000

_KINDS = {ast.ClassDef: "class", ast.FunctionDef: "def", ast.AsyncFunctionDef: "async def"}


def outline(source: bytes) -> dict[str, object]:
    """``{doc, definitions, cut}``, or ``{error, line}`` for what is not Python."""
    try:
        module = ast.parse(source)
    except SyntaxError as error:
        return {"error": error.msg, "line": error.lineno or 0}
    except (ValueError, RecursionError, MemoryError) as error:
        return {"error": str(error) or "too deeply nested", "line": 0}
    found = list(_definitions(module, 0))
    return {
        "doc": _doc(module),
        "definitions": found[:MOST_DEFINITIONS],
        "cut": len(found) > MOST_DEFINITIONS,
    }


def _definitions(parent: ast.AST, depth: int) -> Iterator[dict[str, object]]:
    for node in ast.iter_child_nodes(parent):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield {
                "kind": _KINDS[type(node)],
                "name": node.name,
                "line": node.lineno,
                "depth": depth,
                "arguments": _arguments(node),
                "doc": _doc(node),
            }
            yield from _definitions(node, depth + 1)
        elif isinstance(node, ast.stmt | ast.ExceptHandler | ast.match_case):
            yield from _definitions(node, depth)


def _arguments(node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    if isinstance(node, ast.ClassDef):
        text = ", ".join(ast.unparse(base) for base in (*node.bases, *node.keywords))
    else:
        text = ast.unparse(node.args)
    return text if len(text) <= ARGUMENTS_LIMIT else text[:ARGUMENTS_LIMIT] + "…"


def _doc(node: ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    lines = (ast.get_docstring(node) or "").strip().splitlines()
    return lines[0][:ARGUMENTS_LIMIT] if lines else ""


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    # Pure ASCII, so that a lone surrogate in the source travels too.
    json.dump(outline(sys.stdin.buffer.read()), sys.stdout)
