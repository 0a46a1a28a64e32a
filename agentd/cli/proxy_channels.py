"""``agentd proxy channel``: manage the gateway's channels."""

import argparse
import getpass
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import get_args

import msgspec
from msgspec import structs

from agentd.cli.management_key import add_daemon_options
from agentd.cli.options import Parser, Subcommands, add_json_option, resolve_layout, to_sentence
from agentd.cli.output import print_result
from agentd.cli.proxy_balances import show_balances
from agentd.cli.proxy_channel_state import show_state
from agentd.cli.proxy_offers import add_offer_options, show_offer
from agentd.cli.proxy_request_options import add_request_options, parse_request_options
from agentd.core.errors import BadRequest, Conflict
from agentd.core.secret_text import is_reference
from agentd.gateway.channels import store as channels_store
from agentd.gateway.channels.masking import mask_channel
from agentd.gateway.channels.model import BalanceReading, BalanceSource, Channel
from agentd.llm.endpoint import ChannelDialect, ChannelTransport
from agentd.llm.upstream.header_rules import is_credential_header
from agentd.models import store as models_store
from agentd.storage.layout import Layout

CHANNEL_EXAMPLES = """\
examples:
  agentd proxy channel add anthropic --dialect anthropic --url https://api.anthropic.com
                                             asks for the key, without showing it
  agentd proxy channel add openai --dialect openai-responses --dialect openai-chat \\
      --url https://api.openai.com/v1 --key env:OPENAI_API_KEY
  agentd proxy channel add shared --dialect openai-chat --url https://api.example.com/v1 \\
      --key env:FIRST_KEY --key env:SECOND_KEY
                                             two keys, used in turn
  agentd proxy channel add here --dialect openai-chat --url http://127.0.0.1:11434 --local --no-key
  agentd proxy channel add eu --dialect openai-chat --url https://eu.example.com/v1 \\
      --key env:EU_KEY --header 'X-Team: red' --parameters '{"default": {"temperature": 0.2}}'
  agentd proxy channel models openai         what the supplier offers, with the catalogue's prices
  agentd proxy channel models openai --create gpt-5.1 --create gpt-5-mini=small
  agentd proxy channel balance               what is left at suppliers that report it
  agentd proxy channel state openai          cooldowns and failures; asks for the management key
  agentd proxy channel disable openai        a running daemon stops using it at once
  agentd proxy channel disable openai azure  all of them, or none if there is a mistake

channels.yml is edited, also while no daemon runs. agentd proxy batch changes several through the
daemon, as one change of its journal, which can be undone.
channels.yml in the config folder may be edited by hand; comments are preserved.
"""


def add_channel_parser(parts: Subcommands) -> None:
    """Register ``agentd proxy channel`` with argparse."""
    verbs = add_group(parts, "channel", "manage the connections to suppliers", CHANNEL_EXAMPLES)
    adding = add_verb(verbs, "add", "add a channel", _add_channel, named="channel")
    adding.add_argument(
        "--dialect",
        action="append",
        required=True,
        choices=get_args(ChannelDialect),
        help="an API of the supplier; repeatable, the preferred one first",
    )
    adding.add_argument("--url", required=True, help="the supplier's base URL")
    adding.add_argument(
        "--key",
        action="append",
        default=[],
        metavar="WHERE",
        help="env:NAME or file:PATH; repeatable: several keys are used in turn; default: asks for"
        " the key",
    )
    adding.add_argument("--no-key", action="store_true", help="the supplier needs no key")
    adding.add_argument(
        "--local", action="store_true", help="the supplier is on this machine or its network"
    )
    adding.add_argument(
        "--transport",
        choices=("http", "socks5", "vpn"),
        help="how the supplier is reached; default: directly",
    )
    adding.add_argument(
        "--transport-url", metavar="WHERE", help="env:NAME or file:PATH of the proxy's URL"
    )
    _add_balance_options(adding)
    add_request_options(adding)
    add_verb(verbs, "list", "list the channels", _list_channels)
    offering = add_verb(
        verbs, "models", "list what the supplier offers, or create it", show_offer, named="channel"
    )
    add_offer_options(offering)
    reading = add_verb(verbs, "balance", "show what is left of the accounts", show_balances)
    reading.add_argument(
        "names", nargs="*", metavar="NAME", help="a channel; default: all whose suppliers report it"
    )
    _add_state_verb(verbs)
    for verb, description, change in (
        ("enable", "use channels again", _enable_channels),
        ("disable", "stop using channels", _disable_channels),
        ("remove", "remove channels", _remove_channels),
    ):
        changing = add_verb(verbs, verb, description, change)
        changing.add_argument("names", nargs="+", metavar="NAME", help="names of channels")


def _add_state_verb(verbs: Subcommands) -> None:
    description = "show cooldowns, failures and times, as the running daemon knows them"
    parser = verbs.add_parser("state", help=description, description=to_sentence(description))
    parser.add_argument("names", nargs="*", metavar="NAME", help="a channel; default: all")
    add_daemon_options(parser)
    parser.set_defaults(run=show_state)


def _add_balance_options(adding: Parser) -> None:
    adding.add_argument(
        "--balance",
        choices=get_args(BalanceSource),
        default="auto",
        help="how the balance of the account is read; default: by its address",
    )
    adding.add_argument(
        "--low-balance", metavar="AMOUNT", help="the balance below which there is an alert"
    )


def add_group(parts: Subcommands, name: str, description: str, epilog: str) -> Subcommands:
    """Add a command with verbs."""
    parser = parts.add_parser(
        name, help=description, description=to_sentence(description), epilog=epilog
    )
    return parser.add_subparsers(title="verbs", metavar="VERB", required=True)


def add_verb(
    verbs: Subcommands,
    name: str,
    description: str,
    action: Callable[[Layout, argparse.Namespace], None],
    *,
    named: str = "",
) -> Parser:
    """Add one verb, with ``--json`` and, where it is about one ``named`` thing, its name."""
    parser = verbs.add_parser(name, help=description, description=to_sentence(description))
    if named:
        parser.add_argument("name", metavar="NAME", help=f"name of the {named}")
    add_json_option(parser)

    def run(args: argparse.Namespace) -> int:
        action(resolve_layout(args), args)
        return 0

    parser.set_defaults(run=run)
    return parser


def _add_channel(layout: Layout, args: argparse.Namespace) -> None:
    for secret in (*args.key, args.transport_url):
        if secret and not is_reference(secret):
            raise BadRequest(
                "Secrets in options are visible to other users of this machine: use env:NAME or"
                " file:PATH, or omit --key to be asked for the key"
            )
    if (args.transport is None) != (args.transport_url is None):
        raise BadRequest("--transport and --transport-url need each other")
    keys = [] if args.no_key else args.key or [_read_key(args.name)]
    transport = ChannelTransport(args.transport or "direct", args.transport_url or "")
    given = parse_request_options(args)
    _refuse_credentials(given.get("headers", {}))
    channel = Channel(
        name=args.name,
        dialects=tuple(args.dialect),
        url=args.url,
        key="".join(keys[:1]),
        keys=tuple(keys[1:]),
        local=args.local,
        transport=transport,
        balance=_parse_balance(args.balance, args.low_balance),
        **given,
    )
    _print_channel(channels_store.open_entries(layout).add(channel), "added", args)


def _refuse_credentials(headers: Mapping[str, str]) -> None:
    """Raise ``BadRequest`` for headers that would show a secret to others on this machine."""
    for name, value in headers.items():
        if is_credential_header(name, value):
            raise BadRequest(
                f"--header: {name[:40]} may be a secret, and options are visible to other users of"
                " this machine",
                "Write it into channels.yml, or add it in the browser.",
            )


def _parse_balance(source: BalanceSource, low: str | None) -> BalanceReading:
    try:
        return BalanceReading(source, None if low is None else Decimal(low))
    except (ValueError, InvalidOperation) as error:
        raise BadRequest(f"--low-balance: {low!r:.40} is not an amount") from error


def _read_key(name: str) -> str:
    """Return the supplier's key: typed without echo, or the first line of standard input."""
    if sys.stdin.isatty():
        key = getpass.getpass(f"key of {name} (empty for none): ")
    else:
        try:
            key = sys.stdin.readline()
        except UnicodeDecodeError as error:
            raise BadRequest("the key is not UTF-8") from error
    return key.strip()


def _list_channels(layout: Layout, args: argparse.Namespace) -> None:
    channels = [mask_channel(channel) for channel in channels_store.load(layout).values()]
    if args.json:
        print(json.dumps(msgspec.to_builtins(channels)))
    for channel in () if args.json else channels:
        state = "on" if channel.enabled else "off"
        if channel.auto_disabled:
            state = f"off since {channel.auto_disabled.at} ({channel.auto_disabled.reason})"
        transport = (
            "" if channel.transport.kind == "direct" else f" through {channel.transport.kind}"
        )
        keys = list(filter(None, (channel.key, *channel.keys)))
        key = f", key{'s' if len(keys) > 1 else ''} {', '.join(keys)}" if keys else ", no key"
        dialects = ", ".join(channel.dialects)
        print(f"{channel.name}: {state}, {channel.url}{transport} ({dialects}){key}")
    if not channels and not args.json:
        print("no channels; add one with: agentd proxy channel add NAME ...", file=sys.stderr)


def _enable_channels(layout: Layout, args: argparse.Namespace) -> None:
    _edit_channels(layout, args, "enabled", lambda old: structs.replace(old, enabled=True))


def _disable_channels(layout: Layout, args: argparse.Namespace) -> None:
    _edit_channels(layout, args, "disabled", lambda old: structs.replace(old, enabled=False))


def _remove_channels(layout: Layout, args: argparse.Namespace) -> None:
    models = models_store.load(layout)
    for name in args.names:
        if users := models.list_using(name):
            raise Conflict(f'Channel "{name}" is used by {", ".join(users)}; remove them first.')
    _edit_channels(layout, args, "removed", lambda _: None)


def _edit_channels(
    layout: Layout,
    args: argparse.Namespace,
    done: str,
    revise: Callable[[Channel], Channel | None],
) -> None:
    """Revise the channels in one write, all or none; ``None`` removes one."""

    def revise_channel(old: Channel) -> Channel | None:
        new = revise(old)
        return new and new.clear_outdated()

    pairs = channels_store.open_entries(layout).edit_all(args.names, revise_channel)
    _print_channels([one for old, new in pairs if (one := new or old)], done, args)


def _print_channel(channel: Channel, done: str, args: argparse.Namespace) -> None:
    _print_channels([channel], done, args)


def _print_channels(channels: Sequence[Channel], done: str, args: argparse.Namespace) -> None:
    """Print what they are now; as JSON one channel is an object, several are a list."""
    shown = [msgspec.to_builtins(mask_channel(channel)) for channel in channels]
    text = (
        f"channel{'s' if len(shown) > 1 else ''} {', '.join(one['name'] for one in shown)} {done}"
    )
    print_result(text, shown if len(shown) > 1 else shown[0], as_json=args.json)
