"""The parameters of requests in a LiteLLM deployment, as defaults of a channel.

LiteLLM names them as OpenAI's chat API does, and sends them if the caller gives none.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from agentd.gateway.migration.plan import Fields
from agentd.llm.parameters import ParameterChanges, validate_parameters

_CHAT_NAMES = (
    *(
        "temperature",
        "top_p",
        "presence_penalty",
        "frequency_penalty",
        "seed",
        "stop",
        "logit_bias",
    ),
    *("logprobs", "top_logprobs", "parallel_tool_calls", "reasoning_effort", "response_format"),
    *("tool_choice", "user", "verbosity"),
)
_NAMES: Mapping[str, Mapping[str, str]] = {
    "openai-chat": dict(zip(_CHAT_NAMES, _CHAT_NAMES, strict=True)),
    "openai-responses": {
        **{name: name for name in ("temperature", "top_p", "parallel_tool_calls", "user")},
        "reasoning_effort": "reasoning.effort",
        "verbosity": "text.verbosity",
    },
    "anthropic": {"temperature": "temperature", "top_p": "top_p", "stop": "stop_sequences"},
    "gemini": {
        "temperature": "generationConfig.temperature",
        "top_p": "generationConfig.topP",
        "presence_penalty": "generationConfig.presencePenalty",
        "frequency_penalty": "generationConfig.frequencyPenalty",
        "seed": "generationConfig.seed",
        "stop": "generationConfig.stopSequences",
    },
}
"""The names that each dialect has for what means the same there."""

_LISTS = ("stop_sequences", "generationConfig.stopSequences")
"""Parameters that are a list, where OpenAI also takes a text."""

LIMIT = "a default limit has no counterpart; max_output of the model limits every reply"
"""Why ``max_tokens`` is left."""


def take_parameters(parameters: Fields, dialects: Sequence[str]) -> ParameterChanges | None:
    """Take the parameters that mean the same in all of a channel's ``dialects``, if there are any.

    The others are left with the reason.
    """
    defaults: dict[str, Any] = {}
    for name in ("max_tokens", "max_completion_tokens"):
        if name in parameters:
            parameters.leave(name, LIMIT)
    for name in _CHAT_NAMES:
        if name in parameters:
            _take_default(parameters, name, dialects, defaults)
    if "openai-chat" in dialects and len(dialects) == 1:
        _take_extra_body(parameters, defaults)
    elif "extra_body" in parameters:
        parameters.leave("extra_body", f"is for one dialect; the channel speaks {_list(dialects)}")
    return ParameterChanges(default=defaults) if defaults else None


def _take_default(
    parameters: Fields, name: str, dialects: Sequence[str], defaults: dict[str, Any]
) -> None:
    own = {_NAMES[dialect].get(name, "") for dialect in dialects}
    if len(own) > 1 or "" in own:
        why = f"has not one name in the channel's dialects ({_list(dialects)})"
        parameters.leave(name, f"{why}; set it by parameters of the channel")
        return
    (renamed,) = own
    value = parameters.read(name)
    if renamed in _LISTS and isinstance(value, str):
        value = [value]
    _add(parameters, name, renamed, value, defaults)


def _take_extra_body(parameters: Fields, defaults: dict[str, Any]) -> None:
    extra = parameters.take_fields("extra_body")
    for name in extra.names:
        _add(extra, name, name, extra.read(name), defaults)


def _add(given: Fields, name: str, renamed: str, value: Any, defaults: dict[str, Any]) -> None:
    """Add a default, or leave it with the reason why it cannot be one."""
    try:
        change = ParameterChanges(default={renamed: value})
        wrong = next((what for _, what in validate_parameters(change)), "")
    except ValueError as error:
        wrong = str(error)
    if wrong:
        given.leave(name, wrong)
    else:
        given.ignore(name)
        defaults[renamed] = value


def _list(dialects: Sequence[str]) -> str:
    return ", ".join(dialects)
