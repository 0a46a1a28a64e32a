r"""The forms of secrets that are known without being told. Rules earlier in the list win.

A format's right end is the end of its alphabet: a key is also found before a comma, a quote, a
backslash or a bracket. Its left end is a word's, or that of an escape (``\n`` in JSON in JSON).
"""

from agentd.proxy.secrets import private_keys
from agentd.proxy.secrets.rules import Allow, Rule

_LEFT = r"(?:\b|_|\\[abfnrtv0]|\\u[0-9A-Fa-f]{4}|\\x[0-9A-Fa-f]{2}|%[0-9A-Fa-f]{2}|\[[0-9;]*m)"
"""Where a word begins, also after an escape sequence whose last letter touches it."""

_NO_VALUE = (
    r"^[\[({<$%@*#]",  # ${NAME}, {{ name }}, <your key>, %s, ***
    r"^(?:https?://|\.{0,2}/|~/|[A-Za-z]:\\)",  # where something is, not what it is
    r"^[0-9.,:_-]+$",
    r"^(.)(?:x|X|\*|\.|-|0)*$",
    r"^(?i:true|false|none|null|nil|undefined|yes|no|string|str|bytes|any)\b",
)
_EXPRESSION = (
    r"^[A-Za-z_][A-Za-z0-9_]*(?:\.|\(|\[|->|::)",  # settings.password, get_token(…)
    r"^[A-Za-z_.-]+$",  # a name, or words
)
_NAME = r"^[A-Za-z]+(?:[_.-][A-Za-z]+)+$"
_WORDS = (
    *("example", "changeme", "change_me", "change-me", "your_", "your-", "yourpass", "placeholder"),
    *("dummy", "redacted", "xxxxx", "*****", "process.env", "os.environ", "getenv", "password123"),
    *("insert", "replace", "todo", "sample"),
)
_DEFAULTS = r"^(?i:pass(?:word|wd)?|pw|pwd|secret|token|user(?:name)?|root|admin|postgres|mysql)$"

_VALUE = (
    r"(?:\\*\"([^\"\\\s]{8,})|\\*'([^'\\\s]{8,})"
    r"|([^\s\"'`\\<>]{7,}[^\s\"'`\\<>,;:.)\]}&]))"
)
"""In quotes, escaped or not, or bare; three groups, of which one takes part."""

_NAMES = (
    r"(?:password|passwd|passphrase|pwd|secret|token|api[_-]?key|access[_-]?key|private[_-]?key"
    r"|auth[_-]?key|signing[_-]?key|encryption[_-]?key|account[_-]?key|credentials?)"
)
_CAPITALS = "KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|PASS|PWD|CREDENTIALS?"
_IS = r"\\*[\"']?\]?\s{0,3}(?::=|=>|==?|:)\s{0,3}"
"""Between a name and its value."""


def _token(id: str, description: str, regex: str) -> Rule:  # noqa: A002
    """Its first letters are unmistakable, whatever stands before them."""
    return Rule(id=id, description=description, regex=regex)


def _word(id: str, description: str, regex: str) -> Rule:  # noqa: A002
    """It is one only where a word begins."""
    return Rule(id=id, description=description, regex=f"{_LEFT}({regex})")


_OURS = (
    _token("agentd-key", "A key of this gateway", r"sk-agentd-[A-Za-z0-9]{12}-[A-Za-z0-9]{32}"),
    _token("agentd-remote-key", "A key of this daemon", r"agent_[A-Za-z0-9]{32}"),
)

_SUPPLIERS = (
    _token("anthropic", "Anthropic API key", r"sk-ant-[a-z0-9]{2,12}-[A-Za-z0-9_-]{16,}"),
    _token("openrouter", "OpenRouter API key", r"sk-or-v1-[0-9a-f]{40,64}"),
    _token(
        "openai",
        "OpenAI API key, and those of its like",
        r"sk-(?:proj|svcacct|admin|None)-[A-Za-z0-9_-]{20,}"
        r"|sk-[A-Za-z0-9]{20}T3BlbkFJ[A-Za-z0-9]{20}",
    ),
    _word("sk", "A key as many suppliers make them", r"sk-[A-Za-z0-9]{32,64}"),
    _token("google-api", "Google API key", r"AIza[A-Za-z0-9_-]{35}"),
    _token("groq", "Groq API key", r"gsk_[A-Za-z0-9]{40,64}"),
    _token("xai", "xAI API key", r"xai-[A-Za-z0-9]{60,}"),
    _token("perplexity", "Perplexity API key", r"pplx-[A-Za-z0-9]{40,64}"),
    _word("replicate", "Replicate token", r"r8_[A-Za-z0-9]{37}"),
    _token("huggingface", "Hugging Face token", r"hf_[A-Za-z]{30,40}|api_org_[A-Za-z]{30,40}"),
)

_CLOUDS = (
    _word("aws-access-key", "AWS access key id", r"(?:A3T[A-Z0-9]|A[KSBC][IC]A)[A-Z2-7]{16}"),
    Rule(
        id="aws-secret-key",
        description="AWS secret access key",
        regex=r"(?i:secret_?access_?key|aws_?secret_?key)[^A-Za-z0-9/+]{1,12}"
        r"([A-Za-z0-9/+]{40})(?:[^A-Za-z0-9/+=]|$)",
        entropy=3.0,
    ),
    _token("google-oauth", "Google OAuth secret", r"GOCSPX-[A-Za-z0-9_-]{28}"),
    _token("google-access", "Google access token", r"ya29\.[A-Za-z0-9_-]{20,}"),
    Rule(
        id="azure-storage",
        description="Azure storage key",
        regex=r"AccountKey=([A-Za-z0-9+/]{86}==)",
    ),
    _token("digitalocean", "DigitalOcean token", r"do[opr]_v1_[0-9a-f]{64}"),
    _word("databricks", "Databricks token", r"dapi[0-9a-f]{32}(?:-[0-9])?"),
    _word("vault", "HashiCorp Vault token", r"hv[sbr]\.[A-Za-z0-9_-]{24,}"),
    _token("tailscale", "Tailscale key", r"tskey-[a-z]+-[A-Za-z0-9]+-[A-Za-z0-9]+"),
)

_SERVICES = (
    _token(
        "github",
        "GitHub token",
        r"gh[opsur]_[A-Za-z0-9]{36,}|github_pat_[A-Za-z0-9_]{22,}",
    ),
    _token(
        "gitlab",
        "GitLab token",
        r"gl(?:pat|dt|ptt|rt|ft|soat|cbt|imt|agent|oas|ffct)-[A-Za-z0-9_-]{20,}"
        r"(?:\.[A-Za-z0-9_-]{2,20}){0,3}",
    ),
    _token("slack", "Slack token", r"xox[abeoprs]-[A-Za-z0-9-]{10,}|xapp-[0-9]-[A-Za-z0-9-]{20,}"),
    Rule(
        id="slack-hook",
        description="Slack webhook",
        regex=r"hooks\.slack\.com\\?/(?:services|workflows|triggers)\\?/([A-Za-z0-9+/\\]{30,})",
    ),
    _token(
        "stripe",
        "Stripe key",
        r"(?:sk|rk)_(?:live|test|prod)_[A-Za-z0-9]{10,}|whsec_[A-Za-z0-9+/]{24,}",
    ),
    _token("npm", "npm token", r"npm_[A-Za-z0-9]{36}"),
    _token("pypi", "PyPI token", r"pypi-AgE[A-Za-z0-9_-]{40,}"),
    Rule(
        id="telegram",
        description="Token of a Telegram bot",
        regex=r"(?:^|[^0-9])([0-9]{6,16}:[A-Za-z0-9_-]{35})(?:[^A-Za-z0-9_-]|$)",
    ),
    _token("sendgrid", "SendGrid key", r"SG\.[A-Za-z0-9_-]{16,32}\.[A-Za-z0-9_-]{16,64}"),
    _word("twilio", "Twilio API key", r"SK[0-9a-f]{32}"),
    _token("grafana", "Grafana token", r"gl(?:sa|c)_[A-Za-z0-9_+/=-]{32,}"),
    _token("notion", "Notion token", r"ntn_[0-9]{11}[A-Za-z0-9]{35}"),
    _word("linear", "Linear key", r"lin_(?:api|oauth)_[A-Za-z0-9]{40}"),
    _token("shopify", "Shopify token", r"shp(?:at|ca|pa|ss)_[0-9A-Fa-f]{32}"),
    _token("docker", "Docker Hub token", r"dckr_(?:pat|oat)_[A-Za-z0-9_-]{20,64}"),
    _token("sentry", "Sentry token", r"sntry[su]_[A-Za-z0-9+/=_-]{40,}"),
    _token("postman", "Postman key", r"PMAK-[0-9a-f]{24}-[0-9a-f]{34}"),
    _word("age", "age secret key", r"AGE-SECRET-KEY-1[0-9A-Z]{58}"),
)

_FORMS = (
    Rule(
        id="private-key",
        description="A private key, whole, or as much of it as there is",
        regex=private_keys.PATTERN,  # finds where to look; how far it goes: ``PrivateKeys``
    ),
    _token(
        "jwt",
        "JSON Web Token",
        r"eyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}",
    ),
    Rule(
        id="url-password",
        description="The password in an address",
        regex=r"[A-Za-z]:\\?/\\?/[^\s/:@\"'<>\\]*:"
        r"([^\s/\"'`<>\\]{3,})@[A-Za-z0-9\[._-]",
        allow=Allow(regexes=(*_NO_VALUE[:1], _NO_VALUE[3], _DEFAULTS), stopwords=_WORDS),
    ),
    Rule(
        id="authorization",
        description="What an Authorization header holds",
        regex=r"(?i:authorization|api-?key|auth-token)\\*[\"']?\s{0,3}[:=]\s{0,3}\\*[\"']?"
        r"(?:(?i:bearer|basic|token|key|apikey|digest)\s{1,3})?([A-Za-z0-9._~+/=:|-]{12,})",
        allow=Allow(regexes=(*_NO_VALUE, *_EXPRESSION), stopwords=_WORDS),
    ),
    Rule(
        id="bearer",
        description="A token after Bearer or Basic",
        regex=r"\b(?i:bearer|basic)\s{1,3}([A-Za-z0-9._~+/=-]{16,})",
        entropy=3.0,
        allow=Allow(regexes=(*_NO_VALUE, *_EXPRESSION), stopwords=_WORDS),
    ),
    Rule(
        id="cookie",
        description="What a Cookie header holds",
        regex=r"(?i:\bcookie)\\*[\"']?\s{0,3}[:=]\s{0,3}\\*[\"']?([A-Za-z0-9_.%-]+="
        r"[^\s\"'\\;]{8,}(?:;\s?[A-Za-z0-9_.%-]+=[^\s\"'\\;]+)*)",
        entropy=3.5,
    ),
)

_ASSIGNED = (
    Rule(
        id="env-value",
        description="NAME_WITH_SECRET=value, as in .env files and shells",
        # Without blanks around it: in source code, which has them, "assigned" asks for more.
        regex=rf"(?:{_CAPITALS})[A-Z0-9_]*={_VALUE}",
        entropy=2.5,
        allow=Allow(regexes=(*_NO_VALUE, *_EXPRESSION[:1], _NAME), stopwords=_WORDS),
    ),
    Rule(
        id="assigned",
        description="A value given to a name such as password or api_key",
        regex=rf"(?i:{_NAMES})[A-Za-z0-9_]*{_IS}{_VALUE}",
        entropy=2.75,
        allow=Allow(regexes=(*_NO_VALUE, *_EXPRESSION), stopwords=_WORDS),
    ),
)

BUILT_IN: tuple[Rule, ...] = (*_OURS, *_SUPPLIERS, *_CLOUDS, *_SERVICES, *_FORMS, *_ASSIGNED)
"""Every built-in rule; an operator changes the mode of one by its id, or switches it off."""
