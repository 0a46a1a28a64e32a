"""Gets a page of the public web as text.

Only public hosts are called, judged by the addresses that their names resolve to (the gateway's
guard): neither this machine nor its networks can be reached. A redirect to another host is told
and not followed, since the person allowed the first one.
"""

import asyncio
import codecs
import re
from urllib.parse import urljoin, urlsplit

from agentd.agent.tools.model import FetchPage
from agentd.agent.tools.page_text import render_html
from agentd.agent.tools.results import WebPage
from agentd.core.errors import BadRequest, SupplierUnreachable, TooLarge, Unavailable
from agentd.llm.upstream.client import HttpUpstream
from agentd.llm.upstream.dial import dial_directly
from agentd.llm.upstream.protocol import Timeouts, UpstreamRequest

LARGEST_PAGE = 4 * 2**20
"""Bytes, decompressed."""
LONGEST_TEXT = 60_000
"""Characters that the model gets."""
_MOST_REDIRECTS = 5
_TIMEOUTS = Timeouts(connect=10.0, head=30.0, idle=30.0, total=60.0)
_HEADERS = {"accept": "text/html, text/plain, application/json;q=0.9, */*;q=0.5"}
_REDIRECTS = frozenset((301, 302, 303, 307, 308))
_TEXTUAL = re.compile(r"text/.*|application/(?:.*\+)?(?:json|xml|javascript|yaml|toml)|")
_CHARSET = re.compile(r"charset=[\"']?([A-Za-z0-9_-]+)", re.I)
_CHARSET_IN_PAGE = re.compile(
    rb"<(?:meta|\?xml)\b[^>]*?\b(?:charset|encoding)\s*=\s*[\"']?\s*([A-Za-z0-9_-]+)", re.I
)
_HEAD = 2048
"""Bytes of a page in which it may name its character set."""
_WIDER = {
    **{"gb2312": "gb18030", "gbk": "gb18030", "shift_jis": "cp932", "x-sjis": "cp932"},
    **{"euc-kr": "cp949", "iso-8859-1": "cp1252"},
}
"""The character sets that browsers take for those that pages name."""
_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


class WebFetcher:
    """Gets pages; ``local`` also allows this machine and its networks, for tests."""

    def __init__(self, *, local: bool = False) -> None:
        self._local = local

    async def fetch(self, wanted: FetchPage) -> WebPage:
        """Get a page; ``BadRequest`` for an address that is none or not public."""
        url = check_url(wanted.url)
        upstream = HttpUpstream(dial=dial_directly(local=self._local))
        try:
            for _ in range(_MOST_REDIRECTS + 1):
                page, target = await _get(upstream, url)
                if not target:
                    return page
                after = check_url(urljoin(url, target))
                if urlsplit(after).hostname != urlsplit(url).hostname:
                    text = f"It redirects to {after}. Fetch that address if it is wanted."
                    return WebPage(url, page.status, "text/plain", text)
                url = after
            raise BadRequest(f"{wanted.url} redirects too often.")
        except SupplierUnreachable as error:
            message = error.message.replace("; only a channel with local: true may call it", "")
            raise Unavailable(f"{url} cannot be had: {message}") from error
        except TooLarge as error:
            raise BadRequest(f"{url} is larger than {LARGEST_PAGE:,} bytes.") from error
        finally:
            await upstream.close()


def check_url(url: str) -> str:
    """Return an address without its fragment; ``BadRequest`` where it cannot be called."""
    try:
        parts = urlsplit(url.strip())
        host = parts.hostname or ""
        _ = parts.port
    except ValueError as error:
        raise BadRequest(f"This is not an address: {url[:200]}") from error
    if parts.scheme not in ("http", "https") or not host:
        raise BadRequest("An address begins with http:// or https:// and a host.")
    if "@" in parts.netloc:
        raise BadRequest("An address must not have a user's name or a password in it.")
    if not url.isascii() or any(sign.isspace() for sign in url.strip()):
        raise BadRequest("An address must be escaped: ASCII without spaces.")
    return parts._replace(fragment="", path=parts.path or "/").geturl()


async def _get(upstream: HttpUpstream, url: str) -> tuple[WebPage, str]:
    """Return a page, or the target of its redirect."""
    request = UpstreamRequest("GET", url, _HEADERS, timeouts=_TIMEOUTS)
    async with upstream.send(request) as response:
        kind = response.headers.get("content-type", "")
        if response.status in _REDIRECTS and (target := response.headers.get("location", "")):
            return WebPage(url, response.status, kind, ""), target
        media = kind.partition(";")[0].strip().lower()
        if not _TEXTUAL.fullmatch(media):
            raise BadRequest(f"{url} is not text but {media}.")
        content = await response.read(LARGEST_PAGE)
    text = _decode(content, kind, media)
    if media in ("text/html", "application/xhtml+xml") or text.lstrip()[:15].lower().startswith(
        ("<!doctype html", "<html")
    ):
        text = await asyncio.to_thread(render_html, text)
    cut = len(text) > LONGEST_TEXT
    return WebPage(url, response.status, media, text[:LONGEST_TEXT], cut), ""


def _decode(content: bytes, kind: str, media: str) -> str:
    """Decode a page by its first bytes, its header or what it says itself."""
    found = next((name for mark, name in _MARKS if content.startswith(mark)), "")
    if not found and (named := _CHARSET.search(kind)):
        found = named[1]
    elif not found and media.endswith(("html", "xml")):
        inside = _CHARSET_IN_PAGE.search(content[:_HEAD])
        found = inside[1].decode() if inside else ""
    try:
        return content.decode(_WIDER.get(found.lower(), found) or "utf-8", "replace")
    except (LookupError, UnicodeError):  # no character set that there is
        return content.decode("utf-8", "replace")
