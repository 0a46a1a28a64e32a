"""A gateway whose alerts go to receivers on loopback."""

import json
from pathlib import Path
from typing import Any

from tests.gateway.alerts.receiver import WEBHOOK_SECRET, AlertReceiver
from tests.gateway.conftest import GatewaySetup


def build_target(receiver: AlertReceiver, name: str = "ops", **more: Any) -> dict[str, Any]:
    """Build a webhook to a receiver that hears of everything at once."""
    known = {"name": name, "url": receiver.url, "secret": WEBHOOK_SECRET, "local": True}
    return {**known, "min_interval": 0, **more}


def write_targets(setup: GatewaySetup, *targets: dict[str, Any]) -> None:
    """Write ``alerts.yml``."""
    path = Path(setup.layout.alert_targets)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"targets": list(targets)}))
    path.chmod(0o600)
