"""``agentd proxy channel state``: how the running daemon finds its channels."""

import argparse
import json
from typing import Any
from urllib.parse import quote

from agentd.cli.management_key import open_management
from agentd.cli.output import excerpt


def show_state(args: argparse.Namespace) -> int:
    """Show the live state of the named channels, or of all."""
    with open_management(args) as client:
        names = args.names or [one["name"] for one in client.list_managed("channels")]
        found = [
            client.request("GET", f"/api/agent/channels/{quote(name, safe='')}/state")
            for name in names
        ]
    if args.json:
        print(json.dumps(found))
        return 0
    for state in found:
        print("\n".join(map(excerpt, _describe(state))))
    return 0


def _describe(state: dict[str, Any]) -> list[str]:
    lines = [f"{state['name']}: {state['state']}"]
    if state["cooldownUntil"]:
        lines[0] += f" until {state['cooldownUntil']} ({state['cooldownReason']})"
    lines[0] += f", {state['succeeded']} calls succeeded and {state['failed']} failed"
    recent = state["recent"]
    if recent["successRate"] is not None:
        first = recent["firstTokenMsP50"]
        begun = f", first token after {first:.0f} ms at the median" if first is not None else ""
        lines.append(f"  last {recent['calls']}: {recent['successRate']:.0%} succeeded{begun}")
    for model in state["modelCooldowns"]:
        lines.append(
            f"  {model['supplierModel']}: cooldown until {model['until']} ({model['reason']})"
        )
    for key in state["keys"]:
        until = f" until {key['cooldownUntil']}" if key["cooldownUntil"] else ""
        lines.append(f"  key {key['key']}: {key['state']}{until}")
    if failure := state["lastFailure"]:
        lines.append(f"  last failure at {failure['at']}: {failure['error']} {failure['detail']}")
    return lines
