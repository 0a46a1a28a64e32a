"""Every address of the daemon, in one table.

Dispatch, ``GET /api/openapi.json`` and the tests read these rows; nothing is reachable that is
not here. ``E1`` to ``E9`` are the endpoints of the remote-control specification, section 4.
"""

from collections.abc import Iterable
from itertools import chain

from agentd.access.gate import Surface
from agentd.errors import (
    BadRequest,
    Conflict,
    Forbidden,
    LimitReached,
    MethodNotAllowed,
    NotFound,
    PreconditionFailed,
    Unavailable,
)
from agentd.web import agent as at_work
from agentd.web import remote as shapes
from agentd.web import views
from agentd.web.agent import AgentAtWork
from agentd.web.event_stream import EventStream
from agentd.web.hub import Hub
from agentd.web.parameters import (
    API_KEY,
    CHATS,
    CONNECTION,
    IF_MATCH,
    LAST_EVENT,
    ONCE,
    SINCE,
    SINCE_MARK,
    WAIT,
)
from agentd.web.remote import Remote
from agentd.web.session import Sessions
from agentd.web.system import Health, System
from agentd.web.table import DOCUMENT, HUB, Route, Table
from agentd.web.tables import description, login
from agentd.web.users import Users

CHAT = "/api/remote/chats/{chatId}"


def table(
    remote: Remote,
    agent: AgentAtWork,
    sessions: Sessions,
    users: Users,
    hub: Hub,
    stream: EventStream,
    system: System,
    *more: Iterable[Route],
) -> Table:
    """All rows, with the objects that answer them; ``more`` have theirs already."""
    return Table(
        (
            *_remote(remote),
            *_agent(agent),
            *login.rows(sessions, users),
            *_live(hub, stream),
            *_system(system),
            *description.rows(system),
            *chain(*more),
        )
    )


def _remote(remote: Remote) -> tuple[Route, ...]:
    door = Surface.REMOTE
    return (
        Route(
            "POST",
            "/api/remote/chats",
            door,
            remote.create_chat,
            "Create a chat; its prompt, if any, is queued and processed by itself.",
            takes=shapes.CreateChat,
            gives=shapes.ChatCreatedView,
            status=201,
            errors=(BadRequest, Conflict),
            parameters=(ONCE,),
            section="4, E1",
        ),
        Route(
            "GET",
            f"{CHAT}/status",
            door,
            remote.status,
            "A chat's status: processing, queued or completed.",
            operation="get_status",
            gives=views.StatusView,
            errors=(BadRequest, NotFound),
            parameters=(WAIT,),
            section="4, E2",
        ),
        Route(
            "GET",
            f"{CHAT}/messages",
            door,
            remote.messages,
            "The messages of a chat, all or since a moment.",
            operation="list_messages",
            gives=shapes.MessagesView,
            errors=(NotFound,),
            parameters=(SINCE,),
            section="4, E3",
        ),
        Route(
            "GET",
            f"{CHAT}/queue",
            door,
            remote.queue,
            "The prompts that wait, in dispatch order, paused ones included.",
            operation="list_queue",
            gives=shapes.QueueView,
            errors=(NotFound,),
            section="4, E4",
        ),
        Route(
            "POST",
            f"{CHAT}/queue",
            door,
            remote.append,
            "Append a prompt to the queue.",
            operation="append_prompt",
            takes=shapes.AppendPrompt,
            gives=views.PromptView,
            status=201,
            errors=(BadRequest, NotFound, Conflict),
            parameters=(ONCE,),
            section="4, E5",
        ),
        Route(
            "PUT",
            f"{CHAT}/queue/{{promptId}}",
            door,
            remote.rewrite,
            "Rewrite the text of a prompt that waits.",
            operation="rewrite_prompt",
            takes=shapes.RewritePrompt,
            gives=views.PromptView,
            errors=(BadRequest, NotFound),
            section="4, E6",
        ),
        Route(
            "DELETE",
            f"{CHAT}/queue/{{promptId}}",
            door,
            remote.remove,
            "Delete a prompt that waits.",
            operation="delete_prompt",
            status=204,
            errors=(NotFound,),
            section="4, E7",
        ),
        Route(
            "PUT",
            f"{CHAT}/queue",
            door,
            remote.replace,
            "Replace the whole queue; the array's order becomes the dispatch order.",
            operation="replace_queue",
            takes=shapes.ReplaceQueue,
            gives=shapes.QueueView,
            errors=(BadRequest, NotFound, PreconditionFailed),
            parameters=(IF_MATCH,),
            section="4, E8",
        ),
        Route(
            "GET",
            "/api/remote/bots",
            door,
            remote.bots,
            "The configured bots, read-only.",
            operation="list_bots",
            gives=shapes.BotsView,
            section="4, E9",
        ),
    )


def _agent(agent: AgentAtWork) -> tuple[Route, ...]:
    door = Surface.EXTENDED
    return (
        Route(
            "GET",
            "/api/chat/{chatId}",
            door,
            agent.chat,
            "A chat, what the agent does on it, and what keeps its queue from going on.",
            operation="get_chat_work",
            gives=at_work.AgentView,
            errors=(NotFound,),
            section="4, extended surface",
        ),
        Route(
            "PUT",
            "/api/chat/{chatId}/settings",
            door,
            agent.change,
            "Choose another model, skill, system prompt or way to decide questions.",
            operation="change_chat_settings",
            takes=at_work.ChangeSettings,
            gives=at_work.ChatSettingsView,
            errors=(BadRequest, NotFound),
            section="4, extended surface",
        ),
        Route(
            "POST",
            "/api/chat/{chatId}/stop",
            door,
            agent.stop,
            "End the running turn with all that it started, and hold the queue.",
            operation="stop_chat",
            gives=at_work.StoppedView,
            errors=(NotFound,),
            section="4, extended surface",
        ),
        Route(
            "GET",
            "/api/chat/approvals",
            door,
            agent.all_questions,
            "The open questions of all chats.",
            operation="list_all_approvals",
            gives=at_work.ApprovalsView,
            section="4, extended surface",
        ),
        Route(
            "GET",
            "/api/chat/{chatId}/approvals",
            door,
            agent.questions,
            "The open questions of a chat.",
            operation="list_approvals",
            gives=at_work.ApprovalsView,
            errors=(NotFound,),
            section="4, extended surface",
        ),
        Route(
            "POST",
            "/api/chat/{chatId}/approvals/{approvalId}",
            door,
            agent.decide,
            "Answer a question of the agent.",
            operation="decide_approval",
            takes=at_work.Decide,
            gives=views.ApprovalView,
            errors=(BadRequest, NotFound),
            section="4, extended surface",
        ),
        Route(
            "POST",
            "/api/MessageQueue/{chatId}/hold",
            door,
            agent.hold,
            "Let nothing leave the queue until it is released.",
            operation="hold_queue",
            takes=at_work.HoldQueue,
            gives=at_work.HeldView,
            errors=(BadRequest, NotFound),
            section="4, extended surface",
        ),
        Route(
            "POST",
            "/api/MessageQueue/{chatId}/release",
            door,
            agent.release,
            "Let the queue go on, whatever held it.",
            operation="release_queue",
            gives=at_work.HeldView,
            errors=(NotFound,),
            section="4, extended surface",
        ),
    )


def _live(hub: Hub, stream: EventStream) -> tuple[Route, ...]:
    door = Surface.LIVE
    busy = (Forbidden, LimitReached, Unavailable)
    return (
        Route(
            "POST",
            f"{HUB}/negotiate",
            door,
            hub.negotiate,
            "Negotiate a SignalR connection.",
            operation="negotiate_hub",
            also=("application/json",),
            errors=busy,
            parameters=(API_KEY,),
            section="6",
        ),
        Route(
            "OPTIONS",
            f"{HUB}/negotiate",
            Surface.PUBLIC,
            hub.options,
            "A preflight.",
            operation="preflight_negotiation",
            status=204,
        ),
        Route(
            "GET",
            HUB,
            door,
            hub.get,
            "A WebSocket, a stream of server-sent events, or one long poll of the SignalR hub.",
            operation="open_hub",
            also=("text/event-stream", "text/plain"),
            errors=(*busy, BadRequest, NotFound, Conflict),
            parameters=(API_KEY, CONNECTION),
            section="6",
        ),
        Route(
            "POST",
            HUB,
            door,
            hub.post,
            "What a client says that listens to a stream or polls.",
            operation="send_to_hub",
            also=("text/plain",),
            errors=(BadRequest, NotFound, MethodNotAllowed),
            parameters=(API_KEY, CONNECTION),
            section="6",
        ),
        Route(
            "DELETE",
            HUB,
            door,
            hub.delete,
            "A client that polls leaves.",
            operation="leave_hub",
            also=("text/plain",),
            status=202,
            errors=(BadRequest, NotFound),
            parameters=(API_KEY, CONNECTION),
            section="6",
        ),
        Route(
            "OPTIONS",
            HUB,
            Surface.PUBLIC,
            hub.options,
            "A preflight.",
            operation="preflight_hub",
            status=204,
        ),
        Route(
            "GET",
            "/api/events",
            Surface.EXTENDED,
            stream.events,
            "The live events as server-sent events; what was missed comes first.",
            operation="stream_events",
            also=("text/event-stream",),
            errors=(*busy, BadRequest),
            parameters=(LAST_EVENT, SINCE_MARK, CHATS),
            section="6",
        ),
    )


def _system(system: System) -> tuple[Route, ...]:
    return (
        Route(
            "GET",
            "/healthz",
            Surface.PUBLIC,
            system.health,
            "Says that it is up.",
            operation="check_health",
            gives=Health,
        ),
        Route(
            "GET",
            "/metrics",
            Surface.OPEN,
            system.metrics,
            "Counters and gauges in the text format of Prometheus; from loopback, or with a key.",
            operation="read_metrics",
            also=("text/plain",),
        ),
        Route(
            "GET",
            "/api/openapi.json",
            Surface.OPEN,
            system.openapi,
            "This description of every address, as OpenAPI 3.1.",
            operation="get_openapi",
            tells=DOCUMENT,
        ),
    )
