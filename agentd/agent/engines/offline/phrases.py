"""The phrases in which people ask for things about a folder, and what each of them means.

``PHRASES`` is read from the top; the first phrase that matches a whole line (and whose meaning is
not None) wins, so specific ones precede general ones. The patterns have few open ends and are
tried on short lines only, so that no line can take long.
"""

import re
from collections.abc import Callable
from typing import TypeAlias

from agentd.agent.engines.offline.grammar import (
    DET,
    IN,
    KIND,
    KINDS,
    LINES,
    PATH,
    PROJECT,
    SHOW,
    TEXT,
    THERE,
    WITHIN,
    WORD,
    WORD_OR_QUOTE,
    N,
    build_path_pattern,
    is_pathlike,
    parse_number,
    resolve_place,
    unquote,
)
from agentd.agent.engines.offline.requests import (
    Count,
    DeclinedRequest,
    Define,
    Describe,
    DescribeChanges,
    ExplainModels,
    Help,
    Request,
)
from agentd.agent.tools.model import (
    ANYWHERE,
    CountFiles,
    FindFiles,
    GitDiff,
    GitLog,
    GitStatus,
    ListFiles,
    OutlineFile,
    ReadFile,
    SearchText,
)

Words: TypeAlias = dict[str, str]
"""The parts that a phrase matched, by name; unmatched ones are empty."""
Meaning: TypeAlias = Callable[[Words], Request | None]


def _get_place(words: Words) -> str:
    """Return the place: a phrase of several forms matches it under one of several names."""
    return resolve_place(
        next((word for name, word in words.items() if name[:4] == "path" and word), "")
    )


def _list_suffixes(words: Words) -> tuple[str, ...]:
    return KINDS.get((words["kind"] or words.get("kind2", "")).lower(), ())


def _read(words: Words) -> Request:
    first = parse_number(words.get("a", ""), 1)
    last = parse_number(words.get("b", ""), first if words.get("a") else 0)
    return ReadFile(_get_place(words), max(min(first, last or first), 1), max(first, last))


def _read_end(words: Words) -> Request:
    lines = max(parse_number(words.get("n", ""), 1 if words.get("one") else 20), 1)
    if words["end"].lower() in ("last", "bottom", "final", "end", "tail"):
        return ReadFile(_get_place(words), -lines)
    return ReadFile(_get_place(words), 1, lines)


def _read_whole(words: Words) -> Request | None:
    sure = words["verb"].lower() in ("read", "cat", "open", "view", "less", "more")
    path = _get_place(words)
    if path == ANYWHERE or not (sure or is_pathlike(words["path"])):
        return None
    return _parse_numbered_place(path) or ReadFile(path)


def _parse_numbered_place(path: str) -> Request | None:
    """Parse ``clock.py:10`` and ``clock.py:10-20``, as compilers and editors write places."""
    found = re.fullmatch(r"(.+?):([0-9]{1,7})(?:-([0-9]{1,7}))?:?", path)
    return _read({"path": found[1], "a": found[2], "b": found[3] or ""}) if found else None


def _parse_bare_place(words: Words) -> Request | None:
    """Read a bare name of a file or folder; which one shows when it is opened."""
    if not is_pathlike(words["path"]):
        return None
    return _parse_numbered_place(_get_place(words)) or ListFiles(_get_place(words))


def _list(words: Words) -> Request:
    deep = words.get("verb", "").lower() == "tree" or bool(words.get("deep"))
    return ListFiles(_get_place(words), 3 if deep else 1)


def _make_kind_request(words: Words) -> Request:
    suffix = KINDS[words["kind"].lower()][0]
    return FindFiles(f"*{suffix}", _get_place(words))


def _find(words: Words) -> Request | None:
    if not is_pathlike(words["path"]):
        return None
    return FindFiles(_get_place(words))


def _search(words: Words) -> Request | None:
    text = unquote(words["text"])
    return SearchText(text, _get_place(words)) if text.strip() else None


def _parse_uses(words: Words) -> Request | None:
    text = unquote(words["text"]).removesuffix("()")
    return SearchText(text, _get_place(words), whole_word=True) if text.strip() else None


def _parse_where(words: Words) -> Request | None:
    word = unquote(words["text"])
    if is_pathlike(words["text"]) and not words["text"].endswith("()"):
        return FindFiles(word)
    if re.fullmatch(r"[\w.]+(?:\(\))?", word):
        return Define(word.removesuffix("()").rpartition(".")[2], _get_place(words))
    return _search(words)


def _define(words: Words) -> Request | None:
    word = words["word"].strip(".").rpartition(".")[2]
    return Define(word, _get_place(words)) if word else None


def _count(words: Words) -> Request:
    what = words["what"].lower()
    path = _get_place(words)
    files = CountFiles(path, _list_suffixes(words))
    return Count("words" if what == "words" else "files" if what == "files" else "lines", files)


def _log(words: Words) -> Request:
    one = 1 if words.get("single") else 10
    return GitLog(_get_place(words), parse_number(words.get("n", ""), one))


def _commit(words: Words) -> Request:
    return GitDiff(commit="HEAD" if words.get("latest") else words["commit"])


def _explain(words: Words) -> Request | None:
    path = _get_place(words)
    if path.endswith((".py", ".pyi")):
        return OutlineFile(path)
    if path.endswith("/") or (is_pathlike(words["path"]) and "." not in path):
        return Describe(path.rstrip("/") or ANYWHERE)
    return ReadFile(path) if is_pathlike(words["path"]) else Describe(path)


_TALK: list[tuple[str, Meaning]] = [
    (
        r"how (?:do|can|could|should|would) (?:i|we|you|one)"
        rf" +(?:add|configure|connect|set up|use|choose|change|switch(?: to)?) +{DET}"
        r"(?:(?:new|other|another|real|language|local) +)*"
        r"(?:models?|llms?|engines?|suppliers?|claude(?: code)?|codex|opencode)"
        r"(?: +(?:here|to|in|with) ?.{0,30})?",
        lambda _: ExplainModels(),
    ),
    (
        r"help(?: +me)?|\?|commands?|usage|hi|hello|hey|ping|test|please|thanks?|thank you"
        r"|what (?:can|do) (?:you|i) (?:do|understand|know|support|ask)(?: .{0,30})?"
        r"|(?:who|what) are you(?: .{0,30})?|are you (?:an? )?.{1,30}|how are you"
        r"|(?:which|what) (?:model|llm|ai|engine)(?: .{0,30})?"
        r"|how (?:do|can|does|should) (?:i|you|this|it) (?:work|(?:use|connect|set up) .{1,30})",
        lambda _: Help(),
    ),
]

_GIT: list[tuple[str, Meaning]] = [
    (
        rf"{SHOW}{DET}(?:git +)?(?:status|st)"
        r"|(?:on +)?(?:what|which) (?:git +)?branch(?: (?:am i|are we|is|do) ?.{0,30})?"
        r"|(?:what|which)(?:'s| is) the (?:current )?(?:git )?branch|(?:git|current) +branch"
        rf"|(?:is|are) {DET}(?:git +)?(?:work(?:ing)? +)?(?:tree|copy|repo|repository) +"
        r"(?:clean|dirty)"
        r"|(?:are there |do (?:i|we) have )(?:any )?(?:uncommitted|unstaged|staged) .{1,20}",
        lambda _: GitStatus(),
    ),
    (
        rf"(?:what(?:'s| is| has| have)?(?: +(?:i|we|been))? +(?:changed?|new|different)"
        rf"|{SHOW}{DET}(?:changes|diff)) +since +{DET}(?:(?:last|latest|newest|most recent) commit"
        rf"|HEAD){IN}",
        lambda words: DescribeChanges(_get_place(words)),
    ),
    (
        rf"what(?:'s| is| has)? +(?:changed|new) +(?:in|by|with) +{DET}"
        r"(?P<latest>(?:last|latest|newest|most recent|previous) commit|HEAD)"
        r"|what did +(?:the +)?(?P<latest2>(?:last|latest|newest|previous) commit) +(?:change|do)"
        rf"|{SHOW}{DET}(?:diff|changes) +(?:of|in) +{DET}(?P<latest3>(?:last|latest) commit)",
        lambda _: GitDiff(commit="HEAD"),
    ),
    (
        rf"(?:git +show|(?:{SHOW}{DET}(?:diff +(?:of|for) +)?|what(?:'s| is) +in +|what did +"
        r"|what changed in +)commit(?= +`?(?:HEAD|v?[0-9]|[0-9a-f]{4,40}\b))) +"
        r"`?(?P<commit>[A-Za-z0-9_./~^-]+)`?(?: +(?:change|do))?",
        _commit,
    ),
    (
        r"what(?:'s| has| is| was)?(?: been)? +(?:changed|new|happened|going on)"
        r" +(?:recently|lately|today|yesterday|(?:this|last) +(?:week|month|year))",
        lambda _: GitLog(),
    ),
    (
        r"(?:what|which files?)(?:'s| is| are| was| were| has| have)?(?: +(?:i|we|been))?"
        rf" +(?:changed|modified|edited|different|touched){IN}"
        rf"|what +(?:did|have) +(?:i|we|you) +change(?:d)?(?: +in +{build_path_pattern('path2')})?"
        rf"|{SHOW}{DET}(?:(?:uncommitted|local|pending|unstaged|recent) +)?"
        rf"(?:changes|modifications|edits)(?: +(?:in|to|of) +{build_path_pattern('path3')})?",
        lambda words: DescribeChanges(_get_place(words)),
    ),
    (
        rf"(?:git +)?log(?: +(?:-n? *)?(?P<n>{N}))?(?:(?: +(?:of|for|in))? +{PATH})?",
        _log,
    ),
    (
        rf"{SHOW}{DET}(?:(?P<n>{N}) +)?(?:last|latest|recent|past|newest|most recent)"
        rf" +(?:(?P<n2>{N}) +)?(?:git +)?(?:commits|(?P<single>commit)(?: +message)?){IN}",
        lambda words: _log({**words, "n": words["n"] or words["n2"]}),
    ),
    (
        rf"{SHOW}{DET}(?:(?:git|commit|change) +)?(?:history|commits){IN}"
        rf"|{SHOW}{DET}(?:git +)log",
        _log,
    ),
    (rf"who +(?:last +)?(?:changed|touched|edited|wrote|modified) +{PATH}", _log),
    (rf"when +(?:was|did) +{PATH} +(?:last +)?(?:changed?|modified|edited|touched)", _log),
    (
        rf"{SHOW}{DET}(?:git +)?diffs?(?: +(?:of|for|in))?(?: +{PATH})?",
        lambda words: GitDiff(_get_place(words)),
    ),
]

_ABOUT: list[tuple[str, Meaning]] = [
    (
        r"(?:what(?:'s| is| are| does| do)|describe|explain|summari[sz]e|summary(?: of)?|about"
        r"|tell me(?: more)? about|introduce|overview(?: of)?|what am i looking at in"
        rf"|{SHOW}{DET}(?:(?:short|quick|brief) +)?(?:overview|summary|description|tour)"
        rf"(?: +of)?) +{PROJECT}(?: +(?:do|about|for|all about|doing|consist of|contain))?"
        r"|where am i|what am i looking at|overview|summary|about|describe|summari[sz]e|intro"
        rf"|{SHOW}{DET}(?:(?:short|quick|brief) +)?(?:overview|summary|tour)",
        lambda _: Describe(),
    ),
    (rf"(?:describe|summari[sz]e|explain|overview of|summary of|about) +{PATH}", _explain),
    (
        rf"{SHOW}{DET}(?:outline|structure|symbols|skeleton)(?: +(?:of|in|for))? +{PATH}"
        rf"|(?:what|which|list|show|show me) *{DET}(?:functions?|classes|methods|definitions"
        rf"|symbols)(?: *(?:,|and|or|&) *{DET}(?:functions|classes|methods))*{THERE}"
        rf" +(?:in|of|from|inside) +{build_path_pattern('path2')}"
        rf"|what(?:'s| is) +defined +in +{build_path_pattern('path3')}"
        rf"|what does +{build_path_pattern('path4')} +define",
        lambda words: OutlineFile(_get_place(words)),
    ),
]

_COUNTING: list[tuple[str, Meaning]] = [
    (
        rf"(?:how many|count|number of|total) +{DET}(?:(?P<kind>{KIND}) +)?(?:source +)?"
        rf"(?P<what>files|lines|words|loc)(?: +of +(?:(?P<kind2>{KIND})(?: +code)?|code|text"
        rf"|source(?: +code)?))?{THERE}"
        rf"(?:{IN}|(?: +(?:does|do|has))? +{build_path_pattern('path2')}"
        r"(?: +(?:has|have|contain|contains))?)",
        _count,
    ),
    (
        rf"(?:(?P<kind>{KIND}) +lines|(?P<what>lines) +of +(?:code|(?P<kind2>{KIND}))|loc){WITHIN}",
        _count,
    ),
    (
        rf"how (?:big|large|long) is +{PATH}"
        rf"|(?:wc|count)(?: +-\w+)?(?: +{build_path_pattern('path2')})?"
        rf"|(?:word|line) +count(?: +of +{build_path_pattern('path3')})?",
        lambda words: Count("lines", CountFiles(_get_place(words))),
    ),
    (
        rf"(?:how many|count|list|show|show me|find) +{DET}(?P<text>TODO|FIXME|XXX|HACK)"
        rf"(?:'?s| comments| items| notes)*{THERE}{IN}",
        lambda words: SearchText(words["text"].upper(), _get_place(words), whole_word=False),
    ),
    (
        rf"how (?:many times|often) +(?:does|do|is|are) +{TEXT}"
        rf" +(?:appear|occur|used|mentioned|called|show up){WITHIN}",
        _parse_uses,
    ),
]

_FINDING: list[tuple[str, Meaning]] = [
    (
        rf"where(?:'s| is| are| do we| did we)? +{DET}(?:(?:function|class|method|variable) +)?"
        rf"{WORD} +(?:defined?|declared?|implemented|written|coming from){WITHIN}",
        _define,
    ),
    (
        r"(?:(?:find|show|show me|go ?to|jump to|locate|where is) +)?"
        rf"{DET}(?:definition|declaration|implementation|source) +(?:of|for) +{DET}{WORD}"
        rf"{WITHIN}",
        _define,
    ),
    (
        rf"(?:(?:find|show|show me|locate|where is|where's) +{DET}"
        rf"(?:function|class|method|def|constant|variable)|define|where) +(?!is\b|are\b){WORD}"
        rf"{WITHIN}",
        _define,
    ),
    (rf"(?:find|show|locate) +{DET}{WORD} +(?:function|class|method){WITHIN}", _define),
    (
        rf"(?:find|list|show|show me|what|which|get|display) +{DET}(?P<kind>{KIND}) +"
        rf"(?:files|scripts|sources?){THERE}{IN}",
        _make_kind_request,
    ),
    (
        rf"(?:find|list|show|show me) +{DET}tests?(?: +files)?{IN}",
        lambda words: FindFiles("*test*", _get_place(words)),
    ),
    (
        rf"(?:find|locate|search(?: +for)?|where(?:'s| is)) +{DET}(?:files?|folder)"
        rf"(?: +(?:named|called|matching|like|with (?:the )?name))? +(?P<path>{WORD_OR_QUOTE})",
        lambda words: FindFiles(_get_place(words)),
    ),
    (rf"(?:find|locate|where(?:'s| is)) +{DET}(?P<path>{WORD_OR_QUOTE})(?: +file)?", _find),
]

_READING: list[tuple[str, Meaning]] = [
    (rf"{SHOW}{DET}{LINES} +(?:of|in|from) +{PATH}", _read),
    (rf"{SHOW}{PATH},? +{LINES}", _read),
    (rf"(?:read|show|show me|cat|view) +{PATH} +(?P<a>{N})(?: *[-–] *(?P<b>{N}))?", _read),
    (
        rf"{SHOW}{DET}(?P<end>first|last|top|bottom|final) +(?:(?P<n>{N}) +)?(?:lines"
        rf"|(?P<one>line)) +(?:of|in|from) +{PATH}",
        _read_end,
    ),
    (rf"(?P<end>head|tail)(?: +(?:-n? *)?(?P<n>[0-9]{{1,7}}))? +{PATH}", _read_end),
    (rf"{SHOW}{DET}(?P<end>beginning|start|top|head|end|bottom|tail) +of +{PATH}", _read_end),
    (
        rf"(?:what|which) +(?:files?|folders?){THERE}{IN}|what(?:'s| is| does)(?: +there)?"
        rf" +(?:in|inside|under) +{build_path_pattern('path2')}"
        rf"|what does +{build_path_pattern('path3')} +contain",
        lambda words: ListFiles(_get_place(words)),
    ),
    (
        rf"(?:list|show|show me|display|print|get|see|give me|ls) +{DET}(?:files|contents?"
        r"|folders|directories|entries|everything|what(?:'s| is)(?: there)?)"
        rf"(?: +and +(?:folders|directories|files|subfolders))?(?: there)?{IN}"
        r"(?P<deep> +recursively)?",
        _list,
    ),
    (rf"(?:show +(?:me +)?)?{DET}(?P<verb>tree|files|contents?){IN}", _list),
    (rf"(?P<verb>ls|dir|tree|list)(?: +-\w+)*(?: +{PATH})?(?P<deep> +recursively)?", _list),
    (
        r"(?P<verb>read|cat|open|view|print|display|less|more|show|see|look at|what does)(?: +me)?"
        rf"(?: +(?:me +)?(?:the +)?contents? +of)? +{PATH}(?: +(?:say|out|contents?))?",
        _read_whole,
    ),
    (PATH, _parse_bare_place),
]

_SEARCHING: list[tuple[str, Meaning]] = [
    (
        rf"(?:grep|rg|ag)(?: +-\w+)* +(?P<text>{WORD_OR_QUOTE})(?:(?: +in)? +{PATH})?",
        _search,
    ),
    (rf"(?:search|look|grep)(?: +(?:in|through|inside))? +{PATH} +for +{TEXT}", _search),
    (
        r"(?:where +(?:is|are|do(?:es)?|do (?:i|we))|where's) +"
        rf"{TEXT} +(?:used?|called?|mentioned|referenced|imported|appear|occur|found|set){WITHIN}",
        _parse_uses,
    ),
    (
        r"(?:who|what|which (?:files?|code|modules?)|where do (?:i|we)|does any(?:thing|one|body)"
        rf"|do any files) +(?:uses?|calls?|contains?|mentions?|imports?|references?|has|have)"
        rf" +{TEXT}{WITHIN}",
        _parse_uses,
    ),
    (
        r"(?:(?:find|search for|list|show|show me) +)?"
        rf"{DET}(?:occurrences?|usages?|uses|mentions?|references?|calls?) +(?:of|to) +"
        rf"{TEXT}{WITHIN}",
        _parse_uses,
    ),
    (
        r"(?:search|look|grep|find|scan|locate)(?: +for)?"
        rf"(?: +{DET}(?:text|string|words?|phrase|lines? (?:with|containing)))? +{TEXT}{WITHIN}",
        _search,
    ),
    (rf"where(?:'s| is| are) +{DET}{TEXT}{WITHIN}", _parse_where),
]

_REFUSED: list[tuple[str, Meaning]] = [
    (
        r"(?P<text>(?:execute|start|launch)\b.+|[$!].+|(?:pytest|npm|pip|cargo|docker|python3?"
        r"|node|bash|sh|sudo|rm|mv|cp|mkdir|touch|curl|wget|make|git)\b.*)",
        lambda words: DeclinedRequest("run", words["text"]),
    ),
    (
        r"(?P<text>(?:write|create|add|fix|edit|change|delete|remove|rename|move|refactor|replace"
        r"|implement|update|install|commit|push|merge|improve|optimi[sz]e|build|generate|upgrade"
        r"|convert|deploy|append|insert|correct|repair)\b.+)",
        lambda words: DeclinedRequest("change", words["text"]),
    ),
]

PHRASES: list[tuple[str, Meaning]] = [
    (pattern.replace(" +", "[ \t]+"), meaning)
    for part in (_TALK, _GIT, _ABOUT, _COUNTING, _FINDING, _READING, _SEARCHING, _REFUSED)
    for pattern, meaning in part
]
"""Every phrase as a pattern, to be taken without regard to case, and its meaning."""
