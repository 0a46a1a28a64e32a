"""The daemon about itself: its health, its numbers, its addresses."""

import asyncio
import resource
from ipaddress import ip_address

from msgspec import Struct

from agentd.access.gate import NOBODY, REFUSED
from agentd.chats.service import ChatService
from agentd.clock import Clock
from agentd.errors import Unauthorized
from agentd.web.access_log import AccessLog
from agentd.web.call import Answer, Call
from agentd.web.describe import openapi
from agentd.web.manage.description import Description
from agentd.web.table import Table

_PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"


class Health(Struct, frozen=True):
    """All that a stranger may know: it is up."""

    status: str = "ok"


class System:
    """The endpoints that belong to no surface of the specification."""

    def __init__(self, chats: ChatService, access_log: AccessLog, clock: Clock) -> None:
        self._chats = chats
        self._access_log = access_log
        self._clock = clock
        self._began = clock.monotonic()
        self._table = Table(())
        self._openapi = b""
        self._description = Description()

    def describe(self, table: Table) -> None:
        """Take the table that is described: it holds this object's own rows too."""
        self._table = table
        self._description.describe(table)

    def health(self, call: Call) -> Answer:
        """Answers, so it lives."""
        return Answer(Health())

    async def openapi(self, call: Call) -> Answer:
        """Every address, as OpenAPI 3.1."""
        if not self._openapi:  # made when first asked for: most daemons never are
            self._openapi = await asyncio.to_thread(openapi, self._table.routes)
        return Answer(self._openapi)

    async def agent(self, call: Call) -> Answer:
        """The management of the gateway, told by itself."""
        return await self._description.agent(call)

    async def agent_openapi(self, call: Call) -> Answer:
        """The management's addresses, as OpenAPI 3.1."""
        return await self._description.openapi(call)

    def metrics(self, call: Call) -> Answer:
        """What a monitoring system reads: one of this machine, or one with a key."""
        if call.caller is NOBODY and not ip_address(call.remote_ip).is_loopback:
            raise Unauthorized(REFUSED)
        chats = self._chats.summaries()
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        lines = [
            "# TYPE agentd_uptime_seconds gauge",
            f"agentd_uptime_seconds {self._clock.monotonic() - self._began:.3f}",
            "# TYPE agentd_resident_peak_bytes gauge",
            f"agentd_resident_peak_bytes {peak}",
            "# TYPE agentd_chats gauge",
            f"agentd_chats {len(chats)}",
            "# TYPE agentd_chats_working gauge",
            f"agentd_chats_working {sum(chat.working for chat in chats)}",
            "# TYPE agentd_chats_damaged gauge",
            f"agentd_chats_damaged {sum(bool(chat.damage) for chat in chats)}",
            "# TYPE agentd_prompts_waiting gauge",
            f"agentd_prompts_waiting {sum(chat.waiting for chat in chats)}",
            "# TYPE agentd_http_answers_total counter",
        ]
        lines += [
            f'agentd_http_answers_total{{method="{method}",status="{status}"}} {count}'
            for (method, status), count in sorted(self._access_log.answers.items())
        ]
        text = "\n".join(lines) + "\n"
        return Answer(text.encode(), headers={"Content-Type": _PROMETHEUS})
