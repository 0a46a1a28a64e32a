"""What the command line shows of decisions about workspaces, and how one is withdrawn."""

import json
import sys
from collections.abc import Sequence

from agentd.agent.workspace_decisions import DecisionFile, WorkspaceDecision
from agentd.cli.output import print_result, print_table
from agentd.core.errors import BadRequest, NotFound

SHORT_ID = 12
_SHORTEST_ID = 4


def list_decisions(decisions: Sequence[WorkspaceDecision], nothing: str, *, as_json: bool) -> None:
    """Print decisions; ``nothing`` is said if there are none."""
    if as_json:
        print(json.dumps([_to_plain(one) for one in decisions]))
    elif decisions:
        print_table([_describe(one) for one in decisions])
    else:
        print(nothing, file=sys.stderr)


def withdraw_decisions(file: DecisionFile, wanted: str, listing: str, *, as_json: bool) -> None:
    """Withdraw the decision with this id or the beginning of it, or all about this name.

    ``listing`` is the command that lists them. Raises ``NotFound`` or ``BadRequest``.
    """
    known = file.load()
    named = [one for one in known if one.name == wanted]
    is_id = len(wanted) >= _SHORTEST_ID
    found = named or [one for one in known if is_id and one.digest.startswith(wanted)]
    if not found:
        raise NotFound(f'No decision has the name or id "{wanted[:100]}"', f"{listing} lists them")
    if not named and len(found) > 1:
        raise BadRequest(f'Several decisions begin with "{wanted[:100]}"')
    for one in found:
        file.withdraw(one.digest)
    text = f"{found[0].name} is asked about again"
    print_result(text, [_to_plain(one) for one in found], as_json=as_json)


def _to_plain(decision: WorkspaceDecision) -> dict[str, object]:
    return {
        "id": decision.digest,
        "name": decision.name,
        "decision": "allowed" if decision.allowed else "denied",
        "decidedAt": decision.at,
        "decidedBy": decision.by,
    }


def _describe(one: WorkspaceDecision) -> tuple[str, ...]:
    outcome = "allowed" if one.allowed else "denied"
    return one.digest[:SHORT_ID], outcome, one.at, one.by or "-", one.name
