"""Renders the state of a chat as Markdown for a messenger. Pure."""

import re
from collections.abc import Sequence

from agentd.chats.approval import Approval, ApprovalKind
from agentd.chats.state import Chat
from agentd.core.redaction import escape_lines
from agentd.models.program_state import ProgramMode

MOST_PROMPTS = 20
"""The most prompts of a queue that are shown."""
MOST_MODELS = 60
LONGEST_LINE = 120

_DOING = {"processing": "the agent is working", "queued": "waiting", "completed": "at rest"}


def render_status(chat: Chat) -> str:
    """Render the state of a chat."""
    seen = chat.summarize()
    lines = [
        f"**Chat {chat.id}** {escape_markdown(to_line(chat.title))}",
        f"{_DOING[seen.status]}; {seen.messages} messages, {seen.cost:.4f} USD",
    ]
    if chat.model:
        lines.append(f"model: {escape_markdown(chat.model)}")
    if chat.mode:
        lines.append(f"mode: {escape_markdown(chat.mode)}")
    if seen.waiting:
        lines.append(f"{seen.waiting} in the queue")
    if seen.held:
        lines.append(f"held: {escape_markdown(to_line(seen.held))}")
    if chat.agent.wait:
        lines.append(
            f"waits until {seen.waits_until}: {escape_markdown(to_line(chat.agent.wait.reason))}"
        )
    if seen.asking:
        lines.append(f"{seen.asking} open questions: /approve, /deny or /answer TEXT")
    if seen.damage:
        lines.append("its history is damaged: it can only be read")
    return "\n".join(lines)


def render_queue(chat: Chat) -> str:
    """Render the waiting prompts of a chat."""
    if not chat.queue:
        return "The queue is empty."
    lines = [
        f"{place}. {'(paused) ' if prompt.paused else ''}{escape_markdown(to_line(prompt.text))}"
        for place, prompt in enumerate(chat.queue[:MOST_PROMPTS], 1)
    ]
    if len(chat.queue) > MOST_PROMPTS:
        lines.append(f"… and {len(chat.queue) - MOST_PROMPTS} more")
    return "\n".join(lines)


def render_models(names: Sequence[str], chosen: str) -> str:
    """Render the models, and which one a chat has."""
    lines = [f"This chat: {escape_markdown(chosen)}" if chosen else "This chat: the default"]
    lines += [f"• {escape_markdown(name)}" for name in names[:MOST_MODELS]]
    return "\n".join([*lines, "Choose with /model NAME"])


def render_modes(modes: Sequence[ProgramMode], chosen: str) -> str:
    """Render the modes of a chat's program, and which one the chat has."""
    lines = [f"This chat: {escape_markdown(chosen)}" if chosen else "This chat: the usual mode"]
    if not modes:
        return "\n".join([*lines, "Its program is not known to have others."])
    for one in modes:
        text = escape_markdown(to_line(one.description or one.name))
        lines.append(f"• {escape_markdown(one.id)}: {text}")
    return "\n".join([*lines, "Choose with /mode NAME, or go back with /mode off"])


def render_approval(asked: Approval) -> str:
    """Render an approval in full, control characters escaped: people see what they allow."""
    if asked.kind == "question":
        text = escape_markdown(escape_lines(asked.subject))
        return f"**The agent asks you**\n{text}\nAnswer with: /answer TEXT"
    lines = [f"**May the agent do this?** ({escape_markdown(asked.tool)}, {asked.kind})"]
    fence = "`" * (count_longest_backticks(asked.subject) + 3)
    lines += [fence, escape_lines(asked.subject), fence]
    if asked.reason:
        lines.append(escape_markdown(to_line(asked.reason)))
    return "\n".join(lines)


def render_verdict(kind: ApprovalKind, *, allowed: bool) -> str:
    """Render what was decided about a question."""
    if kind == "question":
        return "Answered." if allowed else "Left unanswered."
    return "Allowed." if allowed else "Denied."


def make_title(prompt: str) -> str:
    """Return the title of a chat that begins with this prompt."""
    return to_line(prompt, 60)


def to_line(text: str, length: int = LONGEST_LINE) -> str:
    """Return the text on one line, shortened."""
    line = " ".join(text[: length * 10].split())
    return line if len(line) <= length else f"{line[: length - 1]}…"


def escape_markdown(text: str) -> str:
    """Escape everything that Markdown would interpret."""
    return re.sub(r"([\\`*_~\[\]()#+\-.!>|{}])", r"\\\1", text)


def count_longest_backticks(text: str) -> int:
    """Return the longest run of backticks."""
    return max((len(run) for run in re.findall("`+", text)), default=0)
