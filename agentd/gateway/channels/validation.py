"""All channels of ``channels.yml`` together: what does not fit in them."""

from collections.abc import Collection, Iterator, Sequence

from agentd.core.errors import BadRequest, iter_repeated, suggest_name
from agentd.core.secret_text import explain_malformed_secret, is_reference
from agentd.gateway.channels.model import Channel
from agentd.gateway.vpn.links import parse_link
from agentd.llm.endpoint import ChannelTransport
from agentd.llm.parameters import validate_parameters
from agentd.llm.proxy_address import parse_proxy_address
from agentd.llm.upstream.header_rules import find_header_problem, is_credential_header
from agentd.llm.upstream.public_addresses import may_be_public
from agentd.llm.upstream.request import explain_malformed_address, parse_origin
from agentd.models.gateway_model import GatewayModel


def validate(
    channels: Sequence[Channel],
) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Yield problems that the schema cannot express: the place below the list, and why.

    No secret is repeated.
    """
    for number, name in iter_repeated(channel.name for channel in channels):
        yield (number, "name"), f'"{name}" is the name of a channel above; choose another'
    for number, channel in enumerate(channels):
        for which, dialect in iter_repeated(channel.dialects):
            yield (number, "dialects", which), f"{dialect} is listed twice"
        if wrong := explain_malformed_secret(channel.key):
            yield (number, "key"), wrong
        yield from (((number, *place), what) for place, what in _validate_keys(channel))
        if wrong := explain_malformed_address(channel.url):
            yield (number, "url"), wrong
        elif not (channel.local or may_be_public(parse_origin(channel.url).host)):
            yield (
                (number, "url"),
                "leads to this machine or its network; allow it with local: true (--local)",
            )
        yield from (
            ((number, "transport"), what) for what in _validate_transport(channel.transport)
        )
        for name, value in channel.headers.items():
            if wrong := find_header_problem(name, value):
                yield (number, "headers", name), wrong
        if channel.parameters is not None:
            for place, what in validate_parameters(channel.parameters):
                yield (number, "parameters", *place), what


def require_known_channels(
    model: GatewayModel, channels: Collection[str], before: GatewayModel | None = None
) -> GatewayModel:
    """Return the model, if each of its routes uses one of these channels, or did ``before``.

    Raises ``BadRequest`` with the nearest name.
    """
    known = {route.channel for route in before.routes} if before else set()
    for route in model.routes:
        if route.channel not in channels and route.channel not in known:
            near = suggest_name(route.channel, channels) or "; there are none yet"
            raise BadRequest(
                f'There is no channel "{route.channel[:100]}"{near}',
                "Add the channel first, then the model that uses it.",
            )
    return model


def holds_secret(channel: Channel) -> bool:
    """Return whether a secret itself stands in the file, so that nobody else may read it."""
    headers = [
        value for name, value in channel.headers.items() if is_credential_header(name, value)
    ]
    return any(
        secret and not is_reference(secret)
        for secret in (channel.key, *channel.keys, channel.transport.url, *headers)
    )


def _validate_keys(channel: Channel) -> Iterator[tuple[tuple[str | int, ...], str]]:
    known = {channel.key}
    for number, key in enumerate(channel.keys):
        if not key:
            yield ("keys", number), "is empty; remove it"
        elif wrong := explain_malformed_secret(key):
            yield ("keys", number), wrong
        elif key in known:
            yield ("keys", number), "is listed twice; remove one of them"
        known.add(key)


def _validate_transport(transport: ChannelTransport) -> Iterator[str]:
    kind, url = transport.kind, transport.url
    if kind == "direct" and (url or transport.server):
        yield "url and server mean nothing to kind direct; remove them, or name another kind"
    if kind != "direct" and not url:
        yield f'"url" is missing; kind {kind} needs it'
    if kind in ("http", "socks5") and transport.server:
        yield f'"server" means nothing to kind {kind}; remove it'
    if wrong := explain_malformed_secret(url):
        yield f"url: {wrong}"
    elif kind == "vpn" and url and not is_reference(url):
        yield from _validate_link(url)
    elif kind in ("http", "socks5") and url and not is_reference(url):
        try:
            parse_proxy_address(transport)
        except BadRequest as error:
            yield f"url: {error.message}"


def _validate_link(url: str) -> Iterator[str]:
    """Find what is wrong with a VPN's link, or a subscription's address; nothing is repeated."""
    if url.lower().startswith(("http://", "https://")):
        if explain_malformed_address(url):
            yield "url: the host or port of the subscription's address is not valid"
        return
    try:
        parse_link(url)
    except BadRequest as error:
        yield (
            f"url: {error.message}; expected a link such as vless://… or ss://…, or the https"
            " address of a subscription"
        )
