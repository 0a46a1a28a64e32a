"""The custom commands as the extended surface lists them."""

from collections.abc import Awaitable, Callable, Iterable
from typing import Literal

from msgspec import Struct

from agentd.agent.custom_commands.model import CustomCommand
from agentd.agent.custom_commands.store import CommandDirectory
from agentd.agent.mcp_servers.messages import ServerPrompt
from agentd.core.errors import BadRequest, ConfigProblem, NotFound
from agentd.core.ids import MAX_ID
from agentd.http.access import RouteGroup
from agentd.http.parameters import make_integer_parameter
from agentd.http.request import Request, Response
from agentd.http.routing import Route


class CommandView(Struct, frozen=True, rename="camel"):
    """A custom command: a prompt that is sent by ``/name arguments``."""

    name: str
    description: str
    argument_hint: str
    """What is typed after the name, such as ``[file]``; empty: nothing is said of it."""
    model: str
    """The model that it asks for; empty: the chat's."""
    allowed_tools: tuple[str, ...]
    """What other programs run without asking for it. Here it grants nothing."""
    source: Literal["config", "workspace", "mcp"]
    """``config``: of the daemon's configuration, for every engine; ``workspace``: of the project,
    for every engine, of which ACP agents expand those of their own folders; ``mcp``: a prompt of
    an MCP server that works for the chat now, expanded by the native engine."""
    path: str
    """Its file; empty: it has none."""


class CommandsView(Struct, frozen=True, rename="camel"):
    """All commands by name, then prompts of MCP servers, and the problems of the files."""

    commands: tuple[CommandView, ...]
    problems: tuple[ConfigProblem, ...]


class CommandEndpoints:
    """The endpoint ``/api/commands``; ``find_folder`` returns where a chat works.

    An empty folder is the workspace. ``list_prompts`` returns the prompts of MCP servers that work
    for a chat, each with its server.
    """

    def __init__(
        self,
        commands: CommandDirectory,
        find_folder: Callable[[int], Awaitable[str]],
        list_prompts: Callable[[int], Iterable[tuple[str, ServerPrompt]]],
    ) -> None:
        self._commands = commands
        self._find_folder = find_folder
        self._list_prompts = list_prompts

    async def list_commands(self, request: Request) -> Response:
        """List the commands of the configuration, of a chat's folder and of its MCP servers."""
        chat_id = request.get_int("chatId", 1, MAX_ID)
        folder = await self._find_folder(chat_id) if chat_id else ""
        found = await self._commands.get_commands(folder)
        prompts = self._list_prompts(chat_id) if chat_id else ()
        views = (*map(_make_view, found.all), *_make_prompt_views(prompts))
        return Response(CommandsView(views, found.problems))


def _make_view(command: CustomCommand) -> CommandView:
    return CommandView(
        command.name,
        command.description,
        command.argument_hint,
        command.model,
        command.allowed_tools,
        command.source,
        command.path,
    )


def _make_prompt_views(prompts: Iterable[tuple[str, ServerPrompt]]) -> Iterable[CommandView]:
    for server, prompt in sorted(prompts, key=lambda one: (one[0], one[1].name)):
        name = f"{server}:{prompt.name}"
        yield CommandView(name, prompt.description, prompt.hint, "", (), "mcp", "")


def routes(endpoints: CommandEndpoints) -> tuple[Route, ...]:
    """Return the route of commands."""
    return (
        Route(
            "GET",
            "/api/commands",
            RouteGroup.EXTENDED,
            endpoints.list_commands,
            "The custom commands that a prompt can begin with, and the problems of their files.",
            operation_id="list_commands",
            response_type=CommandsView,
            errors=(BadRequest, NotFound),
            section="4, extended surface",
            parameters=(
                make_integer_parameter(
                    "chatId", "The chat whose folder is read; without it the workspace.", 1, MAX_ID
                ),
            ),
        ),
    )
