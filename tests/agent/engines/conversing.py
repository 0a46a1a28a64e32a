"""Conversations with foreign programs, replayed from what the real programs said."""

import json
from collections.abc import Callable, Iterable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any, TypeVar

from msgspec import structs

from agentd.agent.engine import ApprovalAnswer, EngineStateSaved, ReplyCompleted, UsageReported
from agentd.agent.engines.external.conversation import (
    AskApproval,
    AwaitLateOutput,
    EngineConversation,
    SendLine,
    Step,
    TurnDone,
)
from agentd.llm.price import NO_USAGE, Usage

TRANSCRIPTS = Path(__file__).parent / "real" / "transcripts"
WORKSPACE = "/home/someone/project"

_Kind = TypeVar("_Kind")


def read_runs(name: str) -> list[list[dict[str, Any]]]:
    """Return the runs of a program in a transcript; each entry is a line, sent or received."""
    found: list[list[dict[str, Any]]] = []
    text = (TRANSCRIPTS / f"{name}.jsonl").read_text().replace("{workspace}", WORKSPACE)
    for entry in map(json.loads, text.splitlines()):
        if "program" in entry:
            found.append([])
        else:
            found[-1].append(entry)
    return found


def read_received_lines(name: str, run: int = 0) -> list[bytes]:
    """Return the lines that the program wrote in a run."""
    return [
        json.dumps(entry["received"]).encode()
        for entry in read_runs(name)[run]
        if "received" in entry
    ]


def allow(_: AskApproval) -> ApprovalAnswer:
    """Allow everything."""
    return ApprovalAnswer(allowed=True)


def deny(_: AskApproval) -> ApprovalAnswer:
    """Deny everything."""
    return ApprovalAnswer(allowed=False)


def replay(
    conversation: EngineConversation,
    lines: Iterable[bytes],
    decide: Callable[[AskApproval], ApprovalAnswer] = allow,
) -> list[Step]:
    """Return all steps of a turn in which the program writes these lines, to its end or theirs.

    After a ``AwaitLateOutput`` and after the last line the program is treated as gone.
    """
    steps: list[Step] = []

    def carry(told: Iterator[Step]) -> None:
        for step in told:
            steps.append(step)
            if isinstance(step, AskApproval):
                carry(conversation.on_decision(step.id, decide(step)))

    carry(conversation.on_start())
    for line in lines:
        if steps and isinstance(steps[-1], TurnDone):
            break
        carry(conversation.on_line(line))
    if TurnDone() not in steps:
        carry(conversation.on_exit())
    return steps


def filter_steps(steps: Iterable[Step], kind: type[_Kind]) -> list[_Kind]:
    """Return the steps of a kind."""
    return [step for step in steps if isinstance(step, kind)]


def read_sent_params(steps: Iterable[Step], method: str) -> list[Any]:
    """Return the parameters of the requests and notifications that were sent with a method."""
    lines = [json.loads(step.line) for step in filter_steps(steps, SendLine)]
    return [line.get("params") for line in lines if line.get("method") == method]


def read_sent_results(steps: Iterable[Step]) -> list[Any]:
    """Return the results that were sent as answers to the program's requests."""
    lines = [json.loads(step.line) for step in filter_steps(steps, SendLine)]
    return [line["result"] for line in lines if "result" in line]


def filter_reported(steps: Iterable[Step]) -> list[Step]:
    """Return the steps that were reported to the dispatcher, without deltas and engine states."""
    hidden = (
        "SendLine",
        "AskApproval",
        "ReplyDelta",
        "ThinkingProgress",
        "TurnDone",
        "AwaitLateOutput",
        "QuestionCancelled",
        "ModesListed",
    )
    return [drop_engine_state(step) for step in steps if type(step).__name__ not in hidden]


def drop_engine_state(step: Any) -> Any:
    """Return a step without the engine state that is saved with it."""
    return (
        structs.replace(step, engine_state="")
        if isinstance(step, ReplyCompleted | UsageReported)
        else step
    )


def read_engine_state(steps: Iterable[Step]) -> str:
    """Return the engine state that is left by a turn whose steps were all recorded."""
    kept = (
        step.engine_state
        for step in steps
        if isinstance(step, EngineStateSaved | ReplyCompleted | UsageReported)
    )
    return [memory for memory in kept if memory][-1]


def sum_usage(steps: Iterable[Step]) -> Usage:
    """Return the sum of all recorded usage."""
    return sum(
        (step.usage for step in steps if isinstance(step, ReplyCompleted | UsageReported)), NO_USAGE
    )


def sum_cost(steps: Iterable[Step]) -> Decimal:
    """Return the sum of all recorded costs."""
    costs = (step.cost for step in steps if isinstance(step, ReplyCompleted | UsageReported))
    return sum((cost for cost in costs if cost), Decimal(0))


def awaits_late_output(steps: Iterable[Step]) -> bool:
    """Return whether the conversation waits for late output."""
    return bool(filter_steps(steps, AwaitLateOutput))
