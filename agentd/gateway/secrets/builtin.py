"""The built-in patterns of secrets. Earlier rules win."""

from agentd.gateway.secrets.context_patterns import CONTEXTS
from agentd.gateway.secrets.rules import SecretPattern
from agentd.gateway.secrets.token_patterns import TOKENS

BUILT_IN: tuple[SecretPattern, ...] = (*TOKENS, *CONTEXTS)
"""Every built-in rule; an operator changes the mode of one by its id, or switches it off."""
