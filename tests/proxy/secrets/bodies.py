"""Requests with secrets planted, and what hiding them gives."""

import json
import re
from typing import Any

from agentd.proxy.secrets.builtin import BUILT_IN
from agentd.proxy.secrets.hiding import Hidden, Hiding
from agentd.proxy.secrets.rules import Rules

SEED = bytes(range(32))
PLACEHOLDER = re.compile(r"SECRET_[a-z0-9_]+?_[a-z2-7]{22}")


def new(rules: Rules | None = None) -> Hiding:
    return Hiding(rules or Rules(BUILT_IN), SEED)


def hidden(
    body: Any, hiding: Hiding | None = None, key: str = "k", dialect: Any = "anthropic"
) -> Hidden:
    return (hiding or new()).hide(json.dumps(body).encode(), dialect, key)


def said(text: str) -> dict[str, Any]:
    return {"model": "m", "messages": [{"role": "user", "content": text}]}


def put_back(body: Any, secrets: Any) -> Any:
    """The placeholders in a decoded body replaced, in JSON texts too."""
    if isinstance(body, str):
        return PLACEHOLDER.sub(lambda one: secrets[one[0]], body)
    if isinstance(body, list):
        return [put_back(item, secrets) for item in body]
    if isinstance(body, dict):
        return {
            put_back(name, secrets): (
                json.dumps(put_back(json.loads(item), secrets))
                if name == "arguments" and str(item)[:1] in ("{", "[")
                else put_back(item, secrets)
            )
            for name, item in body.items()
        }
    return body
