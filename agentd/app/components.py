"""Builds the daemon's components in the order in which they start, and collects their routes."""

import asyncio
import contextlib
from collections.abc import Mapping
from itertools import chain
from typing import Any

from msgspec import Struct

from agentd.agent import api as agent_api
from agentd.agent.api import AgentEndpoints
from agentd.agent.custom_commands import api as commands_api
from agentd.agent.custom_commands.api import CommandEndpoints
from agentd.agent.engine import Engine
from agentd.agent.hooks import api as hooks_api
from agentd.agent.hooks.api import HookEndpoints
from agentd.agent.hooks.events import HooksUpdate
from agentd.app import about_api, setup_api
from agentd.app.about_api import AboutEndpoints
from agentd.app.admin import AdminComponent
from agentd.app.agent import Agent, EngineComponent
from agentd.app.alerts import AlertsComponent
from agentd.app.analytics_speech import AnalyticsSpeechComponent
from agentd.app.auth import AuthServices, report_problems
from agentd.app.bots import BotsComponent, build_bot_services
from agentd.app.chats import ChatsComponent
from agentd.app.config_files import ConfigFiles
from agentd.app.export import ExportComponent
from agentd.app.gateway import ModelGateway
from agentd.app.jobs import JobsComponent
from agentd.app.mcp_servers import McpServersComponent
from agentd.app.processes import ProcessesComponent
from agentd.app.push import PushComponent
from agentd.app.schedules import SchedulesComponent
from agentd.app.setup_api import SetupEndpoints
from agentd.app.state import State, open_state
from agentd.app.workspace import WorkspaceComponent
from agentd.app.worktrees import WorktreesComponent
from agentd.bots.api import RemoteBotEndpoints, list_remote_routes
from agentd.chats import remote_api
from agentd.chats.remote_api import RemoteEndpoints
from agentd.chats.repository import ChatRepository
from agentd.chats.service import ChatService
from agentd.chats.store import ChatFiles
from agentd.chats.turns import TurnRecorder
from agentd.core.clock import SystemClock
from agentd.core.events import EventBus
from agentd.http.routing import Route
from agentd.models.program_state import ProgramStates
from agentd.settings.model import Settings
from agentd.settings.sources import Overrides
from agentd.storage.journal import GroupCommitter
from agentd.storage.layout import Layout
from agentd.storage.settled_clock import SettledClock
from agentd.storage.watched_file import WatchedFile
from agentd.ui import pages, preferences_api, qr_api, rendering, start_api
from agentd.ui.assets import load_assets
from agentd.ui.pages import PageEndpoints
from agentd.ui.preference_store import PreferenceFiles
from agentd.ui.preferences_api import PreferenceEndpoints
from agentd.ui.start_api import StartEndpoints


class Core(Struct):
    """The base of all components: the state folder, the chats, and the edited settings."""

    settings: Settings
    """The settings at the start."""
    layout: Layout
    environ: Mapping[str, str]
    state: State
    clock: SystemClock
    settled: SettledClock
    """The time by which things are destroyed for their age."""
    bus: EventBus
    committer: GroupCommitter
    repository: ChatRepository
    chats: ChatService
    turns: TurnRecorder
    config_files: ConfigFiles


class Components(Struct):
    """The parts of the daemon, each running."""

    mcp_servers: McpServersComponent
    processes: ProcessesComponent
    engines: EngineComponent
    agent: Agent
    jobs: JobsComponent
    analytics_speech: AnalyticsSpeechComponent
    worktrees: WorktreesComponent
    workspace: WorkspaceComponent
    bots: BotsComponent
    remote: RemoteEndpoints
    chats: ChatsComponent
    gateway: ModelGateway
    export: ExportComponent
    alerts: AlertsComponent
    management: AdminComponent
    push: PushComponent
    schedules: SchedulesComponent

    @property
    def edited_files(self) -> tuple[WatchedFile[Any], ...]:
        """The hand-edited files whose problems the settings show."""
        return (
            self.chats.labels,
            self.schedules.file,
            self.analytics_speech.speech,
            self.bots.file,
            self.mcp_servers.file,
            self.engines.hooks.file,
            *self.jobs.files,
            *self.gateway.files,
            self.alerts.file,
        )


async def open_core(
    stack: contextlib.AsyncExitStack,
    settings: Settings,
    layout: Layout,
    environ: Mapping[str, str],
    outside: Overrides | None,
) -> Core:
    """Lock the state folder, read the chats and close turns that a crash left open."""
    state = await asyncio.to_thread(open_state, layout)
    stack.push_async_callback(asyncio.to_thread, state.release)
    clock, bus = SystemClock(), EventBus()
    settled = SettledClock(layout.clock, clock)
    await asyncio.to_thread(settled.load)
    stack.push_async_callback(settled.save)
    committer = GroupCommitter(layout, state.sequences)
    files = ChatFiles(layout, state.sequences, committer)
    repository = ChatRepository(files, clock, state.sequences, bus, state.chats)
    chats, turns = ChatService(repository), TurnRecorder(repository)
    stack.push_async_callback(_flush_and_close, state, chats, committer, files)
    await turns.end_interrupted(again=settings.on_interrupted == "retry")
    config_files = await stack.enter_async_context(ConfigFiles(settings, layout, outside, bus))
    return Core(
        settings,
        layout,
        environ,
        state,
        clock,
        settled,
        bus,
        committer,
        repository,
        chats,
        turns,
        config_files,
    )


async def start_components(
    stack: contextlib.AsyncExitStack, core: Core, auth: AuthServices, engine: Engine | None
) -> Components:
    """Start all components; the ``stack`` stops them. ``engine`` replaces all engines."""
    layout, environ, clock, bus = core.layout, core.environ, core.clock, core.bus
    chats, config_files, generation = core.chats, core.config_files, core.state.generation
    models, skills, start = config_files.models, config_files.skills, stack.enter_async_context

    folder = core.settings.workspace
    mcp_servers = await start(_build_mcp_servers(core))
    processes = await start(ProcessesComponent(chats, clock, bus))
    engines = await _start_engines(stack, core, mcp_servers, processes, engine)
    worktrees = await start(_build_worktrees(core))
    agent = engines.build_agent(chats, core.turns, clock, bus, worktrees.service)
    config_files.subscribe(lambda _: agent.dispatcher.on_settings_changed())
    jobs = await start(JobsComponent(core.settings, layout, chats, clock, bus, generation))
    analytics_speech = await start(
        AnalyticsSpeechComponent(
            layout, environ, chats.list_summaries, models, clock, bus, generation
        )
    )
    workspace = await start(
        WorkspaceComponent(folder, layout, generation, clock, bus, worktrees.service.open_copy)
    )
    bots = await start(_build_bots(core, agent, workspace, analytics_speech))
    remote = RemoteEndpoints(chats, bots.get_bots, skills, worktrees.service, agent.engines)
    chats_component = await start(
        ChatsComponent(
            core.repository, chats, auth.keys, remote, layout, bus, worktrees.service, core.settled
        )
    )
    gateway, export, alerts, management = await _start_gateway(stack, core, auth, bots)
    return Components(
        mcp_servers=mcp_servers,
        processes=processes,
        engines=engines,
        agent=agent,
        jobs=jobs,
        analytics_speech=analytics_speech,
        worktrees=worktrees,
        workspace=workspace,
        bots=bots,
        remote=remote,
        chats=chats_component,
        gateway=gateway,
        export=export,
        alerts=alerts,
        management=management,
        push=await start(PushComponent(layout, auth, chats.get_summary, clock, bus)),
        schedules=await start(_build_schedules(core, worktrees, agent)),
    )


async def _start_engines(
    stack: contextlib.AsyncExitStack,
    core: Core,
    mcp_servers: McpServersComponent,
    processes: ProcessesComponent,
    engine: Engine | None,
) -> EngineComponent:
    engines = EngineComponent(
        core.config_files,
        core.layout,
        core.environ,
        mcp_servers.directory,
        processes.table,
        engine,
        lambda: core.bus.publish(HooksUpdate()),
    )
    await engines.start(core.state.generation)
    stack.push_async_callback(engines.stop)
    return engines


async def _start_gateway(
    stack: contextlib.AsyncExitStack, core: Core, auth: AuthServices, bots: BotsComponent
) -> tuple[ModelGateway, ExportComponent, AlertsComponent, AdminComponent]:
    """Start the model gateway, and what exports, watches and manages it."""
    layout, environ, clock, bus = core.layout, core.environ, core.clock, core.bus
    models, generation, start = (
        core.config_files.models,
        core.state.generation,
        stack.enter_async_context,
    )
    gateway = await start(
        ModelGateway(
            layout,
            environ,
            clock,
            auth.access,
            lambda: models.current,
            generation,
            bus,
            core.settled,
        )
    )
    export = await start(
        ExportComponent(layout, environ, clock, lambda: gateway.settings.current, gateway.log)
    )
    alerts = await start(
        AlertsComponent(layout, environ, clock, bus, gateway, auth.access, export.exporter, bots)
    )
    management = AdminComponent(
        layout,
        clock,
        gateway,
        auth.access,
        auth.management_keys,
        core.config_files,
        alerts,
        core.settled,
    )
    return gateway, export, alerts, await start(management)


def _build_mcp_servers(core: Core) -> McpServersComponent:
    return McpServersComponent(
        core.layout,
        core.environ,
        core.state.generation,
        core.settings.workspace,
        core.bus,
        core.chats.get_summary,
    )


def _build_schedules(core: Core, worktrees: WorktreesComponent, agent: Agent) -> SchedulesComponent:
    planner, abilities = worktrees.service, agent.engines
    return SchedulesComponent(
        core.layout, core.chats, core.config_files, planner, abilities, core.clock, core.bus
    )


def _build_bots(
    core: Core, agent: Agent, workspace: WorkspaceComponent, speech: AnalyticsSpeechComponent
) -> BotsComponent:
    services = build_bot_services(
        core.config_files, core.chats, agent, core.clock, core.bus, workspace, speech
    )
    bots = BotsComponent(core.layout, core.environ, services)
    core.repository.on_removed.append(bots.forget_chat)
    return bots


def _build_worktrees(core: Core) -> WorktreesComponent:
    settings, generation = core.config_files.settings, core.state.generation
    folder = core.settings.workspace
    return WorktreesComponent(
        folder, core.layout, core.repository, generation, lambda: settings.current
    )


async def collect_routes(
    core: Core, auth: AuthServices, components: Components
) -> tuple[Route, ...]:
    """Return the routes of all components; those of the server itself come in front of them.

    Those that are deferred (``deferred_routes``) come after them.
    """
    layout, chats, agent = core.layout, core.chats, components.agent
    config_files = core.config_files
    agent_endpoints = AgentEndpoints(
        chats,
        agent.dispatcher,
        agent.approvals,
        config_files.skills,
        components.worktrees.service,
        agent.engines,
    )
    parts = (
        *(components.jobs, components.analytics_speech, components.workspace, components.chats),
        *(components.worktrees, components.bots, components.gateway, components.push),
        *(components.schedules, components.mcp_servers, components.processes),
    )
    problems = report_problems(layout, auth, *components.edited_files)
    routes = (
        *remote_api.routes(components.remote),
        *list_remote_routes(RemoteBotEndpoints(components.bots.get_bots)),
        *agent_api.routes(agent_endpoints),
        *commands_api.routes(
            CommandEndpoints(
                components.engines.commands,
                components.worktrees.service.find_folder,
                components.mcp_servers.directory.list_prompts,
            )
        ),
        *hooks_api.routes(HookEndpoints(components.engines.hooks, core.settings.workspace)),
        *chain.from_iterable(part.rows for part in parts),
        *config_files.build_routes(chats, agent.find_problem, agent.programs, problems),
        *_build_setup_routes(core),
        *rendering.routes(),
        *qr_api.routes(),
        *_build_about_routes(core, agent.programs),
        *preferences_api.routes(PreferenceEndpoints(PreferenceFiles(layout), core.bus)),
        *pages.routes(PageEndpoints(await asyncio.to_thread(load_assets))),
    )
    return (*routes, *start_api.routes(StartEndpoints.from_routes(routes, chats.list_summaries)))


def _build_setup_routes(core: Core) -> tuple[Route, ...]:
    config_files = core.config_files
    return setup_api.routes(
        SetupEndpoints(
            core.layout,
            core.environ,
            lambda: config_files.settings.current,
            lambda: config_files.models.current,
            config_files.models.refresh,
        )
    )


def _build_about_routes(core: Core, programs: ProgramStates) -> tuple[Route, ...]:
    config_files = core.config_files
    return about_api.routes(
        AboutEndpoints(
            lambda: config_files.settings.current,
            lambda: config_files.models.current,
            core.environ,
            core.clock,
            programs,
        )
    )


async def _flush_and_close(
    state: State, chats: ChatService, committer: GroupCommitter, files: ChatFiles
) -> None:
    await committer.close()
    await files.close()
    await asyncio.to_thread(state.save, chats.list_all_summaries())
