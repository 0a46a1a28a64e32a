"""The agent's questions, as forms that a client shows to the person, and their answers. Pure."""

import re
from collections.abc import Iterable, Mapping

from msgspec import Struct

from agentd.chats.views import ApprovalView
from agentd.core.redaction import escape_lines
from agentd.mcp.messages import JsonObject, is_object

ASK = "elicitation/create"
"""The method by which a server asks the person through the client."""
MAX_SHOWN = 4000
"""Characters of a question that the form shows; a longer one is answered elsewhere."""
_MAX_NOTE = 1000
_NAME = re.compile("question-([1-9][0-9]{0,15})", re.ASCII)


class Decision(Struct, frozen=True):
    """A person's answer."""

    allowed: bool
    session: bool = False
    note: str = ""

    @property
    def body(self) -> JsonObject:
        """The body of the request that records it."""
        decision = "allow" if self.allowed else "deny"
        return {"decision": decision, "session": self.session, "note": self.note}


def can_be_shown(question: ApprovalView) -> bool:
    """Return whether a form can show a question in full: nobody decides about what is cut off."""
    return len(_write_message(question)) <= MAX_SHOWN


def make_form(question: ApprovalView) -> JsonObject:
    """Return the parameters of the request that shows a question to the person."""
    asks = question.kind == "question"
    properties = _list_answer_fields(question.choices) if asks else _DECISION_FIELDS
    schema: JsonObject = {"type": "object", "properties": properties}
    if not asks:
        schema["required"] = ["decision"]
    return {"mode": "form", "message": _write_message(question), "requestedSchema": schema}


def name_question(question: ApprovalView) -> str:
    """Return the name of a question among those of one result."""
    return f"question-{question.id}"


def find_answers(answers: Mapping[str, object]) -> dict[int, JsonObject]:
    """Return the answers in a repeated request by the question's id; other entries are ignored."""
    found: dict[int, JsonObject] = {}
    for name, answer in answers.items():
        if (matched := _NAME.fullmatch(name)) and is_object(answer):
            found[int(matched[1])] = answer
    return found


def read_answer(question: ApprovalView, answer: Mapping[str, object]) -> Decision | None:
    """Return the decision in a client's answer; None if the person made none.

    Whatever is not a clear permission is none.
    """
    if answer.get("action") == "decline":
        return Decision(False)
    content = answer.get("content")
    if answer.get("action") != "accept" or not is_object(content):
        return None
    if question.kind == "question":
        text = _read_text(content, "answer") or _read_text(content, "choice")
        return Decision(True, note=text) if text else None
    match content.get("decision"):
        case "allow":
            return Decision(True, content.get("session") is True, _read_text(content, "note"))
        case "deny":
            return Decision(False, content.get("session") is True, _read_text(content, "note"))
    return None


def _read_text(content: Mapping[str, object], name: str) -> str:
    found = content.get(name)
    return found.strip()[:_MAX_NOTE] if isinstance(found, str) else ""


def _list_answer_fields(choices: Iterable[str]) -> JsonObject:
    fields: JsonObject = {}
    if offered := list(choices):
        fields["choice"] = {"type": "string", "title": "Choice", "enum": offered}
    title = "Another answer" if fields else "Answer"
    return {**fields, "answer": {"type": "string", "title": title, "maxLength": _MAX_NOTE}}


_DECISION_FIELDS: JsonObject = {
    "decision": {
        "type": "string",
        "title": "Decision",
        "enum": ["allow", "deny"],
        "enumNames": ["Allow", "Deny"],
    },
    "session": {
        "type": "boolean",
        "title": "Also for the same question later in this chat",
        "default": False,
    },
    "note": {"type": "string", "title": "Note for the agent", "maxLength": _MAX_NOTE},
}


def _write_message(question: ApprovalView) -> str:
    if question.kind == "question":
        return question.subject
    parts = [f"Chat {question.chat_id}: may the agent use {question.tool}?", question.subject]
    if question.detail and question.detail.kind == "diff":
        parts.append(question.detail.text)
    return escape_lines("\n\n".join(part for part in (*parts, question.reason) if part))
