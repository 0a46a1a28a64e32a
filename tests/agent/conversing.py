"""Conversations with foreign programs, replayed from what the real programs said."""

import json
from collections.abc import Callable, Iterable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any, TypeVar

from agentd.agent.conversation import Ask, Conversation, Linger, Over, Send, Step
from agentd.agent.engine import Answer, Replied, Spent
from agentd.proxy.price import NOTHING, Usage

TRANSCRIPTS = Path(__file__).parent / "engines" / "transcripts"
WORKSPACE = "/home/someone/project"

_Kind = TypeVar("_Kind")


def runs(name: str) -> list[list[dict[str, Any]]]:
    """The runs of a program in a transcript; each entry is a line with what was said."""
    found: list[list[dict[str, Any]]] = []
    text = (TRANSCRIPTS / f"{name}.jsonl").read_text().replace("{workspace}", WORKSPACE)
    for entry in map(json.loads, text.splitlines()):
        if "program" in entry:
            found.append([])
        else:
            found[-1].append(entry)
    return found


def received(name: str, run: int = 0) -> list[bytes]:
    """What the program wrote in a run, line by line."""
    return [
        json.dumps(entry["received"]).encode() for entry in runs(name)[run] if "received" in entry
    ]


def allow(_: Ask) -> Answer:
    """Everything is allowed."""
    return Answer(allowed=True)


def deny(_: Ask) -> Answer:
    """Nothing is allowed."""
    return Answer(allowed=False)


def replay(
    conversation: Conversation,
    lines: Iterable[bytes],
    decide: Callable[[Ask], Answer] = allow,
) -> list[Step]:
    """All steps of a turn in which the program says these lines, to its end or theirs.

    After a ``Linger`` and after the last line the program is treated as gone.
    """
    steps: list[Step] = []

    def carry(told: Iterator[Step]) -> None:
        for step in told:
            steps.append(step)
            if isinstance(step, Ask):
                carry(conversation.answered(step.id, decide(step)))

    carry(conversation.begin())
    for line in lines:
        if steps and isinstance(steps[-1], Over):
            break
        carry(conversation.heard(line))
    if Over() not in steps:
        carry(conversation.ended())
    return steps


def only(steps: Iterable[Step], kind: type[_Kind]) -> list[_Kind]:
    """The steps of a kind."""
    return [step for step in steps if isinstance(step, kind)]


def sent(steps: Iterable[Step], method: str) -> list[Any]:
    """The parameters of the requests and notifications that were sent by a method."""
    lines = [json.loads(step.line) for step in only(steps, Send)]
    return [line.get("params") for line in lines if line.get("method") == method]


def answers(steps: Iterable[Step]) -> list[Any]:
    """The results that were sent as answers to the program's requests."""
    lines = [json.loads(step.line) for step in only(steps, Send)]
    return [line["result"] for line in lines if "result" in line]


def told(steps: Iterable[Step]) -> list[Step]:
    """What was told to the dispatcher, without the pieces of growing replies."""
    hidden = ("Send", "Ask", "Wrote", "Over", "Linger", "Withdrawn")
    return [step for step in steps if type(step).__name__ not in hidden]


def used(steps: Iterable[Step]) -> Usage:
    """All that was booked."""
    return sum((step.usage for step in steps if isinstance(step, Replied | Spent)), NOTHING)


def spent(steps: Iterable[Step]) -> Decimal:
    """All money that was booked."""
    costs = (step.cost for step in steps if isinstance(step, Replied | Spent))
    return sum((cost for cost in costs if cost), Decimal(0))


def lingered(steps: Iterable[Step]) -> bool:
    """Whether the conversation waits for what may come late."""
    return bool(only(steps, Linger))
