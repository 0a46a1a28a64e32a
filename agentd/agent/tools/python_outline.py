"""Outlines a Python file: a program of its own that uses only the standard library.

It runs as a child process (``python -I``), with source on its input and one JSON object on its
output: parsing holds the interpreter's lock throughout, and hostile source can crash the parser.
Neither may happen to the daemon.
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
    """Return ``{doc, definitions, truncated}``, or ``{error, line}`` for invalid Python."""
    try:
        module = ast.parse(source)
    except SyntaxError as error:
        return {"error": error.msg, "line": error.lineno or 0}
    except (ValueError, RecursionError, MemoryError) as error:
        return {"error": str(error) or "too deeply nested", "line": 0}
    found = list(_iter_definitions(module, 0))
    return {
        "doc": _get_summary(module),
        "definitions": found[:MOST_DEFINITIONS],
        "truncated": len(found) > MOST_DEFINITIONS,
    }


def _iter_definitions(parent: ast.AST, depth: int) -> Iterator[dict[str, object]]:
    for node in ast.iter_child_nodes(parent):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield {
                "kind": _KINDS[type(node)],
                "name": node.name,
                "line": node.lineno,
                "depth": depth,
                "arguments": _render_arguments(node),
                "doc": _get_summary(node),
            }
            yield from _iter_definitions(node, depth + 1)
        elif isinstance(node, ast.stmt | ast.ExceptHandler | ast.match_case):
            yield from _iter_definitions(node, depth)


def _render_arguments(node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    if isinstance(node, ast.ClassDef):
        text = ", ".join(ast.unparse(base) for base in (*node.bases, *node.keywords))
    else:
        text = ast.unparse(node.args)
    return text if len(text) <= ARGUMENTS_LIMIT else text[:ARGUMENTS_LIMIT] + "…"


def _get_summary(node: ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    lines = (ast.get_docstring(node) or "").strip().splitlines()
    return lines[0][:ARGUMENTS_LIMIT] if lines else ""


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    # Pure ASCII, so that a lone surrogate in the source can be written too.
    json.dump(outline(sys.stdin.buffer.read()), sys.stdout)
