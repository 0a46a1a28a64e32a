"""The resources: chats, their messages and queues, and which of them an event changes. Pure."""

import re

from msgspec import Struct

from agentd.chats.events import (
    ApprovalUpdate,
    ChatDeletedUpdate,
    ChatStateEvent,
    ChatUpdate,
    MessageUpdate,
    QueueUpdate,
)
from agentd.chats.state import ChatSummary
from agentd.core.events import Event
from agentd.core.ids import MAX_ID
from agentd.mcp.messages import INVALID_PARAMS, RESOURCE_NOT_FOUND, JsonObject, McpError
from agentd.mcp.revisions import ClientProfile

_BASE = "agentd://chats/"
_URI = re.compile(re.escape(_BASE) + "([1-9][0-9]{0,15})(/messages|/queue)?", re.ASCII)
MIME = "application/json"


class ChatResource(Struct, frozen=True):
    """A part of a chat: ``""`` (the chat and its agent), ``/messages`` or ``/queue``."""

    chat_id: int
    part: str


PATHS = {
    "": "/api/chat/{chatId}",
    "/messages": "/api/chat/{chatId}/messages",
    "/queue": "/api/MessageQueue/{chatId}",
}
"""The route that answers with each part."""

TEMPLATES: tuple[JsonObject, ...] = (
    {
        "uriTemplate": f"{_BASE}{{chatId}}",
        "name": "chat",
        "title": "Chat",
        "description": "A chat: its status, running turn, open questions and settings.",
        "mimeType": MIME,
    },
    {
        "uriTemplate": f"{_BASE}{{chatId}}/messages",
        "name": "messages",
        "title": "Messages",
        "description": "The last messages of a chat.",
        "mimeType": MIME,
    },
    {
        "uriTemplate": f"{_BASE}{{chatId}}/queue",
        "name": "queue",
        "title": "Queue",
        "description": "The prompts of a chat that wait.",
        "mimeType": MIME,
    },
)


def parse_uri(uri: str, profile: ClientProfile) -> ChatResource:
    """Return the resource of an address; raises ``McpError`` if there is no such address."""
    found = _URI.fullmatch(uri)
    if not found or int(found[1]) > MAX_ID:
        raise make_not_found(uri, profile)
    return ChatResource(int(found[1]), found[2] or "")


def make_not_found(uri: str, profile: ClientProfile) -> McpError:
    """Return the error for a resource that does not exist, as the client's revision has it."""
    code = RESOURCE_NOT_FOUND if profile.has_session else INVALID_PARAMS
    return McpError(code, "There is no such resource", data={"uri": uri[:200]})


def describe_chat(chat: ChatSummary) -> JsonObject:
    """Return a chat as the list of resources shows it."""
    return {
        "uri": f"{_BASE}{chat.id}",
        "name": f"chat-{chat.id}",
        "title": chat.title[:200],
        "description": f"{chat.status}, {chat.messages} messages",
        "mimeType": MIME,
        "annotations": {"lastModified": chat.updated_at},
    }


def list_changed_uris(event: Event) -> tuple[str, ...]:
    """Return the addresses of the resources that an event changes."""
    match event:
        case ChatStateEvent(chat=chat):
            return (f"{_BASE}{chat.id}",)
        case MessageUpdate(chat_id=chat_id):
            return (f"{_BASE}{chat_id}/messages",)
        case QueueUpdate(chat_id=chat_id):
            return (f"{_BASE}{chat_id}/queue",)
        case ApprovalUpdate(chat_id=chat_id):
            return (f"{_BASE}{chat_id}",)
    return ()


def changes_list(event: Event) -> bool:
    """Return whether an event adds a resource to the list, or removes one."""
    if isinstance(event, ChatUpdate):
        return event.reason in ("chat.created", "chat.restored")
    return isinstance(event, ChatDeletedUpdate)
