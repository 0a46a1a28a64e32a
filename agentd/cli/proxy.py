"""``agentd proxy``: what a person does about the model gateway; one module per part of it."""

from collections.abc import Callable

from agentd.cli import (
    proxy_channels,
    proxy_check,
    proxy_export,
    proxy_keys,
    proxy_secrets,
    proxy_spend,
)
from agentd.cli.options import Subcommands

PARTS: tuple[Callable[[Subcommands], None], ...] = (
    proxy_keys.add_parser,
    proxy_channels.add_channel_parser,
    proxy_channels.add_model_parser,
    proxy_check.add_parser,
    proxy_spend.add_parser,
    proxy_export.add_parser,
    proxy_secrets.add_parser,
)
"""Each tells argparse about its commands below ``agentd proxy``."""


def add_parser(commands: Subcommands) -> None:
    """Tell argparse about the command."""
    parser = commands.add_parser(
        "proxy",
        help="the model gateway: its keys, channels, models and spending",
        description="The model gateway, whether or not the daemon runs.",
    )
    parts = parser.add_subparsers(title="parts", metavar="PART", required=True)
    for add in PARTS:
        add(parts)
