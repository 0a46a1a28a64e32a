"""``agentd proxy key``: the access keys of the model gateway, whether or not the daemon runs."""

import argparse
import json
import sys
from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal, InvalidOperation
from typing import Any, TypeVar

import msgspec
from msgspec import structs

from agentd.cli.options import Subcommands, layout
from agentd.clock import SystemClock, iso, parse_iso
from agentd.disk.access_keys import AccessKeyFile
from agentd.errors import BadRequest, NotFound, nearest
from agentd.proxy.access_key import AccessKey, folded, issue, reissue

T = TypeVar("T")

EXAMPLES = """\
examples:
  export OPENAI_API_KEY=$(agentd proxy key add laptop --day 5 --month 50)   shown this once
  agentd proxy key add ann --model 'gpt-*' --model sonnet --expires 90d
  agentd proxy key list
  agentd proxy key change laptop --day 10 --month none --parallel 4
  agentd proxy key reissue laptop --grace 3600   the letters before are good for one more hour
  agentd proxy key disable ann               a running daemon refuses it from the next request on

KEY is a key's name or id. access-keys.yml in the state folder holds salted hashes only, and may be
edited by hand; your comments stay.
"""

_WINDOWS = ("total", "day", "week", "month")
_COUNTS = ("requests_per_minute", "tokens_per_minute", "parallel")
_SPANS = {"d": 86400, "h": 3600, "m": 60}

BY = "cli"
"""As whose keys those are recorded that are made here."""

LONGEST_GRACE = 365 * 86400
"""Seconds."""


def add_parser(commands: Subcommands) -> None:
    """Tell argparse about the command."""
    parser = commands.add_parser(
        "key",
        help="make, list and change access keys",
        description="Access keys of the model gateway, one per person or program.",
        epilog=EXAMPLES,
    )
    verbs = parser.add_subparsers(title="verbs", metavar="VERB", required=True)
    for verb, told, do in (
        ("add", "make a key and print it", _add),
        ("list", "list the keys", _list),
        ("show", "tell all about a key but its letters", _show),
        ("change", "change limits, lists, name or expiry of a key", _change),
        ("reissue", "give a key other letters and print it", _reissue),
        ("enable", "let a disabled key be good again", _enable),
        ("disable", "refuse a key until it is enabled", _disable),
        ("remove", "take a key away", _remove),
        ("reinstate", "let a removed key be good again that came back with a backup", _reinstate),
    ):
        one = verbs.add_parser(verb, help=told, description=told)
        if verb != "list":
            name = "NAME" if verb == "add" else "KEY"
            one.add_argument("key", metavar=name, help="its name" + " or id" * (verb != "add"))
        if verb in ("add", "change"):
            _add_fields(one, changing=verb == "change")
        if verb == "reissue":
            one.add_argument(
                "--grace", type=int, default=0, metavar="SECONDS", help="for the letters before"
            )
        one.add_argument("--json", action="store_true", help="answer in JSON")
        one.set_defaults(run=run, do=do)


def _add_fields(parser: argparse.ArgumentParser, *, changing: bool) -> None:
    none = "; none takes it away" if changing else ""
    for name in _WINDOWS:
        told = f"the most to spend {'in all' if name == 'total' else f'in a {name}'}{none}"
        parser.add_argument(f"--{name}", metavar="USD", help=told)
    for name in _COUNTS:
        option = f"--{name.replace('_', '-')}"
        parser.add_argument(option, metavar="NUMBER", help=f"the most{none}")
    for name in ("model", "channel"):
        told = f"what it may use, by name or pattern; again for more{none or '; else all'}"
        parser.add_argument(f"--{name}", action="append", metavar="NAME", help=told)
    parser.add_argument("--expires", metavar="WHEN", help=f"2027-01-31, 90d or 12h{none}")
    keep = argparse.BooleanOptionalAction if changing else "store_true"
    parser.add_argument(
        "--keep-bodies", action=keep, default=None, help="keep what is said, secrets hidden"
    )
    if changing:
        parser.add_argument("--name", help="another name")


def run(args: argparse.Namespace) -> int:
    """Do one verb."""
    do: Callable[[AccessKeyFile, argparse.Namespace], None] = args.do
    do(AccessKeyFile(layout(args)), args)
    return 0


def _add(file: AccessKeyFile, args: argparse.Namespace) -> None:
    key, kept = _valid(lambda: issue(args.key, SystemClock().now(), BY))
    made = _revised(kept, args)
    file.add(made)
    _hand_over(key, made, as_json=args.json)


def _change(file: AccessKeyFile, args: argparse.Namespace) -> None:
    def revised(key: AccessKey) -> AccessKey:
        if not _fields(args, key):
            raise BadRequest("Nothing is to be changed: name what is, such as --day or --model")
        return _revised(key, args)

    _tell(file.change(_id(file, args.key), revised), "is changed", as_json=args.json)


def _reissue(file: AccessKeyFile, args: argparse.Namespace) -> None:
    """The key goes to standard output, alone on the last line."""
    if not 0 <= args.grace <= LONGEST_GRACE:
        raise BadRequest(f"--grace: expected 0 to {LONGEST_GRACE} seconds")
    made: list[str] = []

    def revised(key: AccessKey) -> AccessKey:
        letters, kept = reissue(key, SystemClock().now(), args.grace, BY)
        made.append(letters)
        return kept

    kept = file.reissue(_id(file, args.key), revised)
    _hand_over(made[0], kept, as_json=args.json)
    file.settle(kept.id, kept.secret.sha256)  # they were told: those before end, and not earlier


def _enable(file: AccessKeyFile, args: argparse.Namespace) -> None:
    key = file.change(_id(file, args.key), lambda key: structs.replace(key, enabled=True))
    _tell(key, "is enabled", as_json=args.json)


def _disable(file: AccessKeyFile, args: argparse.Namespace) -> None:
    key = file.change(_id(file, args.key), lambda key: structs.replace(key, enabled=False))
    _tell(key, "is disabled", as_json=args.json)


def _remove(file: AccessKeyFile, args: argparse.Namespace) -> None:
    _tell(file.remove(_id(file, args.key)), "is removed", as_json=args.json)


def _reinstate(file: AccessKeyFile, args: argparse.Namespace) -> None:
    _tell(file.reinstate(args.key), "is good again", as_json=args.json)


def _list(file: AccessKeyFile, args: argparse.Namespace) -> None:
    keys = _keys(file)
    if args.json:
        print(json.dumps([_shown(key) for key in keys]))
    elif keys:
        now = SystemClock().now()
        rows = [("NAME", "ID", "ENDS", "STATE", "BY", "LIMITS"), *(_row(key, now) for key in keys)]
        widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
        for row in rows:
            print("  ".join(map(str.ljust, row, widths)).rstrip())
    else:
        print("no access keys; make one with: agentd proxy key add NAME", file=sys.stderr)


def _show(file: AccessKeyFile, args: argparse.Namespace) -> None:
    key = _shown(_find(file, args.key))
    if args.json:
        print(json.dumps(key))
        return
    for name, value in key.items():
        told = value if isinstance(value, str) else json.dumps(value)
        print(f"{name:12}  {told}")


def _keys(file: AccessKeyFile) -> tuple[AccessKey, ...]:
    """Those that are valid; why others are not is told beside."""
    kept = file.read()
    for mistake in kept.mistakes:
        print(f"agentd: {mistake}", file=sys.stderr)
    return kept.keys


def _find(file: AccessKeyFile, wanted: str) -> AccessKey:
    keys = _keys(file)
    for key in keys:
        if wanted == key.id or folded(wanted) == folded(key.name):
            return key
    names = [key.name for key in keys]
    raise NotFound(f'There is no access key "{wanted[:100]}"{nearest(wanted, names)}')


def _id(file: AccessKeyFile, wanted: str) -> str:
    return _find(file, wanted).id


def _revised(key: AccessKey, args: argparse.Namespace) -> AccessKey:
    """The key with what was said of it. Raises ``BadRequest``."""
    made = _valid(lambda: structs.replace(key, **_fields(args, key)))
    return _valid(lambda: msgspec.convert(msgspec.to_builtins(made), AccessKey))


def _fields(args: argparse.Namespace, key: AccessKey) -> dict[str, Any]:
    """What was said of a key, by its field."""
    found: dict[str, Any] = {}
    limits: dict[str, Any] = {}
    for names, kind in ((_WINDOWS, Decimal), (_COUNTS, int)):
        for name in names:
            if (told := getattr(args, name)) is not None:
                limits[name] = None if told == "none" else _number(name, told, kind)
    if limits:
        found["limits"] = structs.replace(key.limits, **limits)
    for name in ("model", "channel"):
        if (listed := getattr(args, name)) is not None:
            found[f"{name}s"] = None if listed == ["none"] else tuple(listed)
    if args.expires is not None:
        found["expires"] = None if args.expires == "none" else _moment(args.expires)
    if args.keep_bodies is not None:
        found["keep_bodies"] = args.keep_bodies
    if getattr(args, "name", None) is not None:
        found["name"] = args.name
    return found


def _number(name: str, told: str, kind: type[Decimal] | type[int]) -> Decimal | int:
    try:
        return kind(told)
    except (InvalidOperation, ValueError):
        raise BadRequest(f"--{name.replace('_', '-')}: {told[:40]!r} is no number") from None


def _moment(told: str) -> str:
    """From now on for so long, or a moment."""
    if not told[:1].isdecimal():
        raise BadRequest(f"--expires: {told[:40]!r} is no moment; expected 2027-01-31, 90d or 12h")
    if told[:-1].isascii() and told[:-1].isdecimal() and told[-1:] in _SPANS:
        try:
            ahead = timedelta(seconds=int(told[:-1]) * _SPANS[told[-1]])
            return iso(parse_iso(SystemClock().now()) + ahead)
        except OverflowError:
            raise BadRequest(f"--expires: {told[:40]} is out of range") from None
    return told


def _valid(make: Callable[[], T]) -> T:
    """What ``make`` makes; what cannot be is wrong usage."""
    try:
        return make()
    except ValueError as error:  # msgspec's own errors are of this kind
        raise BadRequest(str(error)) from error


def _row(key: AccessKey, now: str) -> tuple[str, ...]:
    state = "expired" if key.expired(now) else "enabled"
    limits = msgspec.to_builtins(key.limits)
    told = ", ".join(f"{name.replace('_', ' ')} {limit}" for name, limit in limits.items())
    ends = f"…{key.secret.last4}"
    by = key.created_by or "unknown"
    return key.name, key.id, ends, state if key.enabled else "disabled", by, told or "none"


def _shown(key: AccessKey) -> dict[str, Any]:
    """A key for its owner to see: of its letters the last four."""
    told: dict[str, Any] = msgspec.to_builtins(key)
    told.pop("secret")
    told.pop("before", None)
    return {
        "id": key.id,
        "name": key.name,
        "enabled": key.enabled,
        "last4": key.secret.last4,
        **{name: value for name, value in told.items() if name not in ("id", "name", "enabled")},
    }


def _hand_over(key: str, kept: AccessKey, *, as_json: bool) -> None:
    """The only time that the key is shown."""
    if as_json:
        print(json.dumps({**_shown(kept), "key": key}), flush=True)
        return
    print(f"{kept.name}: its key is shown this once", file=sys.stderr)
    print(key, flush=True)


def _tell(key: AccessKey, what: str, *, as_json: bool) -> None:
    if as_json:
        print(json.dumps(_shown(key)))
    else:
        print(f"{key.name} {what}", file=sys.stderr)
