"""Markdown helpers whose content cannot break out of them."""

import re
from collections.abc import Iterable, Sequence

from agentd.agent.text import sanitize

LANGUAGES = {
    **{".py": "python", ".pyi": "python", ".js": "javascript", ".ts": "typescript"},
    **{".md": "markdown", ".yml": "yaml", ".yaml": "yaml", ".json": "json", ".toml": "toml"},
    **{".cfg": "ini", ".ini": "ini", ".sh": "bash", ".html": "html", ".css": "css"},
    **{".rs": "rust", ".go": "go", ".c": "c", ".h": "c", ".java": "java", ".sql": "sql"},
    **{".diff": "diff", ".patch": "diff", ".xml": "xml", ".rb": "ruby", ".php": "php"},
}


def render_code(text: str) -> str:
    """Render any short text as inline code."""
    text = " ".join(sanitize(text).split("\n"))
    ticks = "`" * (1 + max(map(len, re.findall("`+", text)), default=0))
    space = " " if text[:1] in ("`", "") or text[-1:] == "`" else ""
    return f"{ticks}{space}{text}{space}{ticks}"


def render_code_block(text: str, language: str = "") -> str:
    """Render any lines as a code block."""
    text = sanitize(text.replace("\r\n", "\n"))
    ticks = "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))
    return f"{ticks}{language}\n{text}\n{ticks}"


def render_table(
    head: Sequence[str], rows: Iterable[Sequence[str]], numbers: Sequence[int] = ()
) -> str:
    """Render a table; ``numbers`` are the right-aligned columns."""
    rule = ["---:" if column in numbers else "---" for column in range(len(head))]
    lines = [head, rule, *rows]
    return "\n".join(
        f"| {' | '.join(cell.replace('|', '&#124;') for cell in row)} |" for row in lines
    )


def count_noun(number: int, one: str) -> str:
    """Return such as ``1 file`` and ``1,200 files``."""
    return f"{number:,} {one}{'s' * (number != 1)}"


def format_size(size: int) -> str:
    """Format a size in bytes with a unit."""
    amount = float(size)
    for unit in ("B", "KiB", "MiB"):
        if amount < 1024:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:.1f} GiB"


def escape_cell(text: str) -> str:
    """Escape foreign text for a table cell."""
    return re.sub(r"([\\`*_\[\]<>#])", r"\\\1", " ".join(sanitize(text).split()))
