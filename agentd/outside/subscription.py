"""Fetching VPN subscriptions, from public hosts and in small portions only."""

import asyncio
from urllib.parse import urljoin

from agentd.errors import BadRequest, SupplierUnreachable, TooLarge
from agentd.outside.dialing import direct
from agentd.outside.upstream import HttpUpstream
from agentd.proxy.upstream import Request, Response, Timeouts
from agentd.proxy.vpn.subscription import BODY_LIMIT, Subscription, Yaml, single, subscription

FETCH_SECONDS = 10.0
"""All of it: names, connections, redirects, body."""
REDIRECTS = 3

_HEADERS = {"user-agent": "Clash.Meta", "accept": "*/*"}
"""By the name they choose the form of the body; in this one all kinds of servers can be told."""
_MOVED = (301, 302, 303, 307, 308)
_WEB = ("http://", "https://")


class Subscriptions:
    """Reads what the address of a VPN leads to; ``yaml`` reads YAML of strangers."""

    def __init__(self, yaml: Yaml) -> None:
        self._yaml = yaml

    async def read(self, url: str, *, local: bool) -> Subscription:
        """The servers of a link or of a subscription; ``local``: it may come from inside.

        Raises ``BadRequest`` for an address or a body that is none, and ``SupplierUnreachable``.
        The address itself is never told: it is a secret.
        """
        url = url.strip()
        if not url.lower().startswith(_WEB):
            return single(url)
        try:
            async with asyncio.timeout(FETCH_SECONDS):
                headers, body = await self._fetched(url, local=local)
        except TimeoutError as error:
            message = f"The subscription did not come within {FETCH_SECONDS:g} s"
            raise SupplierUnreachable(message, "head", "") from error
        return await asyncio.to_thread(subscription, body, headers, self._yaml)

    async def told(self, body: str) -> Subscription:
        """The servers of a body that somebody has at hand. Raises ``BadRequest``."""
        return await asyncio.to_thread(subscription, body.encode(), {}, self._yaml)

    async def _fetched(self, url: str, *, local: bool) -> tuple[dict[str, str], bytes]:
        upstream = HttpUpstream(dial=direct(local=local))  # each hop is looked at anew
        try:
            for _ in range(REDIRECTS + 1):
                timeouts = Timeouts(total=FETCH_SECONDS)
                async with upstream.send(Request("GET", url, _HEADERS, b"", timeouts)) as answer:
                    if answer.status not in _MOVED:
                        return dict(answer.headers), await _body(answer)
                    url = _next(url, answer.headers.get("location", ""))
            raise BadRequest(f"The subscription leads elsewhere more than {REDIRECTS} times")
        except SupplierUnreachable as error:
            if error.stage == "address":
                raise BadRequest(
                    "The subscription's address is, or leads to, one that is not public; "
                    "only a channel with local: true may have that"
                ) from error
            raise
        finally:
            await upstream.close()


async def _body(answer: Response) -> bytes:
    if answer.status != 200:
        raise BadRequest(f"The subscription's server answers with status {answer.status}")
    try:
        return await answer.read(BODY_LIMIT)
    except TooLarge as error:
        raise BadRequest(f"The subscription is larger than {BODY_LIMIT} bytes") from error


def _next(url: str, location: str) -> str:
    try:
        there = urljoin(url, location)
    except ValueError as error:
        raise BadRequest("The subscription leads to what is no address") from error
    if not location or not there.lower().startswith(_WEB):
        raise BadRequest("The subscription leads to what is no address of the web")
    if url.lower().startswith("https:") and not there.lower().startswith("https:"):
        raise BadRequest("The subscription leads from https to http, where all could read it")
    return there
