"""The engines, built from the settings.

They are much code, so this module is imported when the first turn begins: a daemon starts sooner.
"""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

from msgspec import structs

from agentd.agent.custom_commands.expansion import CommandEngine
from agentd.agent.custom_commands.model import CustomCommand
from agentd.agent.custom_commands.store import CommandDirectory
from agentd.agent.engine import Approver, Engine, EngineEvent, TurnRequest
from agentd.agent.engines.acp.conversation import AcpConversation
from agentd.agent.engines.acp.launch import build_launch as acp_launch
from agentd.agent.engines.acp.launch import is_opencode
from agentd.agent.engines.acp.project_files import find_instruction_files, find_plugins
from agentd.agent.engines.claude_code.conversation import ClaudeConversation
from agentd.agent.engines.claude_code.launch import build_launch as claude_launch
from agentd.agent.engines.codex.conversation import CodexConversation
from agentd.agent.engines.codex.launch import build_launch as codex_launch
from agentd.agent.engines.external.common import WorkspaceBounds
from agentd.agent.engines.external.conversation import EngineConversation, ProgramLaunch
from agentd.agent.engines.external.engine import PrepareTurn, StdioEngine
from agentd.agent.engines.external.turn import TurnTimeouts
from agentd.agent.engines.native.engine import NativeEngine
from agentd.agent.engines.native.transcript_file import TranscriptFiles
from agentd.agent.engines.native.turn import TurnLimits
from agentd.agent.engines.offline.engine import OfflineEngine
from agentd.agent.folder_engine import FolderEngine
from agentd.agent.hooks.directory import HookDirectory
from agentd.agent.mcp_servers.directory import McpDirectory
from agentd.agent.mcp_servers.handover import render_for_claude, tell_failure
from agentd.agent.mcp_servers.model import ReadyServer, mark_server
from agentd.agent.processes.table import ProcessTable
from agentd.agent.suppliers import SupplierDirectory
from agentd.agent.tools.files import FolderWorkspace
from agentd.agent.tools.shell import ShellTerminal
from agentd.agent.tools.toolbox import Toolbox
from agentd.core.errors import Forbidden
from agentd.llm.upstream.client import HttpUpstream
from agentd.settings.model import Settings
from agentd.storage.layout import Layout
from agentd.system.folder import make_printable
from agentd.system.process import MARK
from agentd.workspace.git.repository import GitRepository
from agentd.workspace.uploads.named import read_named_images
from agentd.workspace.uploads.rules import FOLDER

PLUGINS_FOUND = (
    "opencode would run this project's plugins without a question: {}. Remove them or, if you trust"
    " what is in the workspace, set opencode_project: load in agentd.yml."
)


def build_engines(
    bounds: WorkspaceBounds,
    now: Callable[[], Settings],
    book: SupplierDirectory,
    upstream: HttpUpstream,
    layout: Layout,
    mcp: McpDirectory,
    commands: CommandDirectory,
    processes: ProcessTable,
    hooks: HookDirectory,
) -> dict[str, Engine]:
    """Build all engines, working within ``bounds`` or, for a chat with one, in its work tree."""
    trees: dict[str, dict[str, Engine]] = {}
    build_within = partial(
        _build_folder_engines,
        now=now,
        book=book,
        upstream=upstream,
        layout=layout,
        mcp=mcp,
        commands=commands,
        processes=processes,
        hooks=hooks,
    )

    def build_for(folder: str, name: str) -> Engine:
        if folder not in trees:
            within = bounds.move_to(folder)
            trees[folder] = build_within(within)
        return trees[folder][name]

    engines = build_within(bounds)
    return {
        name: FolderEngine(engine, partial(build_for, name=name))
        for name, engine in engines.items()
    }


def _build_folder_engines(
    bounds: WorkspaceBounds,
    now: Callable[[], Settings],
    book: SupplierDirectory,
    upstream: HttpUpstream,
    layout: Layout,
    mcp: McpDirectory,
    commands: CommandDirectory,
    processes: ProcessTable,
    hooks: HookDirectory,
) -> dict[str, Engine]:
    """Build all engines, working within ``bounds``; they follow the settings of each turn."""
    root, protected = bounds.folder, bounds.protected
    workspace = FolderWorkspace(root, protected=protected, skills=layout.skills)
    terminal = ShellTerminal(root, processes)
    tools = Toolbox(
        workspace,
        GitRepository(root, protected),
        terminal,
        open_mcp=partial(mcp.open_turn, root),
        open_hooks=partial(hooks.open_turn, root, terminal.run_hook),
        read_images=partial(read_named_images, root),
    )

    def get_limits() -> TurnLimits:
        return TurnLimits(now().turn_steps, now().turn_seconds, now().turn_cost)

    engines: dict[str, Engine] = {
        "native": NativeEngine(
            tools,
            upstream,
            book.get_access,
            book.get_prices,
            transcripts=TranscriptFiles(layout),
            limits=get_limits,
        ),
        **build_program_engines(bounds, now, book, mcp),
    }

    def find_command(given: TurnRequest, name: str) -> Awaitable[CustomCommand | None]:
        # ACP agents expand the workspace's commands themselves, each in its own way. Claude Code
        # and opencode could, but read no settings of a workspace, of which they are a part; the
        # offline engine understands no others than its own.
        is_expanded = name != "acp" or _ignores_project(given, now())
        return commands.find_called(given.prompt, root, configured_only=not is_expanded)

    expanding = {
        name: CommandEngine(
            engine, tools, partial(find_command, name=name), server_prompts=name == "native"
        )
        for name, engine in engines.items()
    }
    return {"offline": OfflineEngine(tools), **expanding}


def build_program_engines(
    bounds: WorkspaceBounds,
    now: Callable[[], Settings],
    book: SupplierDirectory,
    mcp: McpDirectory | None = None,
) -> dict[str, StdioEngine]:
    """Return the engines that are programs of their own, by name; ``mcp`` has their servers."""
    programs = _ProgramEngines(bounds, now, book, mcp)
    return {
        "codex": programs.build_engine(
            "codex", programs.prepare_codex, "Install it, then run: codex login"
        ),
        "claude-code": programs.build_engine(
            "claude-code", programs.prepare_claude, "Install it, then run: claude, and sign in."
        ),
        "acp": programs.build_engine(
            "acp", programs.prepare_acp, "Name an ACP agent: acp_command, or a model's."
        ),
    }


class _ProgramEngines:
    """Engines that are programs: how each is started and spoken with."""

    def __init__(
        self,
        bounds: WorkspaceBounds,
        now: Callable[[], Settings],
        book: SupplierDirectory,
        mcp: McpDirectory | None,
    ) -> None:
        self._mcp = mcp
        self._now = now
        self._book = book
        self._bounds = bounds

    def build_engine(self, name: str, make: PrepareTurn, advice: str) -> StdioEngine:
        """Build an engine; ``advice`` says what to do if its program is missing."""

        def get_timeouts() -> TurnTimeouts:
            return TurnTimeouts(silence=self._now().silence_seconds)

        async def ask_about_servers(given: TurnRequest, approver: Approver) -> list[EngineEvent]:
            if self._mcp is None:
                return []
            folder, chat = self._bounds.folder, given.chat_id
            _, failures = await self._mcp.list_servers(name, folder, chat, approver)
            return [tell_failure(*failure) for failure in failures]

        return StdioEngine(
            name,
            self._bounds.folder,
            make,
            install_hint=advice,
            timeouts=get_timeouts,
            ask_first=ask_about_servers,
        )

    async def _list_servers(self, engine: str, given: TurnRequest) -> tuple[ReadyServer, ...]:
        if self._mcp is None:
            return ()
        servers, _ = await self._mcp.list_servers(engine, self._bounds.folder, given.chat_id)
        # Codex starts them without its own variables, and so without the turn's mark.
        return tuple(mark_server(server, {MARK: given.turn_tag}) for server in servers)

    async def _attach_images(self, given: TurnRequest) -> TurnRequest:
        """Return the request with the uploaded images that its prompt names.

        A prompt that is sent again after a limit has them in the program's session.
        """
        is_known = given.is_retry and not given.is_delivery_uncertain and given.engine_state
        if f"{FOLDER}/" not in given.prompt or is_known or not given.shows_images:
            return given
        images = await asyncio.to_thread(read_named_images, self._bounds.folder, given.prompt)
        return structs.replace(given, images=images)

    async def prepare_codex(self, given: TurnRequest) -> tuple[ProgramLaunch, EngineConversation]:
        """Prepare a turn of Codex, by its app server."""
        given = await self._attach_images(given)
        endpoint = await self._book.get_endpoint(given.supplier)
        command = self._now().codex_command
        servers = await self._list_servers("codex", given)
        launched = structs.replace(codex_launch(given, command, endpoint), mcp_servers=servers)
        return launched, CodexConversation(given, self._bounds, servers)

    async def prepare_claude(self, given: TurnRequest) -> tuple[ProgramLaunch, EngineConversation]:
        """Prepare a turn of Claude Code, by its stream of JSON."""
        given = await self._attach_images(given)
        endpoint = await self._book.get_endpoint(given.supplier)
        servers = await self._list_servers("claude-code", given)
        command, config = self._now().claude_command, render_for_claude(servers)
        launched = claude_launch(given, command, endpoint, config)
        launched = structs.replace(launched, mcp_servers=servers)
        return launched, ClaudeConversation(given, self._bounds, launched, servers)

    async def prepare_acp(self, given: TurnRequest) -> tuple[ProgramLaunch, EngineConversation]:
        """Prepare a turn of any agent that speaks the Agent Client Protocol."""
        given = await self._attach_images(given)
        endpoint = await self._book.get_endpoint(given.supplier)
        command = self._now().acp_command
        prices = self._book.get_prices(given.supplier, given.model)
        servers = await self._list_servers("acp", given)
        instructions = None
        if _ignores_project(given, self._now()):
            instructions = await asyncio.to_thread(self._read_project)
        launched = acp_launch(given, command, endpoint, prices, instructions)
        launched = structs.replace(launched, mcp_servers=servers)
        return launched, AcpConversation(given, self._bounds, servers)

    def _read_project(self) -> tuple[str, ...]:
        """Return the project's instructions for opencode; ``Forbidden`` if it has plugins."""
        if plugins := find_plugins(self._bounds.folder):
            raise Forbidden(PLUGINS_FOUND.format(", ".join(map(make_printable, plugins[:5]))))
        return find_instruction_files(self._bounds)


def _ignores_project(given: TurnRequest, settings: Settings) -> bool:
    command = given.command or settings.acp_command
    return is_opencode(command) and settings.opencode_project == "ignore"
