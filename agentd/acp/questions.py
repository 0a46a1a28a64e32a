"""The open questions of a chat, as an editor is asked them."""

import logging
from collections.abc import Callable, Sequence
from functools import partial

from agentd.acp.connection import EditorConnection
from agentd.acp.daemon import DaemonApi
from agentd.acp.messages import AcpJson
from agentd.acp.permissions import make_question, read_decision
from agentd.acp.transcript import Transcript
from agentd.acp.updates import Update, make_chunk
from agentd.core.errors import AgentdError, Forbidden

log = logging.getLogger(__name__)


class EditorQuestions:
    """The requests to the editor about what the chat asks; its session guards all of it."""

    def __init__(
        self,
        daemon: DaemonApi,
        connection: EditorConnection,
        chat_id: int,
        transcript: Transcript,
        send_update: Callable[[Update], None],
        *,
        forms: bool,
    ) -> None:
        self._daemon = daemon
        self._connection = connection
        self._chat_id = chat_id
        self._transcript = transcript
        self._send_update = send_update
        self._forms = forms
        self._asked: dict[int, int] = {}
        """The requests to the editor by the ids of the questions."""

    def take(self, approval: AcpJson) -> None:
        """Ask an open question, once; withdraw one that is decided."""
        number = approval["id"]
        if approval["state"] != "open":
            self._withdraw(number, allowed=approval["state"] == "allowed")
        elif number not in self._asked:
            call_id, begun = self._transcript.calls.ask(approval)
            if begun:
                self._send_update(begun)
            session, root = str(self._chat_id), self._transcript.root
            question = make_question(session, call_id, approval, root, forms=self._forms)
            answer = partial(self._answer, approval)
            self._asked[number] = self._connection.request(question.method, question.params, answer)

    def synchronize(self, still_open: Sequence[AcpJson]) -> None:
        """Ask all that is open, and withdraw what was decided unseen."""
        for approval in still_open:
            self.take(approval)
        for number in self._asked.keys() - {one["id"] for one in still_open}:
            self._withdraw(number, allowed=True)

    def withdraw_all(self) -> None:
        """Ask the editor nothing any more; the questions stay open for others."""
        for number in self._asked.values():
            self._connection.cancel(number)
        self._asked.clear()

    def _withdraw(self, number: int, *, allowed: bool) -> None:
        if request := self._asked.pop(number, None):
            self._connection.cancel(request)
        if update := self._transcript.calls.decide(number, allowed=allowed):
            self._send_update(update)

    def _answer(self, approval: AcpJson, result: AcpJson) -> None:
        """Pass a person's decision on; what was left open stays so for others."""
        if (body := read_decision(approval, result)) is None:
            return
        try:
            self._daemon.call("POST", f"/api/chat/{self._chat_id}/approvals/{approval['id']}", body)
        except Forbidden as error:  # the question stays open for others
            self._send_update(make_chunk("agent", f"{error.message}. {error.details}\n\n"))
        except AgentdError as error:
            log.warning("approval %d: %s", approval["id"], error.message)
