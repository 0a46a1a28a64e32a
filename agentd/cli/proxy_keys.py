"""``agentd proxy key``: manage the access keys of the model gateway, with or without a daemon."""

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from msgspec import structs

from agentd.cli.limit_options import (
    BY_CLI,
    add_limit_options,
    add_model_limit_option,
    add_soft_limit_options,
    add_until_option,
    call_or_bad_request,
    format_limits,
    names_limits,
    parse_limits,
    parse_model_limits,
    parse_moment_or_period,
    parse_raise,
    parse_warnings,
)
from agentd.cli.options import Subcommands, add_json_option, resolve_layout, to_sentence
from agentd.cli.output import print_result, print_table
from agentd.core.clock import SystemClock
from agentd.core.errors import BadRequest, NotFound, suggest_name
from agentd.gateway.keys.file import AccessKeyFile
from agentd.gateway.keys.keyring import Keyring
from agentd.gateway.keys.model import (
    AccessKey,
    add_tags,
    casefold_name,
    issue,
    reissue,
    remove_tags,
)

EXAMPLES = """\
examples:
  export OPENAI_API_KEY=$(agentd proxy key add laptop --day 5 --month 50)   shown only now
  agentd proxy key add ann --model 'gpt-*' --model sonnet --expires 90d
  agentd proxy key list
  agentd proxy key change laptop --day 10 --month none --parallel 4
  agentd proxy key change ann --model-limit 'gpt-*' day=2,month=30 --warn-at 0.8
  agentd proxy key raise laptop --day 50 --until 2d   the old limit holds again by itself
  agentd proxy key reissue laptop --grace 3600   the old key stays valid for one hour
  agentd proxy key tag laptop ann --tag research   several keys at once
  agentd proxy key disable ann               a running daemon refuses it from the next request on

KEY is a key's name or id. access-keys.yml in the state folder holds salted hashes only and may be
edited by hand; comments are preserved.
"""

MAX_GRACE = 365 * 86400
"""Seconds."""


def add_parser(commands: Subcommands) -> None:
    """Register the command with argparse."""
    parser = commands.add_parser(
        "key",
        help="make, list and change access keys",
        description="Manage the access keys of the model gateway, one per person or program.",
        epilog=EXAMPLES,
    )
    verbs = parser.add_subparsers(title="verbs", metavar="VERB", required=True)
    for verb, description, action in (
        ("add", "make a key and print it", _add),
        ("list", "list the keys", _list),
        ("show", "show a key, without its secret", _show),
        (
            "change",
            "change the limits, models, channels, name, owner, tags or expiry of a key",
            _change,
        ),
        ("raise", "raise limits of a key until a moment", _raise),
        ("end-raise", "let the old limits of a key hold again now", _end_raise),
        ("tag", "add tags to keys, to all or none", _make_tagging(add_tags)),
        ("untag", "remove tags from keys, from all or none", _make_tagging(remove_tags)),
        ("reissue", "replace the secret of a key and print it", _reissue),
        ("enable", "accept a disabled key again", _enable),
        ("disable", "refuse a key until it is enabled", _disable),
        ("remove", "remove a key", _remove),
        ("reinstate", "accept a removed key again that a backup brought back", _reinstate),
    ):
        one = verbs.add_parser(verb, help=description, description=to_sentence(description))
        if verb in ("tag", "untag"):
            one.add_argument("keys", nargs="+", metavar="KEY", help="name or id of a key")
            one.add_argument("--tag", action="append", required=True, dest="tags", help="the tag")
        elif verb != "list":
            name, kind = ("NAME", "name") if verb == "add" else ("KEY", "name or id")
            one.add_argument("key", metavar=name, help=f"{kind} of the key")
        if verb in ("add", "change"):
            _add_fields(one, changing=verb == "change")
        if verb == "raise":
            add_limit_options(one, removable=False)
            add_model_limit_option(one, removable=False)
            add_until_option(one)
        if verb == "reissue":
            one.add_argument(
                "--grace",
                type=int,
                default=0,
                metavar="SECONDS",
                help="seconds for which the old secret stays valid; default: 0",
            )
        add_json_option(one)
        one.set_defaults(run=run, action=action)


def _add_fields(parser: argparse.ArgumentParser, *, changing: bool) -> None:
    add_limit_options(parser, removable=changing)
    add_soft_limit_options(parser, removable=changing)
    add_model_limit_option(parser, removable=changing)
    for name in ("model", "channel"):
        allowed = f"{name} it may use, by name or pattern; repeatable; "
        allowed += "none allows all" if changing else "default: all"
        parser.add_argument(f"--{name}", action="append", metavar="NAME", help=allowed)
    parser.add_argument(
        "--address",
        action="append",
        metavar="ADDRESS",
        help="address or network (CIDR) from which it is accepted; repeatable; "
        + ("none allows all" if changing else "default: all"),
    )
    parser.add_argument(
        "--owner",
        metavar="NAME",
        help="who answers for its spending" + ("; none: nobody" if changing else ""),
    )
    parser.add_argument(
        "--tag",
        action="append",
        metavar="TAG",
        help="word by which keys share a budget; repeatable"
        + ("; none removes all" if changing else ""),
    )
    expiry = "end of its validity: 2027-01-31, 90d or 12h; " + ("none" if changing else "default")
    expiry += ": never"
    parser.add_argument("--expires", metavar="WHEN", help=expiry)
    keep = argparse.BooleanOptionalAction if changing else "store_true"
    parser.add_argument(
        "--keep-bodies",
        action=keep,
        default=None,
        help="store the bodies of requests and replies, with secrets masked",
    )
    if changing:
        parser.add_argument("--name", help="new name")


def run(args: argparse.Namespace) -> int:
    """Run one verb."""
    action: Callable[[AccessKeyFile, argparse.Namespace], None] = args.action
    action(AccessKeyFile(resolve_layout(args)), args)
    return 0


def _add(file: AccessKeyFile, args: argparse.Namespace) -> None:
    secret, issued = call_or_bad_request(lambda: issue(args.key, SystemClock().now(), BY_CLI))
    key = _apply_options(issued, args)
    file.add(key)
    _print_secret(secret, key, as_json=args.json)


def _change(file: AccessKeyFile, args: argparse.Namespace) -> None:
    def change(key: AccessKey) -> AccessKey:
        if not _parse_fields(args, key):
            raise BadRequest("nothing to change: give options such as --day or --model")
        return _apply_options(key, args)

    _print_key(file.change(_find_id(file, args.key), change), "changed", as_json=args.json)


def _raise(file: AccessKeyFile, args: argparse.Namespace) -> None:
    def change(key: AccessKey) -> AccessKey:
        return structs.replace(key, raised=parse_raise(args, key.limits, key.model_limits))

    key = file.change(_find_id(file, args.key), change)
    assert key.raised
    _print_key(key, f"has raised limits until {key.raised.until}", as_json=args.json)


def _end_raise(file: AccessKeyFile, args: argparse.Namespace) -> None:
    key = file.change(_find_id(file, args.key), lambda key: structs.replace(key, raised=None))
    _print_key(key, "has its old limits", as_json=args.json)


def _make_tagging(
    revise: Callable[[AccessKey, Sequence[str]], AccessKey],
) -> Callable[[AccessKeyFile, argparse.Namespace], None]:
    def change_tags(file: AccessKeyFile, args: argparse.Namespace) -> None:
        ids = list(dict.fromkeys(_find_id(file, key) for key in args.keys))

        def edit(key: AccessKey) -> AccessKey:
            return call_or_bad_request(lambda: revise(key, args.tags))

        changed = [now for before, now in file.edit_all(ids, edit) if now and before != now]
        if args.json:
            print(json.dumps([_to_json(key) for key in changed]))
        else:
            names = ", ".join(key.name for key in changed) or "none"
            print(f"changed: {names}", file=sys.stderr)

    return change_tags


def _reissue(file: AccessKeyFile, args: argparse.Namespace) -> None:
    """Replace the secret and print it, alone on the last line of standard output."""
    if not 0 <= args.grace <= MAX_GRACE:
        raise BadRequest(f"--grace: expected 0 to {MAX_GRACE} seconds")
    secrets: list[str] = []

    def replace_secret(key: AccessKey) -> AccessKey:
        secret, reissued = reissue(key, SystemClock().now(), args.grace, BY_CLI)
        secrets.append(secret)
        return reissued

    key = file.reissue(_find_id(file, args.key), replace_secret)
    _print_secret(secrets[0], key, as_json=args.json)
    file.revoke_previous(key.id, key.secret.sha256)  # only after the new one was printed


def _enable(file: AccessKeyFile, args: argparse.Namespace) -> None:
    key = file.change(_find_id(file, args.key), lambda key: structs.replace(key, enabled=True))
    _print_key(key, "enabled", as_json=args.json)


def _disable(file: AccessKeyFile, args: argparse.Namespace) -> None:
    key = file.change(_find_id(file, args.key), lambda key: structs.replace(key, enabled=False))
    _print_key(key, "disabled", as_json=args.json)


def _remove(file: AccessKeyFile, args: argparse.Namespace) -> None:
    _print_key(file.remove(_find_id(file, args.key)), "removed", as_json=args.json)


def _reinstate(file: AccessKeyFile, args: argparse.Namespace) -> None:
    _print_key(file.reinstate(args.key), "accepted again", as_json=args.json)


def _list(file: AccessKeyFile, args: argparse.Namespace) -> None:
    keys = _read_keys(file)
    if args.json:
        print(json.dumps([_to_json(key, keys.get_last4(key)) for key in keys]))
    elif len(keys):
        now = SystemClock().now()
        rows = [_format_row(key, keys.get_last4(key), now) for key in keys]
        print_table([("NAME", "ID", "ENDS", "STATE", "BY", "LIMITS"), *rows])
    else:
        print("no access keys; make one with: agentd proxy key add NAME", file=sys.stderr)


def _show(file: AccessKeyFile, args: argparse.Namespace) -> None:
    keys = _read_keys(file)
    key = _find_key(keys, args.key)
    fields = _to_json(key, keys.get_last4(key))
    if args.json:
        print(json.dumps(fields))
        return
    for name, value in fields.items():
        print(f"{name:12}  {value if isinstance(value, str) else json.dumps(value)}")


def _read_keys(file: AccessKeyFile) -> Keyring:
    """Return the valid keys; print why others are not valid."""
    contents = file.read()
    for problem in contents.problems:
        print(f"agentd: {problem}", file=sys.stderr)
    return Keyring(contents.keys, contents.pending)


def _find_key(keys: Keyring, name_or_id: str) -> AccessKey:
    for key in keys:
        if name_or_id == key.id or casefold_name(name_or_id) == casefold_name(key.name):
            return key
    suggestion = suggest_name(name_or_id, [key.name for key in keys])
    raise NotFound(f'There is no access key "{name_or_id[:100]}"{suggestion}')


def _find_id(file: AccessKeyFile, name_or_id: str) -> str:
    return _find_key(_read_keys(file), name_or_id).id


def _apply_options(key: AccessKey, args: argparse.Namespace) -> AccessKey:
    """Return the key with the fields that the options name. Raises ``BadRequest``."""
    changed = call_or_bad_request(lambda: structs.replace(key, **_parse_fields(args, key)))
    return call_or_bad_request(lambda: msgspec.convert(msgspec.to_builtins(changed), AccessKey))


def _parse_fields(args: argparse.Namespace, key: AccessKey) -> dict[str, Any]:
    """Return the fields of a key that the options name."""
    found: dict[str, Any] = {}
    if names_limits(args):
        found["limits"] = parse_limits(args, key.limits)
    if args.model_limit is not None:
        found["model_limits"] = parse_model_limits(args, key.model_limits)
    found |= parse_warnings(args, key.soft_limits)
    for name, field in (("model", "models"), ("channel", "channels"), ("address", "addresses")):
        if (listed := getattr(args, name)) is not None:
            found[field] = None if listed == ["none"] else tuple(listed)
    if args.owner is not None:
        found["owner"] = "" if args.owner == "none" else args.owner
    if args.tag is not None:
        found["tags"] = () if args.tag == ["none"] else tuple(args.tag)
    if args.expires is not None:
        found["expires"] = (
            None if args.expires == "none" else parse_moment_or_period("--expires", args.expires)
        )
    if args.keep_bodies is not None:
        found["keep_bodies"] = args.keep_bodies
    if getattr(args, "name", None) is not None:
        found["name"] = args.name
    return found


def _format_row(key: AccessKey, last4: str, now: str) -> tuple[str, ...]:
    state = "expired" if key.is_expired(now) else "enabled"
    listed = format_limits(key.limits, key.model_limits)
    if key.raised and key.raised.until > now:
        listed += f" (raised until {key.raised.until})"
    ends = f"…{last4}"
    by = key.created_by or "unknown"
    return key.name, key.id, ends, state if key.enabled else "disabled", by, listed


def _to_json(key: AccessKey, last4: str = "") -> dict[str, Any]:
    """Return a key without its secret, but with the last four characters or ``last4``."""
    fields: dict[str, Any] = msgspec.to_builtins(key)
    fields.pop("secret")
    fields.pop("before", None)
    return {
        "id": key.id,
        "name": key.name,
        "enabled": key.enabled,
        "last4": last4 or key.secret.last4,
        **{name: value for name, value in fields.items() if name not in ("id", "name", "enabled")},
    }


def _print_secret(secret: str, key: AccessKey, *, as_json: bool) -> None:
    """Print a new secret, which is never shown again."""
    if as_json:
        print(json.dumps({**_to_json(key), "key": secret}), flush=True)
        return
    print(f"{key.name}: the key is shown only now", file=sys.stderr)
    print(secret, flush=True)


def _print_key(key: AccessKey, outcome: str, *, as_json: bool) -> None:
    print_result(f"access key {key.name} {outcome}", _to_json(key), as_json=as_json)
