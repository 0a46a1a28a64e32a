"""Front matter of Markdown files that people share between programs: skills and custom commands."""

import json
import re

_FRONT = re.compile(r"---[ \t]*\n(.*?)^---[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE)
_ENTRY = re.compile(r"([A-Za-z][A-Za-z0-9_-]*):[ \t]+([^\s\"'|>#]\S*(?:[ \t]+[^\s#]\S*)*+)(.*)")
_LIST = re.compile(r"^(allowed-tools):[ \t]*\n((?:[ \t]*-[ \t]+.*\n?)+)", re.MULTILINE)


def split_front_matter(text: str) -> tuple[str, str]:
    """Return the front matter as strict YAML with the lines of the file, and the body.

    Values are often written without the quotes that YAML wants, as in ``argument-hint: [a] [b]``
    and ``description: Reviews: use when asked``. The front matter is empty if there is none.
    """
    front = _FRONT.match(text)
    if not front:
        return "", text
    lines = _LIST.sub(_join_list, front[1]).split("\n")
    quoted = [
        _quote(line) if not following.startswith((" ", "\t")) else line
        for line, following in zip(lines, [*lines[1:], ""], strict=True)
    ]
    return "\n" + "\n".join(quoted), text[front.end() :]


def _quote(line: str) -> str:
    found = _ENTRY.fullmatch(line)
    if not found:
        return line
    return f"{found[1]}: {json.dumps(found[2], ensure_ascii=False)}{found[3]}"


def _join_list(found: "re.Match[str]") -> str:
    items = [line.strip()[1:].strip().strip("\"'") for line in found[2].splitlines()]
    return f"{found[1]}: {', '.join(items)}" + "\n" * found[2].count("\n")
