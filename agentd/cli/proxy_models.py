"""``agentd proxy model``: manage the models that callers of the gateway can name."""

import argparse
import json
import sys
from collections.abc import Callable, Mapping
from decimal import Decimal, InvalidOperation
from typing import Any

import msgspec
from msgspec import structs

from agentd.cli.options import Parser, Subcommands
from agentd.cli.output import print_result
from agentd.cli.proxy_channels import add_group, add_verb
from agentd.cli.proxy_prices import require_listed_prices
from agentd.cli.proxy_request_options import add_request_options, parse_request_options
from agentd.core.errors import BadRequest, Conflict
from agentd.gateway.catalogue.listed import take_listed_prices
from agentd.gateway.channels import store as channels_store
from agentd.gateway.channels.validation import require_known_channels
from agentd.gateway.models import store as proxy_models
from agentd.llm.price import Prices
from agentd.models import store as models_store
from agentd.models.gateway_model import GatewayModel, ModelRoute
from agentd.storage.layout import Layout

MODEL_EXAMPLES = """\
examples:
  agentd proxy model add sonnet --through anthropic=claude-sonnet-4-5 --input 3 --output 15
  agentd proxy model add haiku --through anthropic=claude-haiku-4-5 --from-catalogue
  agentd proxy model add gpt-5 --through openai --through azure=gpt5 --input 1.25 --output 10 \\
      --cache-read 0.125 --max-output 128000  openai first, azure if it fails

  agentd proxy model change sonnet --fallback gpt-5 --context-fallback large --context 200000
  agentd proxy model change sonnet --fallback none --parameters '{"set": {"temperature": 0.2}}'
  agentd proxy model disable sonnet          nobody can use it until it is enabled

Prices are USD per million tokens. Section proxy of models.yml may also be edited by hand.
"""

UNPRICED = """\
The model has no price (--input and --output, or --from-catalogue): unknown_price in proxy.yml
decides what happens to its requests; by default they are refused.\
"""

FALLBACKS = {
    "fallbacks": "when all its routes failed",
    "context_fallbacks": "when a request is too long",
    "content_fallbacks": "when a supplier refuses the content",
}
RATES = ("input", "output", "cache_read", "cache_write", "cache_write_1h", "reasoning")


def add_model_parser(parts: Subcommands) -> None:
    """Register ``agentd proxy model`` with argparse."""
    verbs = add_group(parts, "model", "manage the models that callers can name", MODEL_EXAMPLES)
    adding = add_verb(verbs, "add", "add a model", _add_model, named="model")
    _add_fields(adding, changing=False)
    adding.add_argument(
        "--from-catalogue",
        action="store_true",
        help="take the prices of agentd proxy prices, and the context size",
    )
    add_verb(verbs, "list", "list the models", _list_models)
    changing = add_verb(verbs, "change", "change a model", _change_model, named="model")
    _add_fields(changing, changing=True)
    for name, enabled in (("enable", True), ("disable", False)):
        what = "let callers use a model again" if enabled else "let nobody use a model"
        add_verb(verbs, name, what, _make_model_switch(enabled), named="model")
    add_verb(verbs, "remove", "remove a model", _remove_model, named="model")


def _add_fields(parser: Parser, *, changing: bool) -> None:
    parser.add_argument(
        "--through",
        action="append",
        required=not changing,
        metavar="CHANNEL[=MODEL]",
        help="a channel and the supplier's name of the model; repeatable, tried in this order",
    )
    for rate in RATES:
        option = f"--{rate.replace('_', '-')}"
        parser.add_argument(option, dest=rate, metavar="USD", help="price per million tokens")
    for option, what in (("max-output", "a reply"), ("context", "a conversation")):
        parser.add_argument(
            f"--{option}", type=int, metavar="TOKENS", help=f"most tokens of {what}"
        )
    none = "; none for none" if changing else ""
    for name, when in FALLBACKS.items():
        parser.add_argument(
            f"--{name.replace('_', '-').removesuffix('s')}",
            dest=name,
            action="append",
            metavar="MODEL",
            help=f"another model to try {when}; repeatable, in this order{none}",
        )
    add_request_options(parser)


def _parse_fields(args: argparse.Namespace) -> dict[str, Any]:
    """Return the fields that the options name, but the prices."""
    found: dict[str, Any] = parse_request_options(args)
    if args.through:
        found["routes"] = tuple(
            ModelRoute(channel=channel, model=name, priority=priority)
            for priority, (channel, _, name) in enumerate(
                one.partition("=") for one in args.through
            )
        )
    for name in ("max_output", "context"):
        if getattr(args, name) is not None:
            found[name] = getattr(args, name)
    for name in FALLBACKS:
        if (given := getattr(args, name)) is not None:
            found[name] = () if given == ["none"] else tuple(given)
    return found


def _add_model(layout: Layout, args: argparse.Namespace) -> None:
    model = GatewayModel(
        name=args.name, prices=_parse_prices(vars(args), None), **_parse_fields(args)
    )
    channels = channels_store.load(layout)
    require_known_channels(model, channels)
    if args.from_catalogue:
        model = take_listed_prices(model, require_listed_prices(layout, channels, model))
    _print_model(proxy_models.open_entries(layout).add(model), "added", args)
    if model.prices is None and not args.json:
        print(UNPRICED, file=sys.stderr)


def _change_model(layout: Layout, args: argparse.Namespace) -> None:
    fields, channels = _parse_fields(args), channels_store.load(layout)

    def revise(old: GatewayModel) -> GatewayModel:
        prices = _parse_prices(vars(args), old.prices)
        changed = structs.replace(old, prices=prices, **fields)
        require_known_channels(changed, channels)
        return changed

    if not fields and not any(getattr(args, rate) is not None for rate in RATES):
        raise BadRequest("nothing to change: give options such as --fallback or --input")
    _print_model(proxy_models.open_entries(layout).change(args.name, revise), "changed", args)


def _make_model_switch(enabled: bool) -> Callable[[Layout, argparse.Namespace], None]:
    def switch(layout: Layout, args: argparse.Namespace) -> None:
        edited = proxy_models.open_entries(layout).change(
            args.name, lambda old: structs.replace(old, enabled=enabled)
        )
        _print_model(edited, "enabled" if enabled else "disabled", args)

    return switch


def _parse_prices(typed: Mapping[str, str | None], before: Prices | None) -> Prices | None:
    """Return the prices with the rates of the options."""
    given: dict[str, Any] = {
        rate: _parse_usd(rate, text) for rate in RATES if (text := typed[rate]) is not None
    }
    if not given:
        return before
    if not before and not {"input", "output"} <= given.keys():
        raise BadRequest("A price needs both --input and --output")
    try:
        return structs.replace(before, **given) if before else Prices(**given)
    except ValueError as error:
        raise BadRequest(str(error)) from error


def _parse_usd(rate: str, text: str) -> Decimal:
    try:
        return Decimal(text)
    except InvalidOperation as error:
        raise BadRequest(f"--{rate.replace('_', '-')}: {text[:40]!r} is not a number") from error


def _list_models(layout: Layout, args: argparse.Namespace) -> None:
    models = models_store.load(layout).proxy
    if args.json:
        print(json.dumps(msgspec.to_builtins(models)))
    for model in () if args.json else models:
        routes = ", ".join(f"{one.channel}={one.model or model.name}" for one in model.routes)
        price = f"{model.prices.input}/{model.prices.output}" if model.prices else "no price"
        print(f"{model.name}: {'on' if model.enabled else 'off'}, {routes} ({price})")
    if not models and not args.json:
        print("no models; add one with: agentd proxy model add NAME ...", file=sys.stderr)


def _remove_model(layout: Layout, args: argparse.Namespace) -> None:
    if users := models_store.load(layout).list_falling_back_to(args.name):
        raise Conflict(f'"{args.name}" is a fallback of {", ".join(users)}; change them first.')
    _print_model(proxy_models.open_entries(layout).remove(args.name), "removed", args)


def _print_model(model: GatewayModel, done: str, args: argparse.Namespace) -> None:
    result = msgspec.to_builtins(model)
    print_result(f"model {model.name} {done}", result, as_json=args.json)
