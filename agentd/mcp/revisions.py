"""The revisions of the protocol: how client and server agree on one, and what differs. Pure.

Since revision 2026-07-28 each request carries its revision and the client's capabilities; before,
a client agrees on both once, by ``initialize``, and then belongs to a session.
"""

import base64
import binascii
from collections.abc import Mapping

from msgspec import Struct

from agentd import __version__
from agentd.mcp.messages import (
    HEADER_MISMATCH,
    INVALID_PARAMS,
    UNSUPPORTED_REVISION,
    JsonObject,
    McpError,
    McpMessage,
    McpNotification,
    McpRequest,
    is_object,
)

SESSIONLESS = "2026-07-28"
"""The newest revision: without sessions."""
WITH_SESSIONS = ("2025-11-25", "2025-06-18")
"""The two revisions before, the newer one first."""
REVISIONS = (SESSIONLESS, *WITH_SESSIONS)

_META = "io.modelcontextprotocol/"
META_REVISION = f"{_META}protocolVersion"
META_CAPABILITIES = f"{_META}clientCapabilities"
META_SERVER = f"{_META}serverInfo"
META_SUBSCRIPTION = f"{_META}subscriptionId"

SERVER_INFO: JsonObject = {"name": "agentd", "title": "agentd", "version": __version__}
CAPABILITIES: JsonObject = {
    "tools": {"listChanged": False},
    "resources": {"subscribe": True, "listChanged": True},
}
INSTRUCTIONS = (
    "agentd runs coding agents on this workstation. create_chat starts one with a prompt;"
    " wait_for_chat returns when it is done or has a question; read_messages shows what it did."
    " Chats keep their context: queue_prompt continues one. A question of an agent (list_questions)"
    " is a decision for the person: answer_question only with their consent."
)
"""Instructions about the server, which a client passes to its model."""

_NAMED = {"tools/call": "name", "resources/read": "uri", "prompts/get": "name"}
"""The parameter that the header ``Mcp-Name`` repeats, by method."""


class ClientProfile(Struct, frozen=True):
    """The revision that a client speaks, and its capabilities."""

    revision: str
    can_ask: bool
    """True if it can ask the person (elicitation by a form)."""

    @property
    def has_session(self) -> bool:
        """True for revisions whose clients belong to a session."""
        return self.revision != SESSIONLESS


class RoutingHeaders(Struct, frozen=True):
    """The headers that repeat parts of a message; None where they are absent."""

    revision: str | None = None
    method: str | None = None
    name: str | None = None


def negotiate_revision(wanted: object) -> str:
    """Return the revision of a new session: the wanted one, or else the newest with sessions."""
    return wanted if isinstance(wanted, str) and wanted in WITH_SESSIONS else WITH_SESSIONS[0]


def can_ask(capabilities: Mapping[str, object]) -> bool:
    """Return whether a client with these capabilities can show a form to the person."""
    asking = capabilities.get("elicitation")
    return is_object(asking) and ("form" in asking or not asking)


def belongs_to_session(message: McpMessage, headers: RoutingHeaders) -> bool:
    """Return whether a message is meant for a session (or begins one), not sessionless."""
    if isinstance(message, McpRequest):
        if message.method == "initialize":
            return True
        if META_REVISION in message.meta:
            return False
    return headers.revision is None or headers.revision in WITH_SESSIONS


def check_sessionless_request(request: McpRequest, headers: RoutingHeaders) -> ClientProfile:
    """Return the capabilities of the client of a sessionless request; raises ``McpError``.

    The headers must say the same as the body, so that a proxy that looks at them alone is not
    deceived.
    """
    revision, capabilities = request.meta.get(META_REVISION), request.meta.get(META_CAPABILITIES)
    if headers.revision is None or (revision is not None and headers.revision != revision):
        raise _make_mismatch("MCP-Protocol-Version", META_REVISION)
    check_sessionless_revision(headers.revision)
    if revision is None or not is_object(capabilities):
        raise McpError(
            INVALID_PARAMS,
            f"params._meta must have {META_REVISION} and {META_CAPABILITIES} (an object)",
        )
    if headers.method != request.method:
        raise _make_mismatch("Mcp-Method", "method")
    field = _NAMED.get(request.method)
    named = request.params.get(field) if field else None
    if named is not None and decode_header(headers.name) != named:
        raise _make_mismatch("Mcp-Name", f"params.{field}")
    return ClientProfile(headers.revision, can_ask(capabilities))


def check_sessionless_revision(revision: str | None) -> None:
    """Raise ``McpError`` unless a sessionless request or notification is of a known revision."""
    if revision != SESSIONLESS:
        raise McpError(
            UNSUPPORTED_REVISION,
            "This revision of the protocol is not supported",
            data={"supported": list(REVISIONS), "requested": revision or ""},
        )


def check_session_revision(revision: str | None, agreed: str) -> None:
    """Raise ``McpError`` if a message of a session names another revision than was agreed on."""
    if revision is not None and revision != agreed:
        raise McpError(
            INVALID_PARAMS, f"MCP-Protocol-Version must be {agreed}, as agreed on by initialize"
        )


def decode_header(value: str | None) -> str | None:
    """Return the value of ``Mcp-Name``, which may be in Base64; None if it is broken or absent."""
    if value is None or not (value.startswith("=?base64?") and value.endswith("?=")):
        return value
    try:
        return base64.b64decode(value[9:-2], validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return None


def encode_header(value: str) -> str:
    """Return a value as ``Mcp-Name`` can carry it."""
    is_plain = value.isascii() and value.isprintable() and value == value.strip()
    if is_plain and not (value.startswith("=?base64?") and value.endswith("?=")):
        return value
    return f"=?base64?{base64.b64encode(value.encode('utf-8', 'replace')).decode()}?="


def find_revision(message: Mapping[str, object]) -> str:
    """Return the revision that a client's message carries; empty: it belongs to a session."""
    params = message.get("params")
    meta = params.get("_meta") if is_object(params) else None
    found = meta.get(META_REVISION) if is_object(meta) else None
    return found if isinstance(found, str) and found.isascii() and found.isprintable() else ""


def list_routing_headers(message: Mapping[str, object], revision: str) -> dict[str, str]:
    """Return the headers that repeat parts of a sessionless message."""
    method = message.get("method")
    headers = {"MCP-Protocol-Version": revision}
    if isinstance(method, str):
        headers["Mcp-Method"] = encode_header(method)
        params, field = message.get("params"), _NAMED.get(method)
        named = params.get(field) if field and is_object(params) else None
        if isinstance(named, str):
            headers["Mcp-Name"] = encode_header(named)
    return headers


def complete_result(
    profile: ClientProfile, result: Mapping[str, object], cache_seconds: int | None = None
) -> JsonObject:
    """Return a result as the client's revision has it.

    ``cache_seconds`` is how long the client may keep it; None where that is not told.
    """
    if profile.has_session:
        return dict(result)
    complete: JsonObject = {"resultType": "complete", **result}
    if cache_seconds is not None:
        complete |= {"ttlMs": cache_seconds * 1000, "cacheScope": "private"}
    meta = result.get("_meta")
    complete["_meta"] = {META_SERVER: SERVER_INFO, **(meta if is_object(meta) else {})}
    return complete


def describe_server(revision: str) -> JsonObject:
    """Return the result of ``initialize``."""
    return {
        "protocolVersion": revision,
        "capabilities": CAPABILITIES,
        "serverInfo": SERVER_INFO,
        "instructions": INSTRUCTIONS,
    }


def describe_discovery() -> JsonObject:
    """Return the result of ``server/discover``."""
    return {
        "supportedVersions": list(REVISIONS),
        "capabilities": CAPABILITIES,
        "instructions": INSTRUCTIONS,
    }


def is_cancellation(message: McpNotification) -> bool:
    """Return whether a notification cancels a request."""
    return message.method == "notifications/cancelled"


def _make_mismatch(header: str, field: str) -> McpError:
    return McpError(
        HEADER_MISMATCH, f"The header {header} must be there and say the same as {field}"
    )
