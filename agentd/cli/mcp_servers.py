"""``agentd mcp-servers``: the MCP servers that the agents use, whether or not the daemon runs."""

import argparse
import asyncio
import json
import os
import re
import shlex
import sys
from collections.abc import Sequence

import msgspec

from agentd.agent.mcp_servers import store
from agentd.agent.mcp_servers.directory import McpDirectory
from agentd.agent.mcp_servers.messages import RemoteTool
from agentd.agent.mcp_servers.model import DEFAULT_SECONDS, McpServerSettings
from agentd.agent.mcp_servers.views import make_check_view, make_form
from agentd.agent.workspace_decisions import open_server_decisions
from agentd.cli.decisions import list_decisions, withdraw_decisions
from agentd.cli.options import (
    Subcommands,
    add_json_option,
    parse_pairs,
    resolve_config,
    resolve_layout,
    to_sentence,
)
from agentd.cli.output import excerpt, print_result, print_table
from agentd.core.errors import BadRequest, NotFound, Unavailable
from agentd.http.validation_errors import explain_validation_error
from agentd.storage.layout import Layout

EXAMPLES = """\
examples:
  agentd mcp-servers                         list the servers of mcp.yml
  agentd mcp-servers add github --env GITHUB_TOKEN=env:GITHUB_TOKEN --allow 'get_*' -- \\
      npx -y @modelcontextprotocol/server-github
  agentd mcp-servers add docs --url https://docs.example/mcp --header 'Authorization: env:DOCS'
  agentd mcp-servers test github             start it for a moment, and list its tools
  agentd mcp-servers decisions               what was decided about servers of .mcp.json
  agentd mcp-servers withdraw lint           ask about it again

mcp.yml in the config folder may be edited by hand; comments are preserved, and a running daemon
follows it. Others can read the arguments of a command: write env:NAME or file:/PATH for a secret.

exit codes: 0 done, 1 failed (no such server, or it does not work), 2 wrong usage
"""

_CHECK_SECONDS = 90.0
_PROBLEM_AT_FIELD = re.compile(r"(?P<problem>.*) - at `[^$]*\$\.(?P<field>\w+).*", re.DOTALL)
_OPTIONS = {"name": "NAME", "headers": "--header", "engines": "--engine"}
"""How the command names a field, where that is not the field's own name."""
_VERBS = {
    "list": "list the servers of mcp.yml",
    "add": "add a server to mcp.yml",
    "remove": "remove a server from mcp.yml",
    "test": "start or call a server for a moment, and list its tools",
    "decisions": "list what was decided about servers of .mcp.json",
    "withdraw": "withdraw such a decision: it is asked about again",
}


def add_parser(commands: Subcommands) -> None:
    """Register the command with argparse."""
    parser = commands.add_parser(
        "mcp-servers",
        help="add, list, test and remove the MCP servers that agents use",
        description="Manage the MCP servers whose tools the agents use (mcp.yml).",
        epilog=EXAMPLES,
    )
    add_json_option(parser)
    parser.set_defaults(run=run, verb="list")
    verbs = parser.add_subparsers(title="verbs", metavar="VERB")
    for verb, description in _VERBS.items():
        one = verbs.add_parser(verb, help=description, description=to_sentence(description))
        if verb in ("add", "remove", "test"):
            one.add_argument("name", metavar="NAME", help="name of the server")
        if verb == "add":
            _add_server_options(one)
        if verb == "withdraw":
            one.add_argument("decision", metavar="NAME|ID", help="of decisions")
        one.add_argument(
            "--json", action="store_true", default=argparse.SUPPRESS, help="print JSON"
        )
        one.set_defaults(verb=verb)


def _add_server_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--command",
        nargs=argparse.REMAINDER,
        default=[],
        help="the program with its arguments; the last option",
    )
    parser.add_argument("--url", default="", help="address of a server, in place of a program")
    parser.add_argument(
        "--env", metavar="NAME=VALUE", action="append", default=[], help="variable of the program"
    )
    parser.add_argument(
        "--header", metavar="'NAME: VALUE'", action="append", default=[], help="of each request"
    )
    parser.add_argument(
        "--allow", metavar="TOOL", action="append", default=[], help="tool that needs no approval"
    )
    parser.add_argument(
        "--allow-reading", action="store_true", help="nor do tools that it says only read"
    )
    parser.add_argument(
        "--engine", metavar="ENGINE", action="append", default=[], help="only for this engine"
    )
    parser.add_argument(
        "--seconds", type=int, default=DEFAULT_SECONDS, help="for a call without progress"
    )


def run(args: argparse.Namespace) -> int:
    """Carry out one verb; raises what is wrong with the files."""
    layout = resolve_layout(args)
    match args.verb:
        case "add":
            server = store.open_entries(layout).add(_build_server(args))
            shown = msgspec.to_builtins(make_form(server))
            print_result(f"{server.name} was added to mcp.yml", shown, as_json=args.json)
        case "remove":
            store.open_entries(layout).remove(args.name)
            result = {"name": args.name, "done": "was removed"}
            print_result(f"{args.name} was removed", result, as_json=args.json)
        case "test":
            return _test(args, layout)
        case "decisions":
            nothing = "nothing was decided about servers of a .mcp.json"
            list_decisions(open_server_decisions(layout).load(), nothing, as_json=args.json)
        case "withdraw":
            listing = "agentd mcp-servers decisions"
            file = open_server_decisions(layout)
            withdraw_decisions(file, args.decision, listing, as_json=args.json)
        case _:
            _list(store.load(layout).all, as_json=args.json)
    return 0


def _build_server(args: argparse.Namespace) -> McpServerSettings:
    values = {
        "name": args.name,
        "command": args.command,
        "env": parse_pairs("--env", args.env, "=", case_matters=True),
        "url": args.url,
        "headers": parse_pairs("--header", args.header, ":", case_matters=False),
        "allow": args.allow,
        "allow_reading": args.allow_reading,
        "engines": args.engine,
        "seconds": args.seconds,
    }
    try:
        return msgspec.convert(values, McpServerSettings)
    except msgspec.ValidationError as error:
        what = explain_validation_error(str(error), McpServerSettings)
        raise BadRequest(f"The MCP server is not valid: {_name_option(what)}") from None


def _name_option(problem: str) -> str:
    """Put the option in front of a problem instead of the field's path at its end."""
    found = _PROBLEM_AT_FIELD.fullmatch(problem)
    if found is None:
        return problem
    option = _OPTIONS.get(found["field"], f"--{found['field'].replace('_', '-')}")
    return f"{option}: {found['problem'][:1].lower()}{found['problem'][1:]}"


def _list(servers: Sequence[McpServerSettings], *, as_json: bool) -> None:
    if as_json:
        print(json.dumps([msgspec.to_builtins(make_form(one)) for one in servers]))
    elif servers:
        print_table([_describe(one) for one in servers])
    else:
        print(
            "no servers; add one with: agentd mcp-servers add NAME --command PROGRAM",
            file=sys.stderr,
        )


def _describe(server: McpServerSettings) -> tuple[str, str, str]:
    engines = ",".join(server.engines) or "all engines"
    launch = server.url or shlex.join(server.command)
    return server.name, engines if server.enabled else "off", excerpt(launch)


def _test(args: argparse.Namespace, layout: Layout) -> int:
    """Start or call a server in the workspace, with this command's environment."""
    found = next((one for one in store.load(layout).all if one.name == args.name), None)
    if found is None:
        raise NotFound(f'There is no MCP server "{args.name}" in mcp.yml')
    folder = resolve_config(args).settings.workspace
    try:
        tools = asyncio.run(_list_tools(layout, found, folder))
    except TimeoutError:
        raise Unavailable(f"It did not answer within {_CHECK_SECONDS:.0f} seconds.") from None
    if args.json:
        print(msgspec.json.encode(make_check_view(tools)).decode())
    else:
        rows = [(one.name, "reads" if one.reads else "", excerpt(one.description)) for one in tools]
        print_table(rows) if rows else print("it works, and offers no tools", file=sys.stderr)
    return 0


async def _list_tools(
    layout: Layout, server: McpServerSettings, folder: str
) -> Sequence[RemoteTool]:
    async with asyncio.timeout(_CHECK_SECONDS):
        return await McpDirectory(layout, os.environ, "").list_tools(server, folder)
