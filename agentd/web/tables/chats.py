"""The rows of chats, their histories and labels; those of their queues and the keys with them."""

from typing import NamedTuple, get_args

from agentd.access.gate import Surface
from agentd.catalog.labels import Label
from agentd.chats.chat import LARGEST_ID, Status
from agentd.chats.fold import State
from agentd.errors import BadRequest, Conflict, NotFound, TooLarge, Unavailable
from agentd.web import chats as shapes
from agentd.web import history, labels
from agentd.web.chats import Chats
from agentd.web.history import Histories
from agentd.web.keys import KeyDesk
from agentd.web.labels import LabelDesk
from agentd.web.message_queue import MessageQueue
from agentd.web.parameters import ONCE
from agentd.web.remote import ChatCreatedView, CreateChat, Remote
from agentd.web.table import Parameter, Route
from agentd.web.tables import keys, message_queue

_DOOR = Surface.EXTENDED
_RULED = "4, extended surface"
_ONE = "/api/chats/{chatId}"
_LABEL = "/api/chat-labels/{name}"


def _choice(name: str, told: str, known: tuple[str, ...]) -> Parameter:
    return Parameter(name, "query", told, {"type": "string", "enum": list(known)})


def _number(name: str, told: str, least: int, most: int) -> Parameter:
    return Parameter(name, "query", told, {"type": "integer", "minimum": least, "maximum": most})


_FILTERS = (
    Parameter("label", "query", "Only chats that bear this label.", {"type": "string"}),
    _choice("status", "Only chats of this status.", get_args(Status)),
    _choice("state", "Only chats of this state.", get_args(State)),
    Parameter(
        "text",
        "query",
        "Only chats with this in their title or a message, in any case.",
        {"type": "string"},
    ),
    _number("before", "What the page before told as next.", 1, LARGEST_ID),
    _number("limit", "Chats in a page, at most.", 1, shapes.LARGEST_PAGE),
)
_PAGING = (
    _number("before", "Only messages before the one with this id.", 1, LARGEST_ID),
    _number("after", "Only messages after the one with this id.", 0, LARGEST_ID),
    _number("limit", "Messages in a page, at most.", 1, history.LARGEST_PAGE),
)
_FORMAT = _choice("format", "The kind of document.", ("markdown", "json"))


class Desks(NamedTuple):
    """Who answers these rows."""

    remote: Remote
    chats: Chats
    histories: Histories
    queue: MessageQueue
    labels: LabelDesk
    keys: KeyDesk


def rows(desks: Desks) -> tuple[Route, ...]:
    """Everything about chats beyond the remote API, and the keys."""
    return (
        _creation(desks.remote),
        *_chats(desks.chats),
        *_life(desks.chats),
        *_histories(desks.histories),
        *message_queue.rows(desks.queue),
        *_labels(desks.labels),
        *_labelled(desks.labels),
        *keys.rows(desks.keys),
    )


def _creation(remote: Remote) -> Route:
    """Endpoint 1 of the remote API, for who is signed in rather than bears a key."""
    return Route(
        "POST",
        "/api/chats",
        _DOOR,
        remote.create_chat,
        "Create a chat; a prompt in it is queued at once.",
        takes=CreateChat,
        gives=ChatCreatedView,
        status=201,
        errors=(BadRequest, Conflict, Unavailable),
        parameters=(ONCE,),
        section=_RULED,
    )


def _chats(chats: Chats) -> tuple[Route, ...]:
    return (
        Route(
            "GET",
            "/api/chats",
            _DOOR,
            chats.list_chats,
            "The chats, the newest first, in pages.",
            gives=shapes.ChatsView,
            errors=(BadRequest,),
            parameters=_FILTERS,
            section=_RULED,
        ),
        Route(
            "GET",
            _ONE,
            _DOOR,
            chats.one_chat,
            "A chat as the list has it.",
            operation="get_chat",
            gives=shapes.ChatRow,
            errors=(NotFound, Unavailable),
            section=_RULED,
        ),
        Route(
            "PUT",
            _ONE,
            _DOOR,
            chats.rename_chat,
            "Give a chat another title.",
            takes=shapes.RenameChat,
            gives=shapes.ChatRow,
            errors=(BadRequest, NotFound, Unavailable),
        ),
        Route(
            "PUT",
            f"{_ONE}/labels",
            _DOOR,
            chats.label_chat,
            "Have a chat bear these labels and no others.",
            takes=shapes.SetLabels,
            gives=shapes.ChatRow,
            errors=(BadRequest, NotFound, Unavailable),
        ),
    )


def _life(chats: Chats) -> tuple[Route, ...]:
    return (
        Route(
            "POST",
            f"{_ONE}/duplicate",
            _DOOR,
            chats.duplicate_chat,
            "Make another chat with the same settings and history, which then goes its own way.",
            takes=shapes.DuplicateChat,
            gives=shapes.ChatRow,
            status=201,
            errors=(BadRequest, NotFound, TooLarge, Unavailable),
        ),
        Route(
            "DELETE",
            _ONE,
            _DOOR,
            chats.delete_chat,
            "Put a chat into the trash; while the agent works on it, it must be stopped first.",
            gives=shapes.DeletedView,
            errors=(NotFound, Conflict, Unavailable),
        ),
        Route(
            "GET",
            "/api/chats/trash",
            _DOOR,
            chats.list_trash,
            "The chats that can be restored, the last deleted first.",
            gives=shapes.TrashView,
        ),
        Route(
            "POST",
            f"{_ONE}/restore",
            _DOOR,
            chats.restore_chat,
            "Take a chat out of the trash.",
            gives=shapes.ChatRow,
            errors=(NotFound, Unavailable),
        ),
    )


def _histories(histories: Histories) -> tuple[Route, ...]:
    return (
        Route(
            "GET",
            "/api/chat/{chatId}/messages",
            _DOOR,
            histories.page_messages,
            "Messages with all of their text, in pages: the last ones, or from one on either way.",
            gives=history.HistoryView,
            errors=(BadRequest, NotFound, Unavailable),
            parameters=_PAGING,
            section=_RULED,
        ),
        Route(
            "GET",
            f"{_ONE}/export",
            _DOOR,
            histories.export_chat,
            "A chat as a document in Markdown or JSON.",
            also=("text/markdown", "application/json"),
            errors=(BadRequest, NotFound, Unavailable),
            parameters=(_FORMAT,),
        ),
    )


def _labels(desk: LabelDesk) -> tuple[Route, ...]:
    return (
        Route(
            "GET",
            "/api/chat-labels",
            _DOOR,
            desk.list_labels,
            "The labels, in their order, and how many chats bear each.",
            gives=labels.LabelsView,
            section=_RULED,
        ),
        Route(
            "POST",
            "/api/chat-labels",
            _DOOR,
            desk.create_label,
            "Add a label at the end of the list.",
            takes=Label,
            gives=Label,
            status=201,
            errors=(BadRequest, Conflict, Unavailable),
            section=_RULED,
        ),
        Route(
            "PUT",
            _LABEL,
            _DOOR,
            desk.change_label,
            "Give a label another name, in the chats too, or another colour.",
            takes=labels.ChangeLabel,
            gives=Label,
            errors=(BadRequest, NotFound, Conflict, Unavailable),
            section=_RULED,
        ),
        Route(
            "DELETE",
            _LABEL,
            _DOOR,
            desk.delete_label,
            "Delete a label; no chat bears it any longer.",
            status=204,
            errors=(NotFound, Conflict, Unavailable),
        ),
    )


def _labelled(desk: LabelDesk) -> tuple[Route, ...]:
    return (
        Route(
            "POST",
            f"{_LABEL}/assign",
            _DOOR,
            desk.assign_label,
            "Have these chats bear a label, beside those that they bear.",
            takes=labels.LabelledChats,
            status=204,
            errors=(BadRequest, NotFound, Unavailable),
            section=_RULED,
        ),
        Route(
            "POST",
            f"{_LABEL}/unassign",
            _DOOR,
            desk.unassign_label,
            "Have these chats bear a label no longer.",
            takes=labels.LabelledChats,
            status=204,
            errors=(BadRequest, NotFound, Unavailable),
        ),
    )
