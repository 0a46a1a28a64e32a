"""Fetching VPN subscriptions: from public hosts, with limits on size and time."""

import asyncio
from urllib.parse import urljoin

from agentd.core.errors import BadRequest, SupplierUnreachable, TooLarge
from agentd.gateway.vpn.subscription import (
    BODY_LIMIT,
    VpnSubscription,
    Yaml,
    parse_single,
    parse_subscription,
)
from agentd.llm.upstream.client import HttpUpstream
from agentd.llm.upstream.dial import dial_directly
from agentd.llm.upstream.protocol import Timeouts, UpstreamRequest, UpstreamResponse

FETCH_SECONDS = 10.0
"""The time limit of a whole fetch: name resolution, connections, redirects and body."""
REDIRECTS = 3

_HEADERS = {"user-agent": "Clash.Meta", "accept": "*/*"}
"""Suppliers choose the format by User-Agent; Clash's supports all types of servers."""
_MOVED = (301, 302, 303, 307, 308)
_WEB = ("http://", "https://")


class Subscriptions:
    """Reads VPN links and subscriptions; ``yaml`` parses untrusted YAML."""

    def __init__(self, yaml: Yaml) -> None:
        self._yaml = yaml

    async def read(self, url: str, *, local: bool) -> VpnSubscription:
        """Return the servers of a link, or of a subscription's URL.

        ``local``: the URL may point to this machine or its network. Raises ``BadRequest`` for an
        invalid URL or body, and ``SupplierUnreachable``. The URL is a secret: no error quotes it.
        """
        url = url.strip()
        if not url.lower().startswith(_WEB):
            return parse_single(url)
        try:
            async with asyncio.timeout(FETCH_SECONDS):
                headers, body = await self._fetch(url, local=local)
        except TimeoutError as error:
            message = f"The subscription was not received within {FETCH_SECONDS:g} s"
            raise SupplierUnreachable(message, "head", "") from error
        return await asyncio.to_thread(parse_subscription, body, headers, self._yaml)

    async def parse(self, body: str) -> VpnSubscription:
        """Return the servers of a subscription's body. Raises ``BadRequest``."""
        return await asyncio.to_thread(parse_subscription, body.encode(), {}, self._yaml)

    async def _fetch(self, url: str, *, local: bool) -> tuple[dict[str, str], bytes]:
        upstream = HttpUpstream(
            dial=dial_directly(local=local)
        )  # checks the address of each redirect
        try:
            for _ in range(REDIRECTS + 1):
                timeouts = Timeouts(total=FETCH_SECONDS)
                async with upstream.send(
                    UpstreamRequest("GET", url, _HEADERS, b"", timeouts)
                ) as answer:
                    if answer.status not in _MOVED:
                        return dict(answer.headers), await _read_body(answer)
                    url = _resolve_redirect(url, answer.headers.get("location", ""))
            raise BadRequest(f"The subscription has more than {REDIRECTS} redirects")
        except SupplierUnreachable as error:
            if error.stage == "address":
                raise BadRequest(
                    "The subscription's URL points or redirects to an address that is not public; "
                    "that is only allowed with local: true"
                ) from error
            raise
        finally:
            await upstream.close()


async def _read_body(answer: UpstreamResponse) -> bytes:
    if answer.status != 200:
        raise BadRequest(f"The subscription's server responded with status {answer.status}")
    try:
        return await answer.read(BODY_LIMIT)
    except TooLarge as error:
        raise BadRequest(f"The subscription is larger than {BODY_LIMIT} bytes") from error


def _resolve_redirect(url: str, location: str) -> str:
    try:
        there = urljoin(url, location)
    except ValueError as error:
        raise BadRequest("The subscription redirects to an invalid URL") from error
    if not location or not there.lower().startswith(_WEB):
        raise BadRequest("The subscription redirects to a URL that is neither http nor https")
    if url.lower().startswith("https:") and not there.lower().startswith("https:"):
        raise BadRequest("The subscription redirects from https to http, which is not encrypted")
    return there
