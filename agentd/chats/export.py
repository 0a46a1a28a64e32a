"""A chat as a document that a person reads: Markdown, part by part."""

import re

from agentd.chats.chat import Message
from agentd.chats.fold import Chat

_FENCE = re.compile("`{3,}")
_HEADS = {"user": "User", "assistant": "Assistant", "error": "Error"}


def head(chat: Chat) -> str:
    """The title, and what is to be known of the chat."""
    facts = [f"Chat {chat.id}", f"created {chat.created_at}", f"{chat.messages} messages"]
    facts += [f"model {chat.model}"] if chat.model else []
    facts += [f"skill {chat.skill}"] if chat.skill != "none" else []
    facts += [f"labels {', '.join(chat.labels)}"] if chat.labels else []
    facts += [f"cost {chat.cost} USD"] if chat.cost else []
    return f"# {' '.join(chat.title.split())}\n\n{' · '.join(facts)}\n"


def part(message: Message) -> str:
    """One message, whole. What a tool said stands in a fence that nothing in it can close."""
    text = message.text.rstrip()
    name = _HEADS.get(message.role) or f"Tool: {message.tool}"
    if message.role == "tool":
        fence = "`" * (max(map(len, _FENCE.findall(text)), default=2) + 1)
        text = f"{fence}\n{text}\n{fence}"
    return f"\n## {name} · {message.at}\n\n{text}\n"
