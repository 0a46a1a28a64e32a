"""The building blocks of phrases: words for places, kinds of files, numbers, lines.

Each constant in capitals is a pattern for use in a larger one; its groups are named.
"""

import re

from agentd.agent.tools.model import ANYWHERE

KINDS: dict[str, tuple[str, ...]] = {
    "python": (".py", ".pyi"),
    "javascript": (".js", ".jsx", ".mjs", ".cjs"),
    "js": (".js", ".jsx", ".mjs", ".cjs"),
    "typescript": (".ts", ".tsx"),
    "markdown": (".md", ".markdown"),
    "yaml": (".yml", ".yaml"),
    "json": (".json",),
    "toml": (".toml",),
    "html": (".html", ".htm"),
    "css": (".css", ".scss"),
    "shell": (".sh", ".bash"),
    "bash": (".sh", ".bash"),
    "rust": (".rs",),
    "go": (".go",),
    "java": (".java",),
    "ruby": (".rb",),
    "php": (".php",),
    "sql": (".sql",),
    "text": (".txt",),
    "c": (".c", ".h"),
    "c++": (".cpp", ".cc", ".cxx", ".hpp", ".hh"),
}
"""Words for kinds of files, and their suffixes."""

_NUMBERS = {
    **{"a": 1, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "few": 5, "six": 6},
    **{"seven": 7, "eight": 8, "nine": 9, "ten": 10, "twenty": 20, "fifty": 50, "hundred": 100},
}
_HERE = re.compile(
    r"here|this|it|projects?|workspace|repo|repository|folder|directory|codebase|code|files"
    r"|package|app|application|program|tree|source",
    re.IGNORECASE,
)
_WELL_KNOWN = re.compile(
    r"readme|licen[cs]e|makefile|dockerfile|changelog|authors|contributing|gemfile|procfile"
    r"|jenkinsfile|copying|notice|manifest",
    re.IGNORECASE,
)

DET = r"(?:(?:the|this|that|these|those|my|our|your|whole|entire|current|all|of|any|an?|some) +)*"
WORD_OR_QUOTE = r"(?:`[^`]+`|\"[^\"]+\"|'[^']+'|[^\s`\"']\S*)"
FILE = r"(?:folder|directory|dir|file|module|package|script)"
KIND = "(?:" + "|".join(map(re.escape, KINDS)) + ")"
N = r"(?:[0-9]{1,7}|" + "|".join(_NUMBERS) + ")"
SHOW = r"(?:(?:show|give|print|display|get|list|see|read|view|cat)(?: +me)? +)?"
THERE = r"(?: +(?:are|is|there|do|does|we|i|you|have|has|exist|defined|here))*"


def build_path_pattern(name: str = "path") -> str:
    """Return the pattern for one path, captured as ``name`` (unique in a pattern)."""
    return rf"{DET}(?:{FILE} +)?(?P<{name}>{WORD_OR_QUOTE})(?: +{FILE})?"


PATH = build_path_pattern()
IN = rf"(?: +(?:(?:right +)?here|(?:in|under|inside|within|of|from|at|below|for|to) +{PATH}))?"
WITHIN = rf"(?: +(?:(?:right +)?here|(?:in|under|inside|within) +{PATH}))?"
TEXT = r"(?P<text>.+?)"
WORD = r"[`'\"]?(?P<word>[\w.]+)(?:\(\))?[`'\"]?"
LINES = rf"lines? +(?P<a>{N})(?: *(?:-|–|to|through|until|and|\.\.) *(?:line +)?(?P<b>{N}))?"
PROJECT = (
    rf"{DET}(?:project|folder|repo|repository|workspace|directory|code ?base|code|package|app"
    r"|application|program|this|it|here)(?: +(?:folder|repo|project))?"
)


def unquote(text: str) -> str:
    """Return the text without its quotes or backticks."""
    text = text.strip()
    if len(text) > 2 and text[0] == text[-1] and text[0] in "`\"'":
        return text[1:-1]
    return text


def resolve_place(token: str) -> str:
    """Return the path that a word means; none, or a word for the project, means the root."""
    path = unquote(token)
    if path == token:
        path = path.rstrip(",;:") or path
    if not path or _HERE.fullmatch(path):
        return ANYWHERE
    return path


def is_pathlike(token: str) -> bool:
    """Return whether a word looks like a file or folder name rather than English."""
    word = re.sub(r":[0-9]+(?:-[0-9]+)?:?$", "", unquote(token))
    return (
        (token.startswith("`") and (" " not in word or "." in word))
        or "/" in word
        or bool(re.fullmatch(r"\.\w[\w.-]*|[\w*?-][\w.*?-]*\.[\w*?]+", word))
        or bool(_WELL_KNOWN.fullmatch(word))
    )


def parse_number(word: str, default: int) -> int:
    """Parse a number in digits or as a word."""
    return int(word) if word.isdigit() else _NUMBERS.get(word.lower(), default)
