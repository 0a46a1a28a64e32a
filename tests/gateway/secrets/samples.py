"""Secrets of every form that is built in, none of them real; and where secrets stand."""

import string
from random import Random

_RANDOM = Random(7)  # noqa: S311
_WORD = string.ascii_letters + string.digits


def make_letters(count: int, alphabet: str = _WORD) -> str:
    """Make a text as random as a secret's."""
    return "".join(_RANDOM.choices(alphabet, k=count))


HEX = "0123456789abcdef"
UPPER = string.ascii_uppercase + "234567"

PEM = (
    "-----BEGIN RSA PRIVATE KEY-----\n"
    + "\n".join(make_letters(64) for _ in range(6))
    + f"\n{make_letters(40)}==\n-----END RSA PRIVATE KEY-----"
)

TOKENS = {
    "agentd-key": f"sk-agentd-{make_letters(12)}-{make_letters(32)}",
    "agentd-remote-key": f"agent_{make_letters(32)}",
    "anthropic": f"sk-ant-api03-{make_letters(93)}AA",
    "openrouter": f"sk-or-v1-{make_letters(64, HEX)}",
    "openai": f"sk-proj-{make_letters(40)}T3BlbkFJ{make_letters(40)}",
    "google-api": f"AIza{make_letters(35)}",
    "groq": f"gsk_{make_letters(52)}",
    "huggingface": f"hf_{make_letters(34, string.ascii_letters)}",
    "aws-access-key": f"AKIA{make_letters(16, UPPER)}",
    "digitalocean": f"dop_v1_{make_letters(64, HEX)}",
    "vault": f"hvs.{make_letters(95)}",
    "github": f"ghp_{make_letters(36)}",
    "gitlab": f"glpat-{make_letters(20)}",
    "slack": f"xoxb-{make_letters(12, string.digits)}-{make_letters(24)}",
    "stripe": f"sk_live_{make_letters(24)}",
    "npm": f"npm_{make_letters(36)}",
    "pypi": f"pypi-AgEIcHlwaS5vcmc{make_letters(90)}",
    "telegram": f"{make_letters(10, string.digits)}:A{make_letters(34)}",
    "sendgrid": f"SG.{make_letters(22)}.{make_letters(43)}",
    "twilio": f"SK{make_letters(32, HEX)}",
    "shopify": f"shpat_{make_letters(32, HEX)}",
    "jwt": f"eyJ{make_letters(20)}.eyJ{make_letters(40)}.{make_letters(43)}",
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
