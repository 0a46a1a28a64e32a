"""Sends an alert to a target once, and tells what it answered."""

import asyncio
import re
from collections.abc import Mapping
from typing import Protocol

from agentd.core.clock import Clock
from agentd.core.errors import AgentdError
from agentd.gateway.alerts.message import build_request, format_message
from agentd.gateway.alerts.model import Alert, AlertTarget, hide_values
from agentd.gateway.alerts.outbox import SendResult
from agentd.gateway.alerts.targets import resolve_target
from agentd.llm.upstream.client import HttpUpstream
from agentd.llm.upstream.dial import dial_directly
from agentd.llm.upstream.protocol import UpstreamResponse

MAX_ANSWER_BYTES = 64 * 1024
MAX_ANSWER_CHARS = 500

_GONE = 410


class BotNotifier(Protocol):
    """The messenger bots (``bots.service.BotService``)."""

    async def send_notice(self, bot_id: str, chat: int, text: str) -> None:
        """Send plain text to a conversation. Raises an ``AgentdError`` without the token in it."""
        ...


class AlertSender:
    """Sends to webhooks, and by ``bots`` to Telegram.

    Belongs to the event loop on which it is used; ``close`` it there.
    """

    def __init__(self, environ: Mapping[str, str], clock: Clock, bots: BotNotifier) -> None:
        self._bots = bots
        self._environ = environ
        self._clock = clock
        self._clients: dict[bool, HttpUpstream] = {}

    async def send(self, alert: Alert, target: AlertTarget) -> SendResult:
        """Send an alert; whatever happens is in the result."""
        secrets = [target.url, target.secret]
        try:
            if target.kind == "telegram":
                await self._bots.send_notice(target.bot, target.chat or 0, format_message(alert))
                return SendResult(ok=True, answer="sent")
            resolved = await asyncio.to_thread(resolve_target, target, self._environ)
            secrets += [resolved.url, resolved.secret]
            request = build_request(alert, resolved, self._clock.now())
            async with self._get_client(target.local).send(request) as response:
                text = await _read_answer(response)
                answer = f"{response.status} {hide_values(text, secrets)}".strip()
                return SendResult(
                    ok=200 <= response.status < 300,
                    answer=answer[:MAX_ANSWER_CHARS],
                    status=response.status,
                    retry_after=_parse_retry_after(response.headers.get("retry-after", "")),
                    is_gone=response.status == _GONE,
                )
        except AgentdError as error:
            answer = hide_values(f"{error.message} {error.details}", secrets)
            return SendResult(ok=False, answer=answer[:MAX_ANSWER_CHARS])

    async def close(self) -> None:
        """Cut every connection."""
        clients, self._clients = self._clients, {}
        await asyncio.gather(*(client.close() for client in clients.values()))

    def _get_client(self, local: bool) -> HttpUpstream:
        if local not in self._clients:
            self._clients[local] = HttpUpstream(dial=dial_directly(local=local))
        return self._clients[local]


async def _read_answer(response: UpstreamResponse) -> str:
    """Return the body as text; a redirect is described, not followed."""
    if 300 <= response.status < 400:
        return "a redirect, which is not followed: use the address that it leads to"
    return (await response.read(MAX_ANSWER_BYTES)).decode("utf-8", "replace")


def _parse_retry_after(header: str) -> float:
    return float(header) if re.fullmatch("[0-9]{1,6}", header.strip()) else 0.0
