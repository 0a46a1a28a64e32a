"""The prompts that an editor waits for, from their request to the end of their turns.

A chat may get prompts from others too; a turn belongs to the prompt that left the queue for it.
"""

import re
import threading
from collections.abc import Collection
from dataclasses import dataclass, field

from agentd.acp.messages import AcpJson

REMOVED = "The prompt was removed from the queue of the chat."
DELETED = "The chat was deleted."
CLOSED = "The session was closed; the prompt stays in the chat."
NOT_SENT = "The session was closed before the prompt was sent."
_STOP_REASONS = (
    ("max_tokens", re.compile("reached the model's output limit")),
    (
        "max_turn_requests",
        re.compile(r"reached (its limit of (requests|\d+ steps)|the number of steps)"),
    ),
    ("refusal", re.compile("refused to continue")),
)
"""The protocol's words for ends of turns that agentd reports as failures, by our engines' texts.

Words of a supplier's error, such as ``max_tokens``, do not make it the end of a turn.
"""


@dataclass(eq=False)
class EditorPrompt:
    """A prompt of the editor, waited for by the thread of its request."""

    text: str
    before: "EditorPrompt | None" = None
    """The one that the editor sent before it, to be queued first."""
    sent: threading.Event = field(default_factory=threading.Event)
    """Set once it is in the queue, or will never be."""
    id: int = 0
    """Its id in the queue."""
    listed: bool = False
    """An event has shown it in the queue: later ones without it mean that it left."""
    started: bool = False
    echoed: bool = False
    """Its message is in the history."""
    turn: int = 0
    """Its turn, once that is known."""
    cancelled: bool = False
    failure: str = ""
    ended: threading.Event = field(default_factory=threading.Event)

    @property
    def stop_reason(self) -> str:
        """Why the turn ended; empty: it failed, and there is no word for it."""
        if self.cancelled:
            return "cancelled"
        if not self.failure:
            return "end_turn"
        return next((name for name, known in _STOP_REASONS if known.search(self.failure)), "")


class AcceptedPrompts:
    """The prompts of which the editor's requests are under way; any thread may use it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._prompts: list[EditorPrompt] = []

    def add(self) -> EditorPrompt:
        """Return a prompt that is on its way to the queue, until ``remove``."""
        with self._lock:
            prompt = EditorPrompt("", before=self._prompts[-1] if self._prompts else None)
            self._prompts.append(prompt)
        return prompt

    def remove(self, prompt: EditorPrompt) -> None:
        """Forget a prompt, of which the request is over."""
        prompt.sent.set()
        with self._lock:
            self._prompts.remove(prompt)

    def cancel(self) -> None:
        """Mark all prompts that have not ended as cancelled."""
        with self._lock:
            for prompt in self._prompts:
                prompt.cancelled = not prompt.ended.is_set()


class EditorPrompts:
    """The prompts of one session that are not done, in their order."""

    def __init__(self) -> None:
        self.open: list[EditorPrompt] = []
        self._queued: frozenset[int] = frozenset()

    @property
    def running(self) -> EditorPrompt | None:
        """The prompt whose turn runs."""
        return next((one for one in self.open if one.started), None)

    def is_queued(self, prompt: EditorPrompt) -> bool:
        """Return whether a prompt still waits in the queue."""
        return not prompt.listed or prompt.id in self._queued

    def add(self, prompt: EditorPrompt) -> None:
        """Wait for a prompt that is in the queue now."""
        self.open.append(prompt)

    def on_queue(self, queued: Collection[int]) -> None:
        """Note the ids of the queue; what happened to the others is told next."""
        self._queued = frozenset(queued)
        for prompt in self.open:
            prompt.listed = prompt.listed or prompt.id in self._queued

    def on_record(self, reason: str, seq: int) -> None:
        """Take the record that changed the chat; one that starts a turn gives it its number."""
        for prompt in list(self.open):
            if self.is_queued(prompt):
                self._return_to_queue(prompt)
            elif reason == "turn.started" and not prompt.started:
                prompt.started, prompt.turn = True, seq
            elif reason == "turn.ended" and prompt.started:
                self._end(prompt)
            elif not prompt.started and reason.startswith("queue."):
                self._end(prompt, REMOVED)

    def list_answered(self) -> list[EditorPrompt]:
        """Return those that the editor waits for no more: cancelled while no daemon answered."""
        return [one for one in self.open if one.ended.is_set()]

    def end_all(self, failure: str) -> None:
        """End all prompts: nothing will become of them."""
        for prompt in list(self.open):
            self._end(prompt, failure)

    def on_message(self, message: AcpJson) -> bool:
        """Return whether a message is not to be shown: the editor has it, or is told otherwise."""
        if message["role"] == "user":
            return self._on_user_message(message["content"])
        running = self.running
        if message["role"] == "error" and running:
            running.failure = message["content"]
            return True
        if message["tool"] == "stop" and running:
            running.cancelled = True
            return True
        return False

    def take_queue(self, queued: Collection[int]) -> None:
        """Take the queue as it was read after events were missed: what is not in it has left it."""
        for prompt in self.open:
            prompt.listed = True
        self.on_queue(queued)

    def synchronize(self, queued: Collection[int], turn: int) -> None:
        """Take the state of the chat after events were missed; ``turn`` 0: none runs."""
        self.take_queue(queued)
        for prompt in list(self.open):
            if self.is_queued(prompt):
                self._return_to_queue(prompt)
            elif not turn or prompt.turn not in (0, turn):
                self._end(prompt)
            elif prompt.started or prompt.echoed:
                prompt.started, prompt.turn = True, turn
            else:
                self._end(prompt, REMOVED)

    def _return_to_queue(self, prompt: EditorPrompt) -> None:
        """Note that a limit or a crash ended its turn, and it waits for another."""
        if prompt.started:
            prompt.started, prompt.turn, prompt.failure = False, 0, ""

    def _on_user_message(self, text: str) -> bool:
        for prompt in self.open:
            if not prompt.echoed and prompt.text == text and not self.is_queued(prompt):
                prompt.echoed = prompt.started = True
                return True
        return False

    def _end(self, prompt: EditorPrompt, failure: str = "") -> None:
        prompt.failure = prompt.failure or failure
        self.open.remove(prompt)
        prompt.ended.set()
