"""Pieces of Markdown that hold whatever is put into them: nothing foreign can break out."""

import re
from collections.abc import Iterable, Sequence

from agentd.agent.text import plain

LANGUAGES = {
    **{".py": "python", ".pyi": "python", ".js": "javascript", ".ts": "typescript"},
    **{".md": "markdown", ".yml": "yaml", ".yaml": "yaml", ".json": "json", ".toml": "toml"},
    **{".cfg": "ini", ".ini": "ini", ".sh": "bash", ".html": "html", ".css": "css"},
    **{".rs": "rust", ".go": "go", ".c": "c", ".h": "c", ".java": "java", ".sql": "sql"},
    **{".diff": "diff", ".patch": "diff", ".xml": "xml", ".rb": "ruby", ".php": "php"},
}


def code(text: str) -> str:
    """A short text as code within a line, whatever is in it."""
    text = " ".join(plain(text).split("\n"))
    ticks = "`" * (1 + max(map(len, re.findall("`+", text)), default=0))
    space = " " if text[:1] in ("`", "") or text[-1:] == "`" else ""
    return f"{ticks}{space}{text}{space}{ticks}"


def fenced(text: str, language: str = "") -> str:
    """Lines as a block of code, whatever is in them."""
    text = plain(text.replace("\r\n", "\n"))
    ticks = "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))
    return f"{ticks}{language}\n{text}\n{ticks}"


def table(head: Sequence[str], rows: Iterable[Sequence[str]], numbers: Sequence[int] = ()) -> str:
    """A table; ``numbers`` are the columns that are set right."""
    rule = ["---:" if column in numbers else "---" for column in range(len(head))]
    lines = [head, rule, *rows]
    return "\n".join(
        f"| {' | '.join(cell.replace('|', '&#124;') for cell in row)} |" for row in lines
    )


def several(number: int, one: str) -> str:
    """Such as ``1 file`` and ``1,200 files``; more than one takes an s."""
    return f"{number:,} {one}{'s' * (number != 1)}"


def human(size: int) -> str:
    """A size in bytes as people say it."""
    amount = float(size)
    for unit in ("B", "KiB", "MiB"):
        if amount < 1024:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:.1f} GiB"


def cell(text: str) -> str:
    """Foreign text in a table, that shall not be read as Markdown."""
    return re.sub(r"([\\`*_\[\]<>#])", r"\\\1", " ".join(plain(text).split()))
