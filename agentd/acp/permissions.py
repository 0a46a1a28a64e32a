"""A chat's open questions as requests to the editor, and the editor's answers. Pure."""

from typing import Any

from msgspec import Struct

from agentd.acp.messages import AcpJson, get_object, get_text
from agentd.acp.updates import Update, find_kind, make_approval_content, make_title

ALLOW, ALWAYS, DENY, NEVER = "allow", "always", "deny", "never"
_CHOICE = "choice-"
_FIELD = "answer"
_ELSEWHERE = "Answer it in the browser, or: agentd approve {} --note ANSWER"


class EditorQuestion(Struct, frozen=True):
    """A request to the editor."""

    method: str
    params: dict[str, Any]


def make_question(
    session: str, call_id: str, approval: AcpJson, root: str, *, forms: bool
) -> EditorQuestion:
    """Return the request that asks the person; ``forms``: the editor can show forms."""
    if approval["kind"] == "question" and forms:
        return EditorQuestion("elicitation/create", _make_form(session, approval))
    call = {"toolCallId": call_id, "status": "pending", **describe_question(approval, root)}
    params = {"sessionId": session, "toolCall": call, "options": _list_options(approval)}
    return EditorQuestion("session/request_permission", params)


def describe_question(approval: AcpJson, root: str) -> Update:
    """Return the title, the kind and the content of the tool call that is asked about."""
    if approval["kind"] == "question":
        title = next(iter(approval["subject"].splitlines()), "A question")
    else:
        title = make_title(approval["tool"], approval["subject"])
    content = make_approval_content(approval, root)
    if approval["kind"] == "question" and not approval["choices"]:
        text = _ELSEWHERE.format(approval["id"])
        content.append({"type": "content", "content": {"type": "text", "text": text}})
    return {"title": title, "kind": find_kind(approval["tool"]), "content": content}


def read_decision(approval: AcpJson, result: AcpJson) -> dict[str, object] | None:
    """Return the body of the decision; None where the editor left it open."""
    if "action" in result:
        return _read_form(result)
    outcome = get_object(result, "outcome")
    if outcome.get("outcome") != "selected":
        return None
    option = get_text(outcome, "optionId")
    if option.startswith(_CHOICE):
        number = option.removeprefix(_CHOICE)
        known = number.isdecimal() and int(number) < len(approval["choices"])
        return {"decision": "allow", "note": approval["choices"][int(number)]} if known else None
    if option in (ALLOW, ALWAYS):
        return {"decision": "allow", "session": option == ALWAYS}
    if option in (DENY, NEVER):
        return {"decision": "deny", "session": option == NEVER}
    return None


def _list_options(approval: AcpJson) -> list[dict[str, str]]:
    if approval["kind"] == "question":
        offered = [
            {"optionId": f"{_CHOICE}{number}", "name": choice, "kind": "allow_once"}
            for number, choice in enumerate(approval["choices"])
        ]
        return [*offered, {"optionId": DENY, "name": "Do not answer", "kind": "reject_once"}]
    allow = {"optionId": ALLOW, "name": "Allow", "kind": "allow_once"}
    deny = {"optionId": DENY, "name": "Deny", "kind": "reject_once"}
    if approval["kind"] == "budget":
        return [allow, deny]
    always = {"optionId": ALWAYS, "name": "Allow in this chat", "kind": "allow_always"}
    never = {"optionId": NEVER, "name": "Deny in this chat", "kind": "reject_always"}
    return [allow, always, deny, never]


def _make_form(session: str, approval: AcpJson) -> dict[str, Any]:
    field: dict[str, Any] = {"type": "string", "title": "Answer", "minLength": 1}
    if approval["choices"]:
        field["description"] = f"For example: {', '.join(approval['choices'])}"
    schema = {"type": "object", "properties": {_FIELD: field}, "required": [_FIELD]}
    return {
        "sessionId": session,
        "mode": "form",
        "message": approval["subject"],
        "requestedSchema": schema,
    }


def _read_form(result: AcpJson) -> dict[str, object] | None:
    match result["action"]:
        case "accept":
            answer = get_text(get_object(result, "content"), _FIELD)
            return {"decision": "allow", "note": answer[:1000]} if answer else None
        case "decline":
            return {"decision": "deny"}
    return None
