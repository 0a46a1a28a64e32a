"""What a target receives, and that its signature is the standard's."""

import base64
import json
import secrets
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from agentd.core.clock import SystemClock
from agentd.gateway.alerts.message import build_request, decode_secret, sign
from agentd.gateway.alerts.model import Alert, AlertTarget, clean_text, hide_values
from tests.gateway.alerts.receiver import WEBHOOK_SECRET

NOW = SystemClock().now()
ALERT = Alert(
    id="alert_1", at=NOW, kind="channel_down", subject="openai", text="openai <failed> & is down"
)


def build(kind, **more):
    target = AlertTarget(name="ops", kind=kind, url="https://example.org/x", **more)
    return build_request(ALERT, target, NOW)


@given(st.binary(min_size=24, max_size=64), st.text(max_size=200))
def test_the_library_of_the_standard_accepts_the_signature(key, text):
    secret = "whsec_" + base64.b64encode(key).decode()
    body, at = json.dumps({"text": text}).encode(), int(datetime.now(UTC).timestamp())
    headers = sign("msg_1", at, body, secret)
    assert Webhook(secret).verify(body, headers) == {"text": text}
    with pytest.raises(WebhookVerificationError):
        Webhook(secret).verify(body + b" ", headers)
    with pytest.raises(WebhookVerificationError):
        Webhook(secret).verify(body, {**headers, "webhook-id": "msg_2"})


def test_a_webhook_is_signed_json_under_the_alerts_id():
    target = AlertTarget(name="ops", url="https://example.org/x", secret=WEBHOOK_SECRET)
    request = build_request(ALERT, target, SystemClock().now())  # the library wants a recent one
    found = Webhook(WEBHOOK_SECRET).verify(request.body, dict(request.headers))
    assert request.headers["webhook-id"] == found["data"]["id"] == "alert_1"
    assert found["type"] == "alert.firing"
    assert found["timestamp"] == NOW
    assert found["data"]["kind"] == "channel_down"
    assert found["data"]["text"] == ALERT.text


def test_slack_receives_text_that_it_does_not_read_as_markup():
    text = json.loads(build("slack").body)["text"]
    assert "openai &lt;failed&gt; &amp; is down" in text


def test_discord_receives_text_that_mentions_nobody():
    body = json.loads(build("discord").body)
    assert ALERT.text in body["content"]
    assert body["allowed_mentions"] == {"parse": []}


def test_plain_text_comes_with_a_token_if_there_is_one():
    request = build("text", secret="tk_1234")
    assert request.body.decode().endswith(ALERT.text)
    assert request.headers["authorization"] == "Bearer tk_1234"
    assert "authorization" not in build("text").headers


@pytest.mark.parametrize(
    "secret", ["", "abc", "whsec_", "whsec_!!", "whsec_YWJj", "whsec_" + "A" * 100]
)
def test_a_weak_or_malformed_secret_is_refused_without_being_repeated(secret):
    with pytest.raises(ValueError, match="openssl rand") as error:
        decode_secret(secret)
    assert not secret or secret.removeprefix("whsec_") not in str(error.value) or len(secret) < 7


def test_texts_hold_no_secrets():
    key = f"sk-{secrets.token_hex(16)}"
    assert key not in clean_text(f"the key {key} is refused")
    assert hide_values("not found: /hooks/abc with pass", ["/hooks/abc", "pass"]) == (
        "not found: *** with ***"
    )
    assert "\n" not in clean_text("two\nlines")
