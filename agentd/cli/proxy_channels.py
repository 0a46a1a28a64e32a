"""``agentd proxy channel`` and ``agentd proxy model``: the gateway's suppliers and models."""

import argparse
import getpass
import json
import sys
from collections.abc import Callable, Mapping
from decimal import Decimal, InvalidOperation
from typing import Any, get_args

import msgspec
from msgspec import structs

from agentd.cli.options import Parser, Subcommands, layout
from agentd.disk import channels, models, proxy_models
from agentd.disk.layout import Layout
from agentd.errors import BadRequest, Conflict
from agentd.proxy.channel import (
    Channel,
    ChannelDialect,
    ProxyModel,
    Transport,
    Way,
    is_reference,
)
from agentd.proxy.channels import reachable
from agentd.proxy.masking import shown
from agentd.proxy.price import Prices

CHANNEL_EXAMPLES = """\
examples:
  agentd proxy channel add anthropic --dialect anthropic --url https://api.anthropic.com
                                             asks for the key, without showing it
  agentd proxy channel add openai --dialect openai-responses --dialect openai-chat \\
      --url https://api.openai.com/v1 --key env:OPENAI_API_KEY
  agentd proxy channel add here --dialect openai-chat --url http://127.0.0.1:11434 --local --no-key
  agentd proxy channel disable openai        a running daemon uses it no more at once

channels.yml in the config folder may be edited by hand; your comments stay.
"""

MODEL_EXAMPLES = """\
examples:
  agentd proxy model add sonnet --through anthropic=claude-sonnet-4-5 --input 3 --output 15
  agentd proxy model add gpt-5 --through openai --through azure=gpt5 --input 1.25 --output 10 \\
      --cache-read 0.125 --max-output 128000  openai first, azure when that fails

Prices are USD per million tokens. Section proxy of models.yml may be edited by hand, too.
"""

UNPRICED = """\
It has no price: its requests are refused until it has one (--input and --output), or as
unknown_price in proxy.yml says.\
"""

RATES = ("input", "output", "cache_read", "cache_write", "cache_write_1h", "reasoning")


def add_channel_parser(parts: Subcommands) -> None:
    """Tell argparse about ``agentd proxy channel``."""
    verbs = _part(parts, "channel", "the suppliers of the gateway", CHANNEL_EXAMPLES)
    adding = _verb(verbs, "add", "one more channel", _add_channel, named=True)
    adding.add_argument(
        "--dialect",
        action="append",
        required=True,
        choices=get_args(ChannelDialect),
        help="what it understands, the preferred one first",
    )
    adding.add_argument("--url", required=True, help="the supplier's base address")
    adding.add_argument("--key", metavar="WHERE", help="env:NAME or file:PATH; else it is asked")
    adding.add_argument("--no-key", action="store_true", help="it needs none")
    adding.add_argument("--local", action="store_true", help="it is on this machine or network")
    adding.add_argument(
        "--transport", choices=("http", "socks5", "vpn"), help="how it is reached, if not directly"
    )
    adding.add_argument(
        "--transport-url", metavar="WHERE", help="env:NAME or file:PATH of the proxy's address"
    )
    _verb(verbs, "list", "list the channels", _list_channels)
    _verb(verbs, "enable", "use a channel again", _switch(True), named=True)
    _verb(verbs, "disable", "use a channel no more", _switch(False), named=True)
    _verb(verbs, "remove", "take a channel away", _remove_channel, named=True)


def add_model_parser(parts: Subcommands) -> None:
    """Tell argparse about ``agentd proxy model``."""
    verbs = _part(parts, "model", "the models that callers can name", MODEL_EXAMPLES)
    adding = _verb(verbs, "add", "one more model", _add_model, named=True)
    adding.add_argument(
        "--through",
        action="append",
        required=True,
        metavar="CHANNEL[=MODEL]",
        help="a channel, and the supplier's name of the model; they are tried in this order",
    )
    for rate in RATES:
        option = f"--{rate.replace('_', '-')}"
        adding.add_argument(option, dest=rate, metavar="USD", help="for a million tokens")
    adding.add_argument("--max-output", type=int, metavar="TOKENS", help="the longest reply")
    _verb(verbs, "list", "list the models", _list_models)
    _verb(verbs, "remove", "take a model away", _remove_model, named=True)


def _part(parts: Subcommands, name: str, told: str, epilog: str) -> Subcommands:
    parser = parts.add_parser(name, help=told, description=told, epilog=epilog)
    return parser.add_subparsers(title="verbs", metavar="VERB", required=True)


def _verb(
    verbs: Subcommands,
    name: str,
    told: str,
    do: Callable[[Layout, argparse.Namespace], None],
    *,
    named: bool = False,
) -> Parser:
    """One verb. It answers in JSON when asked to."""
    parser = verbs.add_parser(name, help=told, description=told)
    if named:
        parser.add_argument("name", metavar="NAME")
    parser.add_argument("--json", action="store_true", help="answer in JSON")

    def run(args: argparse.Namespace) -> int:
        do(layout(args), args)
        return 0

    parser.set_defaults(run=run)
    return parser


def _add_channel(where: Layout, args: argparse.Namespace) -> None:
    for given in (args.key, args.transport_url):
        if given and not is_reference(given):
            raise BadRequest(
                "What is typed as an option is seen by others on this machine; name it as env:NAME"
                " or file:PATH, or leave --key out and it is asked for"
            )
    transport = Transport(args.transport or "direct", args.transport_url or "")
    channel = Channel(
        name=args.name,
        dialects=tuple(args.dialect),
        url=args.url,
        key="" if args.no_key else args.key or _asked(args.name),
        local=args.local,
        transport=transport,
    )
    _tell_channel(channels.entries(where).add(channel), "added", args)


def _asked(name: str) -> str:
    """The supplier's key: typed unseen, or the first line of standard input."""
    if sys.stdin.isatty():
        key = getpass.getpass(f"key of {name} (empty: none): ")
    else:
        key = sys.stdin.readline()
    return key.strip()


def _list_channels(where: Layout, args: argparse.Namespace) -> None:
    known = [shown(channel) for channel in channels.load(where).values()]
    if args.json:
        print(json.dumps(msgspec.to_builtins(known)))
    for channel in () if args.json else known:
        state = "on" if channel.enabled else "off"
        way = "" if channel.transport.kind == "direct" else f" through {channel.transport.kind}"
        key = f", key {channel.key}" if channel.key else ", no key"
        dialects = ", ".join(channel.dialects)
        print(f"{channel.name}: {state}, {channel.url}{way} ({dialects}){key}")
    if not known and not args.json:
        print("none; add one with: agentd proxy channel add NAME ...", file=sys.stderr)


def _switch(enabled: bool) -> Callable[[Layout, argparse.Namespace], None]:
    def do(where: Layout, args: argparse.Namespace) -> None:
        edited = channels.entries(where).change(
            args.name, lambda old: structs.replace(old, enabled=enabled)
        )
        _tell_channel(edited, "enabled" if enabled else "disabled", args)

    return do


def _remove_channel(where: Layout, args: argparse.Namespace) -> None:
    if users := models.load(where).using(args.name):
        raise Conflict(f'Channel "{args.name}" is used by {", ".join(users)}; remove these first.')
    _tell_channel(channels.entries(where).remove(args.name), "removed", args)


def _add_model(where: Layout, args: argparse.Namespace) -> None:
    ways = []
    for priority, through in enumerate(args.through):
        channel, _, name = through.partition("=")
        ways.append(Way(channel=channel, model=name, priority=priority))
    model = ProxyModel(
        name=args.name, ways=tuple(ways), prices=_prices(vars(args)), max_output=args.max_output
    )
    reachable(model, channels.load(where))
    _tell_model(proxy_models.entries(where).add(model), "added", args)
    if model.prices is None and not args.json:
        print(UNPRICED, file=sys.stderr)


def _prices(typed: Mapping[str, str | None]) -> Prices | None:
    given: dict[str, Any] = {
        rate: _usd(rate, told) for rate in RATES if (told := typed[rate]) is not None
    }
    if not given:
        return None
    if not {"input", "output"} <= given.keys():
        raise BadRequest("A price needs both --input and --output")
    try:
        return Prices(**given)
    except ValueError as error:
        raise BadRequest(str(error)) from error


def _usd(rate: str, told: str) -> Decimal:
    try:
        return Decimal(told)
    except InvalidOperation as error:
        raise BadRequest(f"--{rate.replace('_', '-')}: {told[:40]!r} is no number") from error


def _list_models(where: Layout, args: argparse.Namespace) -> None:
    known = models.load(where).proxy
    if args.json:
        print(json.dumps(msgspec.to_builtins(known)))
    for model in () if args.json else known:
        ways = ", ".join(f"{way.channel}={way.model or model.name}" for way in model.ways)
        price = f"{model.prices.input}/{model.prices.output}" if model.prices else "no price"
        print(f"{model.name}: {'on' if model.enabled else 'off'}, {ways} ({price})")
    if not known and not args.json:
        print("none; add one with: agentd proxy model add NAME ...", file=sys.stderr)


def _remove_model(where: Layout, args: argparse.Namespace) -> None:
    _tell_model(proxy_models.entries(where).remove(args.name), "removed", args)


def _tell_channel(channel: Channel, done: str, args: argparse.Namespace) -> None:
    _tell(shown(channel), channel.name, done, args)


def _tell_model(model: ProxyModel, done: str, args: argparse.Namespace) -> None:
    _tell(model, model.name, done, args)


def _tell(entry: object, name: str, done: str, args: argparse.Namespace) -> None:
    if args.json:
        print(json.dumps(msgspec.to_builtins(entry)))
    else:
        print(f"{name} {done}", file=sys.stderr)
