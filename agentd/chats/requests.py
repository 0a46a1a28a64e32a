"""Parameters that requests about chats share: ids in the path, and the expected queue version."""

import re

from agentd.core.errors import PreconditionFailed
from agentd.http.request import Request


def get_chat_id(request: Request) -> int:
    """Return the chat's id from the path; ``NotFound`` when it cannot be one."""
    return request.get_id("chatId", "Chat")


def get_prompt_id(request: Request) -> int:
    """Return the prompt's id from the path; ``NotFound`` when it cannot be one."""
    return request.get_id("promptId", "Prompt")


def get_queue_version(request: Request) -> int | None:
    """Return the queue version in ``If-Match``; None when any will do.

    Raises ``PreconditionFailed`` when it is not the ``ETag`` of a queue.
    """
    if_match = request.headers.get("If-Match")
    if if_match is None or if_match.strip() == "*":
        return None
    tag = re.fullmatch(r'\s*"([0-9]{1,16})"\s*', if_match)
    if not tag:
        raise PreconditionFailed("If-Match is not an ETag of this queue", "Read the queue again.")
    return int(tag[1])
