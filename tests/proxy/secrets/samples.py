"""Secrets of every form that is built in, none of them real; and where secrets stand."""

import string
from random import Random

_RANDOM = Random(7)  # noqa: S311
_WORD = string.ascii_letters + string.digits


def letters(count: int, alphabet: str = _WORD) -> str:
    """As random as a secret's."""
    return "".join(_RANDOM.choices(alphabet, k=count))


HEX = "0123456789abcdef"
UPPER = string.ascii_uppercase + "234567"

PEM = (
    "-----BEGIN RSA PRIVATE KEY-----\n"
    + "\n".join(letters(64) for _ in range(6))
    + f"\n{letters(40)}==\n-----END RSA PRIVATE KEY-----"
)

TOKENS = {
    "agentd-key": f"sk-agentd-{letters(12)}-{letters(32)}",
    "agentd-remote-key": f"agent_{letters(32)}",
    "anthropic": f"sk-ant-api03-{letters(93)}AA",
    "openrouter": f"sk-or-v1-{letters(64, HEX)}",
    "openai": f"sk-proj-{letters(40)}T3BlbkFJ{letters(40)}",
    "google-api": f"AIza{letters(35)}",
    "groq": f"gsk_{letters(52)}",
    "huggingface": f"hf_{letters(34, string.ascii_letters)}",
    "aws-access-key": f"AKIA{letters(16, UPPER)}",
    "digitalocean": f"dop_v1_{letters(64, HEX)}",
    "vault": f"hvs.{letters(95)}",
    "github": f"ghp_{letters(36)}",
    "gitlab": f"glpat-{letters(20)}",
    "slack": f"xoxb-{letters(12, string.digits)}-{letters(24)}",
    "stripe": f"sk_live_{letters(24)}",
    "npm": f"npm_{letters(36)}",
    "pypi": f"pypi-AgEIcHlwaS5vcmc{letters(90)}",
    "telegram": f"{letters(10, string.digits)}:A{letters(34)}",
    "sendgrid": f"SG.{letters(22)}.{letters(43)}",
    "twilio": f"SK{letters(32, HEX)}",
    "shopify": f"shpat_{letters(32, HEX)}",
    "jwt": f"eyJ{letters(20)}.eyJ{letters(40)}.{letters(43)}",
    "private-key": PEM,
}
"""By the rule that finds it, wherever it stands."""

SURROUNDED = (
    "{}",
    "my key is {}, and it works",
    "({})",
    "see {}.",
    "`{}`",
    "**{}**",
    "<{}>",
    '{{"key": "{}"}}',
    '{{\\"key\\": \\"{}\\"}}',
    "key='{}';",
    "first\\n{}\\nlast",
    "first\n{}\nlast",
    "\\t{}",
    "https://host/path?key={}&other=1",
    "/* {} */",
    "a|{}|b",
    "\x1b[32m{}\x1b[0m",
    "echo {} | base64",
    "[{}](https://host)",
    "é{}é",
    "“{}”",
)
"""How keys stand in prose, Markdown, code, shells, terminals and JSON in JSON."""
