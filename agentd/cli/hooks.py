"""``agentd hooks``: the hooks of the native engine, whether or not the daemon runs."""

import argparse
import sys

import msgspec

from agentd.agent.hooks.model import list_own_hooks
from agentd.agent.hooks.store import load, read_workspace_files
from agentd.agent.hooks.views import (
    HooksOfWorkspaceView,
    HooksView,
    HookView,
    list_workspace_views,
    make_hook_view,
)
from agentd.agent.workspace_decisions import open_hook_decisions
from agentd.cli.decisions import SHORT_ID, list_decisions, withdraw_decisions
from agentd.cli.options import (
    Subcommands,
    add_json_option,
    resolve_config,
    resolve_layout,
    to_sentence,
)
from agentd.cli.output import excerpt, print_foreign, print_table
from agentd.storage.layout import Layout

EXAMPLES = """\
examples:
  agentd hooks                               list the hooks of hooks.yml and of the workspace
  agentd hooks decisions                     what was decided about hooks of workspaces
  agentd hooks withdraw .claude/settings.json    ask about its hooks again

hooks.yml in the config folder is edited by hand, and a running daemon follows it. The next turn
asks again about what is withdrawn.

exit codes: 0 done, 1 failed (no such decision, or a broken file), 2 wrong usage
"""
_VERBS = {
    "list": "list the hooks of hooks.yml and of the workspace",
    "decisions": "list what was decided about hooks of workspaces",
    "withdraw": "withdraw such a decision: it is asked about again",
}


def add_parser(commands: Subcommands) -> None:
    """Register the command with argparse."""
    parser = commands.add_parser(
        "hooks",
        help="list hooks, and withdraw decisions about those of workspaces",
        description="Show the hooks of the native engine, and what was decided about them.",
        epilog=EXAMPLES,
    )
    add_json_option(parser)
    parser.set_defaults(run=run, verb="list")
    verbs = parser.add_subparsers(title="verbs", metavar="VERB")
    for verb, description in _VERBS.items():
        one = verbs.add_parser(verb, help=description, description=to_sentence(description))
        if verb == "withdraw":
            one.add_argument("decision", metavar="FILE|ID", help="of decisions")
        one.add_argument(
            "--json", action="store_true", default=argparse.SUPPRESS, help="print JSON"
        )
        one.set_defaults(verb=verb)


def run(args: argparse.Namespace) -> int:
    """Carry out one verb; raises what is wrong with the files."""
    layout = resolve_layout(args)
    decisions = open_hook_decisions(layout)
    match args.verb:
        case "decisions":
            nothing = "nothing was decided about hooks of a workspace"
            list_decisions(decisions.load(), nothing, as_json=args.json)
        case "withdraw":
            listing = "agentd hooks decisions"
            withdraw_decisions(decisions, args.decision, listing, as_json=args.json)
        case _:
            _list(layout, resolve_config(args).settings.workspace, as_json=args.json)
    return 0


def _list(layout: Layout, workspace: str, *, as_json: bool) -> None:
    settings, files = load(layout), read_workspace_files(workspace, workspace)
    own = list(map(make_hook_view, list_own_hooks(settings)))
    views = list_workspace_views(files, open_hook_decisions(layout).load())
    problems = [f"{file.source}: {problem}" for file in files for problem in file.problems]
    shown = HooksOfWorkspaceView(not settings.workspace_hooks, views, problems)
    if as_json:
        print(msgspec.json.encode(HooksView(own, [], shown)).decode())
        return
    rows = [("hooks.yml", "runs", *_describe(hook)) for hook in own]
    for file in views:
        state = "ignored" if shown.ignored else f"{file.decision} {file.id[:SHORT_ID]}"
        rows += [(file.source, state, *_describe(hook)) for hook in file.hooks]
    print_table(rows) if rows else print("no hooks; they are written in hooks.yml", file=sys.stderr)
    for problem in problems:
        print_foreign(problem, sys.stderr)


def _describe(hook: HookView) -> tuple[str, str]:
    matcher = f" ({hook.matcher})" if hook.matcher else ""
    return f"{hook.event}{matcher}", excerpt(hook.command)
