"""Requests of a server: roots and pings are answered, questions passed on, all else refused.

Nobody lets a server use the model on its own account.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeAlias
from urllib.request import pathname2url

from agentd.agent.mcp_servers.messages import (
    MOST_TOOLS,
    JsonMap,
    RpcId,
    encode_failure,
    encode_result,
    get_map,
    get_string,
)
from agentd.core.errors import Unavailable
from agentd.core.tasks import BackgroundTasks

Elicit: TypeAlias = Callable[[str, JsonMap], Awaitable[JsonMap]]
"""Asks the person a server's question; returns the answer as the protocol wants it."""

_QUESTION = "elicitation/create"


class ServerRequests:
    """The requests of one server that are under way; ``folder`` is the root that it is told.

    ``send`` raises ``Unavailable``, which ``on_closed`` is told; ``on_answered`` is called when a
    person has answered.
    """

    def __init__(
        self,
        folder: str,
        elicit: Elicit,
        send: Callable[[bytes], Awaitable[None]],
        on_closed: Callable[[str], None],
        on_answered: Callable[[], None],
    ) -> None:
        self._folder = folder
        self._elicit = elicit
        self._send = send
        self._on_closed = on_closed
        self._on_answered = on_answered
        self._tasks = BackgroundTasks()
        self._questions: dict[RpcId, asyncio.Task[None]] = {}

    @property
    def is_asking(self) -> bool:
        """True while the person has a question to answer."""
        return bool(self._questions)

    def take(self, number: RpcId, method: str, params: JsonMap) -> None:
        """Answer a request; of a flood some are not answered."""
        if len(self._tasks) >= MOST_TOOLS or number in self._questions:
            return
        task = self._tasks.start(self._respond(number, method, params))
        if method == _QUESTION:
            self._questions[number] = task
            task.add_done_callback(lambda _: self._questions.pop(number, None))

    def withdraw(self, number: RpcId) -> None:
        """Ask the person no longer: the server does not want the answer any more."""
        if task := self._questions.get(number):
            task.cancel()

    def withdraw_all(self) -> None:
        """Ask the person nothing any more."""
        for number in self._questions:
            self.withdraw(number)

    async def close(self) -> None:
        """Answer nothing any more."""
        await self._tasks.cancel()

    async def _respond(self, number: RpcId, method: str, params: JsonMap) -> None:
        match method:
            case "ping":
                answer = encode_result(number, {})
            case "roots/list":
                uri = f"file://{pathname2url(self._folder)}"
                answer = encode_result(number, {"roots": [{"uri": uri, "name": "workspace"}]})
            case "elicitation/create":
                asked = get_string(params, "message", 2_000)
                result = await self._elicit(asked, get_map(params, "requestedSchema"))
                self._on_answered()
                answer = encode_result(number, result)
            case _:
                answer = encode_failure(number, f"agentd does not serve {method[:100]}")
        try:
            await self._send(answer)
        except Unavailable as error:
            self._on_closed(error.message)
