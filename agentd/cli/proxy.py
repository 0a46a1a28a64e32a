"""``agentd proxy``: commands for the model gateway; one module per part of it."""

from collections.abc import Callable

from agentd.cli import (
    proxy_alerts,
    proxy_budgets,
    proxy_changes,
    proxy_channels,
    proxy_check,
    proxy_export,
    proxy_import,
    proxy_keys,
    proxy_management_keys,
    proxy_models,
    proxy_prices,
    proxy_secrets,
    proxy_spend,
)
from agentd.cli.options import Subcommands

PARTS: tuple[Callable[[Subcommands], None], ...] = (
    proxy_keys.add_parser,
    proxy_budgets.add_parser,
    proxy_management_keys.add_parser,
    proxy_channels.add_channel_parser,
    proxy_models.add_model_parser,
    proxy_prices.add_parser,
    proxy_changes.add_batch_parser,
    proxy_changes.add_changes_parser,
    proxy_changes.add_reprice_parser,
    proxy_alerts.add_parser,
    proxy_check.add_parser,
    proxy_spend.add_parser,
    proxy_export.add_parser,
    proxy_import.add_parser,
    proxy_secrets.add_parser,
)
"""Each registers its commands below ``agentd proxy``."""

NEED_DAEMON = """\
batch, changes, reprice, alert, import and channel state ask the running daemon, with the management
key. All others also work while no daemon runs.
"""


def add_parser(commands: Subcommands) -> None:
    """Register the command with argparse."""
    parser = commands.add_parser(
        "proxy",
        help="manage the model gateway: access keys, budgets, channels, models, spending",
        description="Manage the model gateway.",
        epilog=NEED_DAEMON,
    )
    parts = parser.add_subparsers(title="parts", metavar="PART", required=True)
    for add in PARTS:
        add(parts)
