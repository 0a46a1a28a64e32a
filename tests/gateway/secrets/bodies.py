"""Requests with secrets planted, and their masking."""

import json
import re
from typing import Any

from agentd.gateway.secrets.builtin import BUILT_IN
from agentd.gateway.secrets.masker import MaskedRequest, SecretMasker
from agentd.gateway.secrets.rules import SecretRules

SEED = bytes(range(32))
PLACEHOLDER = re.compile(r"SECRET_[a-z0-9_]+?_[a-z2-7]{22}")


def create_masker(rules: SecretRules | None = None) -> SecretMasker:
    return SecretMasker(rules or SecretRules(BUILT_IN), SEED)


def mask_body(
    body: Any, hiding: SecretMasker | None = None, key: str = "k", dialect: Any = "anthropic"
) -> MaskedRequest:
    return (hiding or create_masker()).mask(json.dumps(body).encode(), dialect, key)


def build_body(text: str) -> dict[str, Any]:
    return {"model": "m", "messages": [{"role": "user", "content": text}]}


def unmask_body(body: Any, secrets: Any) -> Any:
    """Replace the placeholders in a decoded body, in JSON texts too."""
    if isinstance(body, str):
        return PLACEHOLDER.sub(lambda one: secrets[one[0]], body)
    if isinstance(body, list):
        return [unmask_body(item, secrets) for item in body]
    if isinstance(body, dict):
        return {
            unmask_body(name, secrets): (
                json.dumps(unmask_body(json.loads(item), secrets))
                if name == "arguments" and str(item)[:1] in ("{", "[")
                else unmask_body(item, secrets)
            )
            for name, item in body.items()
        }
    return body
