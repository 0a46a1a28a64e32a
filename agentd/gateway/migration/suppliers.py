"""Suppliers as other gateways name them, with their addresses and dialects."""

from typing import NamedTuple


class KnownSupplier(NamedTuple):
    """A supplier: its dialects, its usual address, and the variable its key is usually in.

    An empty ``url`` must be configured; one without a ``variable`` needs no key.
    """

    dialects: tuple[str, ...]
    url: str = ""
    variable: str = ""


_CHAT = ("openai-chat",)
OPENAI = KnownSupplier(
    ("openai-responses", "openai-chat"), "https://api.openai.com/v1", "OPENAI_API_KEY"
)
ANTHROPIC = KnownSupplier(("anthropic",), "https://api.anthropic.com", "ANTHROPIC_API_KEY")
GEMINI = KnownSupplier(("gemini",), "https://generativelanguage.googleapis.com", "GEMINI_API_KEY")
OLLAMA = KnownSupplier(_CHAT, "http://localhost:11434")
AZURE = KnownSupplier(_CHAT, "", "AZURE_API_KEY")
"""Reached by the API ``/openai/v1`` of a resource, which needs no ``api-version``."""

LITELLM_PREFIXES = {
    "openai": OPENAI,
    "anthropic": ANTHROPIC,
    "gemini": GEMINI,
    "azure": AZURE,
    "ollama": OLLAMA,
    "ollama_chat": OLLAMA,
    "cerebras": KnownSupplier(_CHAT, "https://api.cerebras.ai/v1", "CEREBRAS_API_KEY"),
    "dashscope": KnownSupplier(
        _CHAT, "https://dashscope-intl.aliyuncs.com/compatible-mode/v1", "DASHSCOPE_API_KEY"
    ),
    "deepinfra": KnownSupplier(_CHAT, "https://api.deepinfra.com/v1/openai", "DEEPINFRA_API_KEY"),
    "deepseek": KnownSupplier(_CHAT, "https://api.deepseek.com", "DEEPSEEK_API_KEY"),
    "fireworks_ai": KnownSupplier(
        _CHAT, "https://api.fireworks.ai/inference/v1", "FIREWORKS_AI_API_KEY"
    ),
    "groq": KnownSupplier(_CHAT, "https://api.groq.com/openai/v1", "GROQ_API_KEY"),
    "mistral": KnownSupplier(_CHAT, "https://api.mistral.ai/v1", "MISTRAL_API_KEY"),
    "moonshot": KnownSupplier(_CHAT, "https://api.moonshot.ai/v1", "MOONSHOT_API_KEY"),
    "nvidia_nim": KnownSupplier(_CHAT, "https://integrate.api.nvidia.com/v1", "NVIDIA_NIM_API_KEY"),
    "openrouter": KnownSupplier(_CHAT, "https://openrouter.ai/api/v1", "OPENROUTER_API_KEY"),
    "together_ai": KnownSupplier(_CHAT, "https://api.together.xyz/v1", "TOGETHERAI_API_KEY"),
    "xai": KnownSupplier(_CHAT, "https://api.x.ai/v1", "XAI_API_KEY"),
    "zai": KnownSupplier(_CHAT, "https://api.z.ai/api/paas/v4", "ZAI_API_KEY"),
    "custom_openai": KnownSupplier(_CHAT),
    "hosted_vllm": KnownSupplier(_CHAT),
    "litellm_proxy": KnownSupplier(_CHAT),
    "llamafile": KnownSupplier(_CHAT),
    "lm_studio": KnownSupplier(_CHAT),
    "openai_like": KnownSupplier(_CHAT),
}
"""The suppliers by the part of LiteLLM's model names before the slash."""

LITELLM_BARE_NAMES = (
    (("gpt-", "chatgpt-", "o1", "o3", "o4"), "openai"),
    (("claude-",), "anthropic"),
)
"""The suppliers of LiteLLM's model names without a prefix, by how these begin."""

NEW_API_TYPES = {
    1: ("openai", OPENAI),
    3: ("azure", AZURE),
    4: ("ollama", OLLAMA),
    8: ("custom", KnownSupplier(_CHAT)),
    14: ("anthropic", ANTHROPIC),
    17: ("ali", KnownSupplier(_CHAT, "https://dashscope.aliyuncs.com/compatible-mode/v1")),
    20: ("openrouter", KnownSupplier(_CHAT, "https://openrouter.ai/api/v1")),
    24: ("gemini", GEMINI),
    25: ("moonshot", KnownSupplier(_CHAT, "https://api.moonshot.cn/v1")),
    26: ("zhipu", KnownSupplier(_CHAT, "https://open.bigmodel.cn/api/paas/v4")),
    31: ("lingyiwanwu", KnownSupplier(_CHAT, "https://api.lingyiwanwu.com/v1")),
    40: ("siliconflow", KnownSupplier(_CHAT, "https://api.siliconflow.cn/v1")),
    42: ("mistral", KnownSupplier(_CHAT, "https://api.mistral.ai/v1")),
    43: ("deepseek", KnownSupplier(_CHAT, "https://api.deepseek.com")),
    45: ("volcengine", KnownSupplier(_CHAT, "https://ark.cn-beijing.volces.com/api/v3")),
    47: ("xinference", KnownSupplier(_CHAT)),
    48: ("xai", KnownSupplier(_CHAT, "https://api.x.ai/v1")),
}
"""The suppliers by the number of new-api's channel types."""

NEW_API_PATHS = {17: "/compatible-mode/v1", 26: "/api/paas/v4", 45: "/api/v3"}
"""What new-api adds to a configured address, by type; agentd's addresses contain it."""
