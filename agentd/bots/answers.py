"""What a bot says of a chat, in Markdown. Pure."""

import re
from collections.abc import Sequence

from agentd.chats.approval import Approval
from agentd.chats.fold import Chat

MOST_PROMPTS = 20
"""Of a queue that are shown."""
MOST_MODELS = 60
LONGEST_LINE = 120

_DOING = {"processing": "the agent is working", "queued": "waiting", "completed": "at rest"}


def status(chat: Chat) -> str:
    """How a chat stands."""
    seen = chat.summary()
    lines = [
        f"**Chat {chat.id}** {literal(line_of(chat.title))}",
        f"{_DOING[seen.status]}; {seen.messages} messages, {seen.cost:.4f} USD",
    ]
    if chat.model:
        lines.append(f"model: {literal(chat.model)}")
    if seen.waiting:
        lines.append(f"{seen.waiting} in the queue")
    if seen.held:
        lines.append(f"held: {literal(line_of(seen.held))}")
    if chat.agent.wait:
        lines.append(f"waits until {seen.waits_until}: {literal(line_of(chat.agent.wait.reason))}")
    if seen.asking:
        lines.append(f"{seen.asking} open questions: /approve or /deny")
    if seen.damage:
        lines.append("it is damaged and can only be read")
    return "\n".join(lines)


def queue(chat: Chat) -> str:
    """What waits in a chat."""
    if not chat.queue:
        return "The queue is empty."
    lines = [
        f"{place}. {'(paused) ' if prompt.paused else ''}{literal(line_of(prompt.text))}"
        for place, prompt in enumerate(chat.queue[:MOST_PROMPTS], 1)
    ]
    if len(chat.queue) > MOST_PROMPTS:
        lines.append(f"… and {len(chat.queue) - MOST_PROMPTS} more")
    return "\n".join(lines)


def models(names: Sequence[str], chosen: str) -> str:
    """Which models there are, and which one a chat has."""
    lines = [f"This chat: {literal(chosen)}" if chosen else "This chat: the default"]
    lines += [f"• {literal(name)}" for name in names[:MOST_MODELS]]
    return "\n".join([*lines, "Choose with /model NAME"])


def question(asked: Approval) -> str:
    """What the agent asks, whole: nobody is to allow what he has not seen."""
    lines = [f"**May the agent do this?** ({literal(asked.tool)}, {asked.kind})"]
    fence = "`" * (longest_ticks(asked.subject) + 3)
    lines += [fence, asked.subject, fence]
    if asked.reason:
        lines.append(literal(line_of(asked.reason)))
    return "\n".join(lines)


def title(prompt: str) -> str:
    """What a chat is called that begins with this prompt."""
    return line_of(prompt, 60)


def line_of(text: str, length: int = LONGEST_LINE) -> str:
    """The text on one line, cut."""
    line = " ".join(text[: length * 10].split())
    return line if len(line) <= length else f"{line[: length - 1]}…"


def literal(text: str) -> str:
    """A text in which nothing is taken for Markdown."""
    return re.sub(r"([\\`*_~\[\]()#+\-.!>|{}])", r"\\\1", text)


def longest_ticks(text: str) -> int:
    """The most backticks in a row."""
    return max((len(run) for run in re.findall("`+", text)), default=0)
