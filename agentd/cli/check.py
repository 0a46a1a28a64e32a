"""``agentd check``: report every problem of every file, and whether the engines are ready."""

import argparse
import asyncio
import json
import os
import stat
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import partial
from os.path import realpath
from typing import TYPE_CHECKING

import msgspec

from agentd.agent.custom_commands import store as commands_store
from agentd.agent.hooks.store import load as load_hooks
from agentd.agent.mcp_servers.store import load as load_mcp_servers
from agentd.agent.protected_folders import find_protected_places
from agentd.app.engine_inspection import EngineStatus, inspect_engines
from agentd.app.inspect import (
    collect_problems,
    find_corrupt_journals,
    find_gateway_problems,
    find_state_problems,
)
from agentd.app.state import is_served_by, read_daemon_info
from agentd.auth.key_store import KeyFile
from agentd.auth.user_store import UserFile
from agentd.bots.store import BotsYmlFile
from agentd.chats.labels import store as labels_store
from agentd.cli.options import (
    Subcommands,
    add_json_option,
    resolve_config,
    resolve_layout,
)
from agentd.core.errors import AgentdError, ConfigError, ConfigProblem
from agentd.gateway.keys.file import AccessKeyFile
from agentd.gateway.settings import store as gateway_settings_store
from agentd.http.tls import load_tls_context
from agentd.models import store as models_store
from agentd.models.model import Models
from agentd.schedules import store as schedules_store
from agentd.schedules.store import ProgressFile
from agentd.settings.sources import ResolvedConfig, describe_unused, read_settings_file
from agentd.skills import store as skills_store
from agentd.speech.store import check as check_speech
from agentd.storage.document import NO_FOLDER, can_others_write
from agentd.storage.layout import Layout
from agentd.system.ports import HOST_HELP, explain_unusable_host
from agentd.system.protected_paths import WORKTREES, explain_risky_workspace
from agentd.workspace.job_store import find_job_problems, load_builds, load_deployments

if TYPE_CHECKING:
    from agentd.app.engine_trials import EngineTrial

EXAMPLES = """\
examples:
  agentd check                               before restarting the daemon
  agentd check --json | jq -r '.problems[].where'
  agentd check --online                      lists each supplier's models, starts each program
  agentd check --engines                     one harmless turn with each installed program

exit codes: 0 no problems, 1 there are problems, or a turn of --engines failed. An engine that is
not ready is reported, but is not a problem: the daemon may run with another user, PATH and
environment.
"""
PRICES_HELP = (
    "agentd proxy prices apply --unpriced takes those of the catalogue;"
    " unknown_price in proxy.yml allows calls all the same"
)


def add_parser(commands: Subcommands) -> None:
    """Register the command with argparse."""
    parser = commands.add_parser(
        "check",
        help="read every file and report every problem",
        description="Read the settings, models, skills, users, keys and chats. Changes nothing.",
        epilog=EXAMPLES,
    )
    add_json_option(parser)
    parser.add_argument(
        "--online",
        action="store_true",
        help="also call the suppliers and start the engines' programs; no prompt is sent",
    )
    parser.add_argument(
        "--engines",
        action="store_true",
        help="also run a turn with each installed coding agent, against a supplier on loopback:"
        " it costs nothing, and no sign-in is used",
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Report; return 1 when there is any problem."""
    config, wrong = _read_config(args)
    problems = list(_find_problems(args, config, wrong))
    models = _load_models(config)
    engines = _inspect_engines(config, models, online=args.online)
    trials = _try_engines(config, models) if args.engines else []
    if args.json:
        report = {"ok": not problems, "problems": problems, "engines": engines}
        report |= {"trials": trials} if args.engines else {}
        print(json.dumps(msgspec.to_builtins(report)))
    else:
        _print_sources(config)
        _print_refused_models(config, models)
        for problem in problems:
            print(problem)
        for engine in engines:
            print(engine, file=sys.stderr)
        for trial in trials:
            print(trial, file=sys.stderr)
        if args.engines and not trials:
            print("no coding agent is installed, or not in PATH", file=sys.stderr)
        not_ready = [engine.engine for engine in engines if engine.problem]
        print(summarize(len(problems), not_ready), file=sys.stderr)
    return 1 if problems or any(trial.outcome == "fails" for trial in trials) else 0


def _read_config(args: argparse.Namespace) -> tuple[ResolvedConfig | None, list[ConfigProblem]]:
    """Return the settings, or what is wrong with them: all that is reported is about one state."""
    found: list[ResolvedConfig] = []
    wrong = collect_problems(lambda: found.append(resolve_config(args)))
    return (found[0] if found else None), wrong


def _print_sources(config: ResolvedConfig | None) -> None:
    """Print on standard error where the settings come from, unless they cannot be read."""
    if config is None:
        return
    print(config.sources, file=sys.stderr)
    if unused := describe_unused(config.overrides):
        print(unused, file=sys.stderr)
    workspace = _find_served_workspace(config.layout) or config.settings.workspace
    if workspace != config.settings.workspace:
        print(f"the running daemon's workspace is {workspace}", file=sys.stderr)
    home = find_protected_places(config.layout).home
    if risk := explain_risky_workspace(realpath(workspace), home):
        print(risk, file=sys.stderr)


def _find_served_workspace(layout: Layout) -> str:
    """Return the workspace of the running daemon, which a unit may name; empty if it is unknown."""
    try:
        daemon = read_daemon_info(layout)
    except AgentdError:  # the problems of the state folder are reported
        return ""
    return daemon.workspace if daemon and is_served_by(daemon, layout) else ""


def _print_refused_models(config: ResolvedConfig | None, models: Models | None) -> None:
    """Print on standard error which of the gateway's models cannot be called without a price."""
    if config is None or models is None:
        return
    try:
        refusing = gateway_settings_store.load(config.layout).unknown_price == "refuse"
    except AgentdError:  # reported as a problem
        return
    names = [one.name for one in models.proxy if one.enabled and not one.is_priced]
    if refusing and names:
        what = f"models without a price, which the gateway refuses to call: {', '.join(names)}"
        print(f"{what}; {PRICES_HELP}", file=sys.stderr)


def summarize(problems: int, not_ready: Iterable[str]) -> str:
    """Return the last line of a check: the number of problems, or else what is not ready."""
    if problems:
        return "1 problem" if problems == 1 else f"{problems} problems"
    names = ", ".join(dict.fromkeys(not_ready))
    return f"no problems, but not ready: {names}" if names else "no problems"


def _find_problems(
    args: argparse.Namespace, config: ResolvedConfig | None, wrong: list[ConfigProblem]
) -> Iterable[ConfigProblem]:
    """Yield all problems; ``wrong`` are those of the settings."""
    try:
        layout = config.layout if config else resolve_layout(args)
    except ConfigError:
        yield from wrong
        return
    if occupied := [one for one in (layout.config, layout.state) if _is_occupied(one)]:
        yield from (ConfigProblem(one, 0, NO_FOLDER) for one in occupied)
        return
    yield from wrong
    if config:
        yield from _find_tls_problems(config)
        yield from _find_host_problems(config)
        yield from _find_workspace_problems(config)
    yield from collect_problems(lambda: models_store.check(layout))
    yield from collect_problems(UserFile(layout).load)
    yield from collect_problems(BotsYmlFile(layout).load)
    yield from collect_problems(lambda: check_speech(layout))
    yield from collect_problems(lambda: load_mcp_servers(layout))
    yield from collect_problems(lambda: labels_store.load(layout))
    yield from collect_problems(lambda: schedules_store.load(layout))
    yield from collect_problems(ProgressFile(layout).load)
    yield from find_gateway_problems(layout)
    yield from skills_store.check(layout)
    yield from commands_store.check(layout)
    yield from collect_problems(lambda: load_hooks(layout))
    for jobs in (load_builds, load_deployments):
        yield from collect_problems(partial(jobs, layout))
    file = KeyFile(layout, AccessKeyFile(layout))
    for read in (file.check, file.list_revoked):
        yield from collect_problems(read)
    yield from find_open_settings(layout.config)
    yield from find_insecure_paths(layout.state)
    yield from find_state_problems(layout)
    yield from find_job_problems(layout)
    yield from find_corrupt_journals(layout)


def _is_occupied(folder: str) -> bool:
    """Return whether something else is in a folder's place; none of its files can be read then."""
    return os.path.lexists(folder) and not os.path.isdir(folder)


def _find_tls_problems(config: ResolvedConfig) -> list[ConfigProblem]:
    """Return why a start could not answer https."""
    files = config.settings.tls
    return collect_problems(lambda: load_tls_context(files.certificate, files.key)) if files else []


def _find_host_problems(config: ResolvedConfig) -> Iterator[ConfigProblem]:
    """Yield why a start could not listen on the host; its port may be in use by a daemon."""
    host = config.settings.host
    if why := explain_unusable_host(host):
        yield _place(config, "host", f"cannot listen on {host}: {why}. {HOST_HELP}")


def _find_workspace_problems(config: ResolvedConfig) -> Iterator[ConfigProblem]:
    """Yield why no turn could work in the workspace; a start creates the default one."""
    folder = config.settings.workspace
    if folder != config.overrides.workspace and not os.path.isdir(folder):
        why = "is not a folder" if os.path.lexists(folder) else "does not exist"
        yield _place(config, "workspace", f"{folder} {why}; create it, or name another")


def _place(config: ResolvedConfig, name: str, what: str) -> ConfigProblem:
    """Return a problem of a setting at the place that it comes from."""
    file = config.layout.settings
    _, source = config.overrides.from_cli_and_env.get(name, ("", file))
    line = read_settings_file(file).lines.get(name, 0) if source == file else 0
    return ConfigProblem(source, line, f"{name}: {what}")


def _load_models(config: ResolvedConfig | None) -> Models | None:
    """Return nothing while the settings or models have problems, which are reported already."""
    if config is None:
        return None
    try:
        return models_store.load(config.layout)
    except AgentdError:
        return None


def _inspect_engines(
    config: ResolvedConfig | None, models: Models | None, *, online: bool
) -> list[EngineStatus]:
    """Return nothing without settings and models."""
    if config is None or models is None:
        return []
    return asyncio.run(inspect_engines(config.settings, models, os.environ, online=online))


def _try_engines(config: ResolvedConfig | None, models: Models | None) -> "list[EngineTrial]":
    """Return nothing without settings and models."""
    if config is None or models is None:
        return []
    # Imported when it is needed: it is much code.
    from agentd.app.engine_trials import try_engines

    return asyncio.run(try_engines(config.settings, models))


def find_open_settings(folder: str) -> Iterator[ConfigProblem]:
    """Yield the config folder and each file of settings in it that everybody can change.

    They name programs that agentd runs. Blocking.
    """
    try:
        names = [name for name in sorted(os.listdir(folder)) if name.endswith(".yml")]
    except OSError:  # reported elsewhere
        return
    for path in (folder, *(os.path.join(folder, name) for name in names)):
        with suppress(FileNotFoundError):
            if os.stat(path).st_mode & stat.S_IWOTH:
                what = "can be changed by every user of this machine, who could have agentd run"
                yield ConfigProblem(path, 0, f"{what} programs; chmod o-w {path}")


def find_insecure_paths(folder: str) -> Iterator[ConfigProblem]:
    """Yield every path in a state folder that others can change; nothing if it is missing.

    Chats' work trees are not searched: their files are the repository's, which may have links.
    Blocking.
    """
    if not os.path.lexists(folder):
        return
    yield from _check_permissions(folder, folder)
    for path, folders, files in os.walk(folder):
        for name in sorted(folders + files):
            yield from _check_permissions(os.path.join(path, name), folder)
        if path == folder and WORKTREES in folders:
            folders.remove(WORKTREES)


def _is_unused(folder: str) -> bool:
    """Return whether no daemon has served the state folder: the first one makes it private."""
    return not os.path.exists(Layout(folder, folder).format)


def _check_permissions(path: str, top: str) -> Iterator[ConfigProblem]:
    try:
        info = os.stat(path, follow_symlinks=path == top)
    except FileNotFoundError:
        return
    us = os.geteuid()
    if stat.S_ISLNK(info.st_mode):
        yield ConfigProblem(path, 0, "is a symbolic link; put the file itself there")
    elif not (stat.S_ISREG(info.st_mode) or stat.S_ISDIR(info.st_mode)):
        yield ConfigProblem(path, 0, "is neither a file nor a folder; remove it")
    elif info.st_uid != us:
        what = f"belongs to user id {info.st_uid}, agentd runs as {us}; chown -R {us} {top}"
        yield ConfigProblem(path, 0, what)
    elif can_others_write(info):
        yield ConfigProblem(path, 0, f"can be written by others; chmod go-w {path}")
    elif path == top and info.st_mode & 0o077 and not _is_unused(top):
        yield ConfigProblem(path, 0, f"can be read by others; chmod 700 {path}")
