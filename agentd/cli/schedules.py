"""``agentd schedules``: list, run, pause, add and remove the schedules of the running daemon."""

import argparse
import json
from typing import Any
from urllib.parse import quote

from agentd.cli.client import KEY_VARIABLE, Client, find_daemon_url, require_key
from agentd.cli.options import (
    Subcommands,
    add_json_option,
    add_schema_option,
    add_url_option,
    read_schema,
    resolve_layout,
)
from agentd.cli.output import excerpt, print_result

EXAMPLES = f"""\
examples:
  export {KEY_VARIABLE}=$(agentd keys generate laptop)
  agentd schedules                           list the schedules with their next runs
  agentd schedules add nightly --cron "0 3 * * 1-5" --zone Europe/Berlin "run the slow tests"
  agentd schedules run nightly               begin a run now
  agentd schedules runs nightly              the outcomes of its latest runs
  agentd schedules pause nightly
  agentd schedules remove nightly

exit codes: 0 done, 1 failed (no such schedule, or no daemon runs), 2 wrong usage
"""

_ACTIONS = ("run", "runs", "pause", "resume", "remove")


def add_parser(commands: Subcommands) -> None:
    """Register the command with argparse."""
    parser = commands.add_parser(
        "schedules",
        help="list, run, pause, add and remove schedules",
        description="Prompts that are sent at the times of a cron expression (schedules.yml).",
        epilog=EXAMPLES,
    )
    add_url_option(parser)
    add_json_option(parser)
    parser.set_defaults(run=run, action="list")
    actions = parser.add_subparsers(dest="action", metavar="ACTION")
    for name, what in zip(
        _ACTIONS,
        (
            "begin a run now",
            "list the latest runs",
            "pause a schedule",
            "resume it from its next time on",
            "remove it; the chats of its runs stay",
        ),
        strict=True,
    ):
        actions.add_parser(name, help=what, description=what.capitalize() + ".").add_argument(
            "name", metavar="NAME"
        )
    _add_add_parser(actions)
    for action in actions.choices.values():
        # A default here would hide what was typed before the action.
        action.add_argument("--url", default=argparse.SUPPRESS, help="the daemon's URL")
        action.add_argument(
            "--json", action="store_true", default=argparse.SUPPRESS, help="print JSON"
        )


def _add_add_parser(actions: Subcommands) -> None:
    parser = actions.add_parser("add", help="add a schedule", description="Add a schedule.")
    parser.add_argument("name", metavar="NAME", help="lower-case letters, digits, - and _")
    parser.add_argument("prompt", metavar="PROMPT", help="the prompt of each run")
    parser.add_argument(
        "--cron", required=True, help="minute hour day month weekday, such as 0 3 * * 1-5"
    )
    parser.add_argument("--zone", default="UTC", help="time zone, such as Europe/Berlin")
    parser.add_argument(
        "--chat", type=int, help="the chat that each run continues; else each has a new one"
    )
    parser.add_argument("--model", default="", help="model of the runs")
    parser.add_argument(
        "--mode", default="", help="mode of the engine's program in new chats, such as plan"
    )
    parser.add_argument(
        "--budget", type=float, metavar="USD", help="end the turn of a run that cost this much"
    )
    add_schema_option(parser, "the reply of each run")
    parser.add_argument("--worktree", action="store_true", help="new chats have a work tree")
    parser.add_argument(
        "--missed",
        choices=("skip", "once"),
        default="skip",
        help="what to do about runs that were missed: nothing (the default), or one for all",
    )
    parser.add_argument(
        "--overlap",
        choices=("skip", "queue"),
        default="skip",
        help="while the run before is at work: skip this one (the default), or queue it",
    )


def run(args: argparse.Namespace) -> int:
    """Carry out the action; raises what the daemon refuses it with."""
    with Client(args.url or find_daemon_url(resolve_layout(args)), require_key()) as client:
        match args.action:
            case "add":
                _print(args, client.request("POST", "/api/schedules", _build_schedule(args)))
            case "remove":
                client.request("DELETE", _get_path(args.name))
                result = {"name": args.name, "removed": True}
                print_result(f"{args.name} is removed", result, as_json=args.json)
            case "pause" | "resume":
                _print(args, client.request("POST", f"{_get_path(args.name)}/{args.action}"))
            case "run":
                begun = client.request("POST", f"{_get_path(args.name)}/run")
                print(json.dumps(begun) if args.json else _describe_run(begun))
                return 0 if begun["state"] != "failed" else 1
            case "runs":
                runs = client.request("GET", f"{_get_path(args.name)}/runs")["runs"]
                lines = [_describe_run(one) for one in runs] or ["no runs so far"]
                print(json.dumps(runs) if args.json else "\n".join(lines))
            case _:
                listed = client.request("GET", "/api/schedules")["schedules"]
                lines = [_describe(one) for one in listed] or ["no schedules"]
                print(json.dumps(listed) if args.json else "\n".join(lines))
    return 0


def _build_schedule(args: argparse.Namespace) -> dict[str, object]:
    names = ("name", "prompt", "cron", "zone", "chat", "model", "mode", "budget", "worktree")
    schedule = {name: getattr(args, name) for name in (*names, "missed", "overlap")}
    return schedule | ({"output_schema": read_schema(args.schema)} if args.schema else {})


def _get_path(name: str) -> str:
    return f"/api/schedules/{quote(name, safe='')}"


def _print(args: argparse.Namespace, schedule: dict[str, Any]) -> None:
    print(json.dumps(schedule) if args.json else _describe(schedule))


def _describe(schedule: dict[str, Any]) -> str:
    following = "paused" if schedule["paused"] else f"next {schedule['next'] or 'never'}"
    times = f"{schedule['cron']} ({schedule['zone']})"
    last = schedule["last"]
    came = f"; last {last['state']} {last['due']}" if last else ""
    return f"{schedule['name']}  {times}  {following}{came}  {excerpt(schedule['prompt'])}"


def _describe_run(run: dict[str, Any]) -> str:
    chat = f"  chat {run['chatId']}" if run["chatId"] else ""
    cost = f"  {run['cost']} USD" if run["cost"] else ""
    note = f"  {excerpt(run['note'])}" if run["note"] else ""
    return f"{run['due']}  {run['cause']}  {run['state']}{chat}{cost}{note}"
