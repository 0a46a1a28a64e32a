"""An alert as a request to its target: signed JSON, a chat's webhook, or plain text. Pure.

Source: the specification of Standard Webhooks (https://www.standardwebhooks.com), and the
documentation of the incoming webhooks of Slack and Discord, and of ntfy.
"""

import base64
import binascii
import hashlib
import hmac
from typing import Any

import msgspec

from agentd.core.clock import Timestamp, parse_iso
from agentd.gateway.alerts.model import EVENTS, TEST, Alert, AlertTarget
from agentd.llm.upstream.protocol import Timeouts, UpstreamRequest

SECRET_PREFIX = "whsec_"  # noqa: S105 - the prefix of every secret
MIN_SECRET_BYTES, MAX_SECRET_BYTES = 24, 64
"""The size of a webhook's secret, as Standard Webhooks recommends it."""
TIMEOUTS = Timeouts(connect=10, head=15, idle=10, total=20)

_TITLES = {
    "limit_near": "Limit nearly used",
    "limit_hit": "Limit reached",
    "channel_down": "Channel down",
    "channel_disabled": "Channel disabled",
    "balance_low": "Balance low",
    "secret_found": "Secret found",
    "export_failing": "Export failing",
    "ledger_failing": "Ledger not writable",
    "error_rate": "High error rate",
    TEST: "Test",
}


def build_request(alert: Alert, target: AlertTarget, now: Timestamp) -> UpstreamRequest:
    """Return the request; the target's address and secret are resolved."""
    headers: dict[str, str] = {"user-agent": "agentd"}
    match target.kind:
        case "webhook":
            body = msgspec.json.encode(_build_payload(alert))
            headers |= {"content-type": "application/json"}
            headers |= sign(alert.id, int(parse_iso(now).timestamp()), body, target.secret)
        case "slack":
            body = msgspec.json.encode({"text": _escape_for_slack(format_message(alert))})
            headers["content-type"] = "application/json"
        case "discord":
            message: dict[str, Any] = {"content": format_message(alert)}
            message["allowed_mentions"] = {"parse": []}
            body = msgspec.json.encode(message)
            headers["content-type"] = "application/json"
        case "text" | "telegram":
            body = format_message(alert).encode()
            headers["content-type"] = "text/plain; charset=utf-8"
            if target.secret:
                headers["authorization"] = f"Bearer {target.secret}"
    return UpstreamRequest("POST", target.url, headers, body, TIMEOUTS)


def sign(message_id: str, timestamp: int, body: bytes, secret: str) -> dict[str, str]:
    """Return the headers of Standard Webhooks for a body sent at a time in Unix seconds."""
    signed = b"%b.%d.%b" % (message_id.encode(), timestamp, body)
    digest = hmac.new(decode_secret(secret), signed, hashlib.sha256).digest()
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": f"v1,{base64.b64encode(digest).decode()}",
    }


def decode_secret(secret: str) -> bytes:
    """Return the bytes of a webhook's secret. Raises ``ValueError``, without repeating it."""
    try:
        if not secret.startswith(SECRET_PREFIX):
            raise ValueError
        key = base64.b64decode(secret.removeprefix(SECRET_PREFIX), validate=True)
    except (ValueError, binascii.Error):
        raise ValueError(f"expected {SECRET_PREFIX} and base64, {_ADVICE}") from None
    if not MIN_SECRET_BYTES <= len(key) <= MAX_SECRET_BYTES:
        size = f"{MIN_SECRET_BYTES} to {MAX_SECRET_BYTES} bytes"
        raise ValueError(f"has {len(key)} bytes; expected {size}, {_ADVICE}")
    return key


_ADVICE = 'as this makes one: echo "whsec_$(openssl rand -base64 32)"'


def format_message(alert: Alert) -> str:
    """Return the alert as a text for people."""
    title = _TITLES.get(alert.kind, alert.kind)
    if alert.state == "resolved":
        return f"✅ Resolved: {title}\n{alert.text}"
    sign_ = "ℹ️" if alert.kind in EVENTS else "⚠️"
    return f"{sign_} {title}\n{alert.text}"


def _build_payload(alert: Alert) -> dict[str, Any]:
    """Return the JSON of a webhook, in the form that Standard Webhooks recommends."""
    return {
        "type": f"alert.{TEST if alert.kind == TEST else alert.state}",
        "timestamp": alert.at,
        "data": {
            "id": alert.id,
            "kind": alert.kind,
            "state": alert.state,
            "subject": alert.subject,
            "title": _TITLES.get(alert.kind, alert.kind),
            "text": alert.text,
            "since": alert.since or None,
        },
    }


def _escape_for_slack(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
