"""What every exchange needs."""

import asyncio
import time
from typing import Protocol

from tornado.http1connection import HTTP1Connection
from tornado.httputil import format_timestamp
from tornado.iostream import IOStream

from agentd.access.gate import Gate
from agentd.errors import AgentdError
from agentd.web.access_log import AccessLog
from agentd.web.forwarded import TrustedProxies
from agentd.web.hosts import Hosts
from agentd.web.patience import Patience
from agentd.web.table import Table
from agentd.web.wrong_keys import WrongKeys

HEAD_SECONDS = 10.0
"""How long a connection may take to send a request's head, and so how long it may idle."""
TAKING_SECONDS = 300.0
"""How long a caller may leave a portion of a streamed answer untaken."""
PARTING_SECONDS = 5.0
"""How long a caller may take to hear that his key is good no more, in the middle of an answer."""
BODY_SECONDS = 30.0
"""Time that a whole body may take to come."""


class Fresh(Protocol):
    """What is behind the gate: the keys (``KeyService``) or the logins (``People``)."""

    async def fresh(self) -> None:
        """Return once the gate knows them as they are now."""
        ...


class AtWork(Protocol):
    """An answer that is being made; ``exchange.Exchange`` is one."""

    def dismiss(self, lost: frozenset[str]) -> None:
        """These access keys are good no more."""
        ...

    def interrupt(self, error: AgentdError) -> None:
        """Cancel what is being done for this request, and answer ``error`` if nothing was yet."""
        ...


class Desk:
    """What every exchange needs: the table, the gate, the hosts, the log."""

    def __init__(
        self,
        table: Table,
        gate: Gate,
        keys: Fresh,
        logins: Fresh,
        hosts: Hosts,
        access_log: AccessLog,
        wrong_keys: WrongKeys,
        access: Fresh,
        proxies: TrustedProxies,
    ) -> None:
        self.table = table
        self.gate = gate
        self.keys = keys
        self.logins = logins
        self.access = access
        self.hosts = hosts
        self.proxies = proxies
        self.access_log = access_log
        self.wrong_keys = wrong_keys
        self.at_work: dict[asyncio.Future[None], AtWork] = {}
        """The exchanges whose answer is being made."""
        self.heads: Patience[IOStream] = Patience(HEAD_SECONDS, IOStream.close)
        """The connections on which a request is to come."""
        self.bodies = Patience(BODY_SECONDS, HTTP1Connection.close)
        """The connections on which a body is to come."""
        self.takers: Patience[IOStream] = Patience(TAKING_SECONDS, IOStream.close)
        """The connections on which a portion of an answer is to be taken."""
        self.parting: Patience[IOStream] = Patience(PARTING_SECONDS, IOStream.close)
        """The connections on which an answer ends with its key."""
        self._date = ("", 0.0)

    def dismiss(self, lost: frozenset[str]) -> None:
        """The access keys of these ids are good no more: who waits with one is told so."""
        # Each in a later turn of the loop than it began in: what never began cannot be ended.
        asyncio.get_running_loop().call_soon(self._dismiss, lost)

    def _dismiss(self, lost: frozenset[str]) -> None:
        for one in list(self.at_work.values()):
            one.dismiss(lost)

    def date(self) -> str:
        """The ``Date`` header, made once a second."""
        text, made = self._date
        now = time.monotonic()
        if now - made >= 1 or not text:
            text = format_timestamp(time.time())
            self._date = (text, now)
        return text
