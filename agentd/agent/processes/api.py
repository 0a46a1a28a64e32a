"""The processes in the background of a chat over HTTP: listed and stopped.

Each route is there twice: for the remote API with its keys, and beside the other routes of chats.
"""

from typing import Annotated, Protocol

from msgspec import Meta, Struct

from agentd.agent.processes.table import ProcessStatus
from agentd.chats.requests import get_chat_id
from agentd.chats.views import Id
from agentd.core.clock import Timestamp
from agentd.core.errors import NotFound
from agentd.http.access import RouteGroup
from agentd.http.request import Request, Response
from agentd.http.routing import Route


class ProcessView(Struct, frozen=True, rename="camel"):
    """A command line that the native engine runs in the background."""

    id: Id
    command: str
    started_at: Timestamp
    ended_at: Timestamp | None
    """Null while it runs."""
    running: bool
    exit_code: int | None
    """Null while it runs, and if it could not be started; negative: a signal ended it."""
    output: Annotated[str, Meta(description="The end of what it wrote, at most 16 KiB.")]


class ProcessesView(Struct, frozen=True, rename="camel"):
    """The processes of a chat, the oldest first; ended ones are listed for a while."""

    chat_id: Id
    processes: list[ProcessView]


class ChatProcesses(Protocol):
    """The processes (``agent.processes.table.ProcessTable``)."""

    def list_processes(self, chat_id: int) -> list[ProcessStatus]:
        """Return the processes of a chat."""
        ...

    async def stop_process(self, chat_id: int, number: int) -> ProcessStatus:
        """End a process with all that it started; ``NotFound``."""
        ...


class KnownChats(Protocol):
    """The chats (``chats.service.ChatService``)."""

    def get_summary(self, chat_id: int) -> object:
        """Return a chat; ``NotFound``."""
        ...


class ProcessEndpoints:
    """The endpoints below ``…/chats/{chatId}/processes``."""

    def __init__(self, chats: KnownChats, processes: ChatProcesses) -> None:
        self._chats = chats
        self._processes = processes

    async def list_processes(self, request: Request) -> Response:
        """List the processes of a chat."""
        chat_id = get_chat_id(request)
        self._chats.get_summary(chat_id)
        found = self._processes.list_processes(chat_id)
        return Response(ProcessesView(chat_id, [_make_view(one) for one in found]))

    async def stop_process(self, request: Request) -> Response:
        """End a process."""
        chat_id = get_chat_id(request)
        self._chats.get_summary(chat_id)
        number = request.get_id("processId", "Process")
        return Response(_make_view(await self._processes.stop_process(chat_id, number)))


def _make_view(one: ProcessStatus) -> ProcessView:
    return ProcessView(
        id=one.id,
        command=one.command,
        started_at=one.started_at,
        ended_at=one.ended_at or None,
        running=not one.ended_at,
        exit_code=one.code,
        output=one.output,
    )


def routes(processes: ProcessEndpoints) -> tuple[Route, ...]:
    """Return the routes of processes in the background."""
    return (
        *_list_routes(processes, RouteGroup.EXTENDED, "/api/chats/{chatId}"),
        *_list_routes(processes, RouteGroup.REMOTE, "/api/remote/chats/{chatId}"),
    )


def _list_routes(processes: ProcessEndpoints, group: RouteGroup, chat: str) -> tuple[Route, ...]:
    return (
        Route(
            "GET",
            f"{chat}/processes",
            group,
            processes.list_processes,
            "The command lines that the native engine runs in the background of a chat, with the"
            " end of their output.",
            operation_id="list_processes",
            response_type=ProcessesView,
            errors=(NotFound,),
        ),
        Route(
            "POST",
            f"{chat}/processes/{{processId}}/stop",
            group,
            processes.stop_process,
            "Stop a process in the background with all that it started.",
            operation_id="stop_process",
            response_type=ProcessView,
            errors=(NotFound,),
        ),
    )
