"""What a turn reports of a reply while it comes: text, thinking, and the supplier's web searches.

A search is carried out by the supplier within the reply; the history shows it as a tool's use, and
the pages that the reply cites as another.
"""

from collections.abc import Iterable, Iterator

from agentd.agent.engine import (
    EngineEvent,
    ReplyDelta,
    ThinkingProgress,
    ToolStarted,
    ToolUsed,
)
from agentd.agent.text import sanitize
from agentd.llm.conversation import (
    PARAGRAPH,
    ReplyEvent,
    TextDelta,
    ThinkingDelta,
    WebSearchDone,
    WebSearchStarted,
    WebSource,
)

WEB_SEARCH = "web_search"
"""The name that the history gives to a search of the supplier."""
CITATIONS = "web_citations"
"""The name that the history gives to the pages that a reply cites."""

MOST_PAGES = 50
"""Pages of one search that the history has."""
_LONGEST = 500
"""Characters of a query, an address or a title."""
_BROKEN_OFF = "failed: the supplier's answer broke off"
_NOTHING_TOLD = "The supplier does not tell which pages it found."


class ReplyProgress:
    """Reads the events of one reply as progress of the turn."""

    def __init__(self) -> None:
        self._open_searches = 0
        self._has_said = self._parted = False

    def read(self, event: ReplyEvent) -> EngineEvent | None:
        """Return what the turn reports of an event; None: nothing."""
        match event:
            case TextDelta(text):
                between = PARAGRAPH if self._has_said and self._parted else ""
                self._has_said, self._parted = True, False
                return ReplyDelta(between + text)
            case ThinkingDelta(text):
                return ThinkingProgress(text)
            case WebSearchStarted():
                self._open_searches += 1
                return ToolStarted(WEB_SEARCH, "")
            case WebSearchDone():
                self._open_searches -= 1
                self._parted = True
                return _describe_search(event)
        return None

    def end(self) -> Iterator[EngineEvent]:
        """Yield the searches that the end of the reply cut off."""
        for _ in range(self._open_searches):
            yield ToolUsed(WEB_SEARCH, "", _BROKEN_OFF, ok=False)
        self._open_searches = 0


def describe_citations(pages: Iterable[WebSource]) -> ToolUsed:
    """Return the pages that a reply cites, for the history."""
    cited = tuple(pages)
    count = "1 page" if len(cited) == 1 else f"{len(cited)} pages"
    return ToolUsed(CITATIONS, count, _list_pages(cited))


def _describe_search(search: WebSearchDone) -> ToolUsed:
    query = sanitize(search.query[:_LONGEST])
    if search.problem:
        problem = sanitize(search.problem[:_LONGEST])
        return ToolUsed(WEB_SEARCH, query, f"failed: {problem}", ok=False)
    return ToolUsed(WEB_SEARCH, query, _list_pages(search.pages) or _NOTHING_TOLD)


def _list_pages(pages: tuple[WebSource, ...]) -> str:
    lines = [_render_page(page) for page in pages[:MOST_PAGES]]
    if more := len(pages) - MOST_PAGES:
        lines += [f"… and {more} more"] if more > 0 else []
    return sanitize("\n".join(lines))


def _render_page(page: WebSource) -> str:
    title = " ".join(page.title[:_LONGEST].split())
    return f"{title} <{page.url[:_LONGEST]}>" if title else page.url[:_LONGEST]
