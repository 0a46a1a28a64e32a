"""The forms of secrets that are known without being told. Rules earlier in the list win."""

from agentd.proxy.secrets.contexts import CONTEXTS
from agentd.proxy.secrets.rules import Rule
from agentd.proxy.secrets.tokens import TOKENS

BUILT_IN: tuple[Rule, ...] = (*TOKENS, *CONTEXTS)
"""Every built-in rule; an operator changes the mode of one by its id, or switches it off."""
