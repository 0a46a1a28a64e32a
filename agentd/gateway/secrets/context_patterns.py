r"""Secrets recognizable only by their context: a name, a program's flag, a call.

What looks like a value may be none: a variable, a template, a word of a form. The fewer words
there are around it that can only mean a password, the more of these are let go.
"""

from agentd.gateway.secrets import private_keys
from agentd.gateway.secrets.rules import Allow, SecretPattern

_TEMPLATES = (
    r"^(?:\$\{|\$\(|\{\{|\{%|<%|#\{|%\(|@\{|\[\[|\$env:|\$this\b|\*\*)",
    r"^\$\$?(?:[A-Z_][A-Z0-9_]*|[A-Za-z]+|[0-9@*?])$",  # $NAME, $password, $1
    r"^\$[A-Za-z_]*(?i:pass|pw|secret|token|key|cred)[A-Za-z0-9_]*$",
    r"^\$[A-Za-z_][A-Za-z0-9_]*(?:->|\[|::|\.|\()",
    r"^%(?:[A-Za-z_][A-Za-z0-9_]*%|[-+0-9.]*[a-z]$|[sdvqr](?:$|[^A-Za-z0-9]))",
    r"^\*[A-Za-z_]*$|^#[A-Za-z -]*$|^#[0-9A-Fa-f]{3,8}$|^@[A-Za-z_.]+(?:$|\()",
    r"^<[^<>]*>$|^<[A-Za-z/_-]+$|^\[[A-Za-z _-]*\]?$|^\([A-Za-z_., ]*\)?$",
    r"^\{[A-Za-z0-9_.$ ]*\}(?:$|[:@/{])|^\{[A-Za-z_]*$",
    r"(?:\.\.\.|\x{2026})$",
)
"""``${NAME}``, ``{{ name }}``, ``<your key>``, ``%s``, ``***``."""
_ELSEWHERE = (
    # Where something is, not what it is.
    r"^(?:https?://|\.{0,2}/|~/|[A-Za-z]:\\|\$[A-Za-z_]+[/:]|env:|file:|urn:)",
    r"^[0-9.,:_-]+$",
    r"^(.)(?:x|X|\*|\.|-|0)*$",
    r"^(?i:true|false|none|null|nil|undefined|yes|no|string|str|bytes|any|required|nullable)\b",
)
_NO_VALUE = (*_TEMPLATES, *_ELSEWHERE)
_CODE = (
    r"^[\[({<$%@*#:]",
    r"^[A-Za-z_][A-Za-z0-9_]*(?:\.|\(|\[|->|::)",  # settings.password, get_token(…)
    r"^[A-Za-z0-9_+.-]*(?:[;}]+.*[(){}]|\})",  # of minified code
    r"^&(?:#[0-9xX]|[a-z]+;)",  # found where that is decoded
)
_WORDS_ONLY = r"^[A-Za-z_.-]+$"
_NAME = r"^[A-Za-z]+(?:[_.-][A-Za-z]+)+$"
_LONG_NAME = (
    r"^[a-z]+(?:_[a-z0-9]+){3,}$"
    r"|^[A-Z][A-Z0-9]{0,5}(?:[A-Z][a-z]+){2,}$|^[A-Z][a-z]+[0-9]{1,3}[A-Z][a-z]+$"
)
_IDENTIFIER = r"^[a-z]+(?:_[a-z]+)+$|^[A-Z]+(?:_[A-Z]+)*$|^[A-Za-z]+(?:\.[A-Za-z_]+)+$"
_STOPWORDS = (
    *("example", "changeme", "change_me", "change-me", "your_", "your-", "yourpass", "placeholder"),
    *("dummy", "redacted", "xxxxx", "*****", "process.env", "os.environ", "getenv", "password123"),
    *("insert", "replace", "todo", "sample"),
)
_DEFAULTS = (
    r"^(?i:pass(?:word|wd)?|pw|pwd|secret|token|user(?:name)?|root|admin|guest|test|postgres|mysql"
    r"|redis|mongo|rabbitmq):?$"
)
_FORM_WORDS = (
    # What forms, their translations, schemas and tests say where a password would stand.
    r"(?i)(?:pass|pwd|word|wort|secret|token|user|login|logon|sign|field|input|valid|requir|string"
    r"|text|hidden|forg[eo]t|reset|chang|enter|your|mustn?|confirm|repeat|plain|crypt|hash|null"
    r"|none|error|missing|empty|label|value|default|optional|column|credential|auth|current"
    r"|contrase|senha|parola|wacht|haslo|heslo|jelsz|sandi|lozink|clave|cl[ée]f|geheim|kenn"
    r"|masked|show|hide|weak|strong|medium|update|create|generat|random|unique|unknown|expired"
    r"|incorrect|wrong|mismatch|short|secure|here|type|name|code|prompt|stdin"
    r"|file|config|setting|manage|keyring|keychain|vault|env)"
)

_BARE = (
    r"([^\s\"'`\\<>\x{3000}-\x{9fff}\x{ff00}-\x{ff65}]{7,}"
    r"[^\s\"'`\\<>,;:.)\]}&\x{3000}-\x{9fff}\x{ff00}-\x{ff65}])"
)
_PREFIX = r"(?:[bBrRuUfFL]|\$?@)?"
"""The prefix of a text in quotes, in source code."""
_QUOTED = rf"{_PREFIX}\\*\"([^\"\\\s]{{8,}})|{_PREFIX}\\*'([^'\\\s]{{8,}})|`([^`\\\s]{{8,}})`"
_VALUE = rf"(?:{_QUOTED}|{_BARE})"
"""A value in quotes, escaped or not, or bare; four groups, of which one takes part."""
_ARGUMENT = (
    r"(?:\\*\"([^\"\\\n]{4,})\\*\"|\\*'([^'\\\n]{4,})\\*'|([^\s\"'`\\<>$|;-][^\s\"'`\\<>|;]{3,}))"
)
"""The pattern of a command line argument."""

_NAMES = (
    r"(?:password|passwd|passphrase|pwd|secret|token|api[_-]?key|access[_-]?key|private[_-]?key"
    r"|auth[_-]?key|signing[_-]?key|encryption[_-]?key|account[_-]?key|credentials?)"
)
_MORE_NAMES = (
    r"(?:passwort|kennwort|mot_?de_?passe|contrase\x{f1}a|senha|密码|密碼|口令|пароль"
    r"|(?:admin|master|licen[cs]e|subscription|shared|storage|deploy|webhook|hmac|ingest)[_-]?key"
    r"|(?:[_.-]|\b)(?:pass|psk|pat))"
)
_CAPITALS = "KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|PASS|PWD|CREDENTIALS?"
_ENDS = rf"[A-Z0-9_]*(?:{_CAPITALS}|_PAT|MNEMONIC|SEED|SEED_PHRASE|SALT)"
_IS = (
    r"\\*[\"']?\]?(?:\s{0,3}|[ \t]*)"
    r"(?::=|=>|==?|:|\x{ff1a}|:\s?[A-Za-z&][A-Za-z0-9_.<>\[\]|?&' ]*=)"
    r"(?:\s{0,3}|[ \t]*)"
)
"""The sign between a name and its value; in source code with the type."""
_OPEN, _CLOSE = r"\\*[\"']", r"\\*[\"']"
_BREAK = r"(?:\s|\\n)+"
_ARGS = r"(?:[^\n;|]|\\\n)*?\s"
"""The rest of a command line, also over several lines, up to the match."""


def _make_pattern(
    id: str,  # noqa: A002
    description: str,
    *regexes: str,
    allow: tuple[str, ...] = (),
) -> SecretPattern:
    """Make a rule of what can hardly mean anything but a password."""
    return SecretPattern(
        id=id,
        description=description,
        regex="|".join(regexes),
        allow=Allow(regexes=(*_NO_VALUE, _DEFAULTS, *allow), stopwords=_STOPWORDS),
    )


_FORMS = (
    SecretPattern(
        id="private-key",
        description="A private key, whole, or as much of it as there is",
        regex=private_keys.PATTERN,  # finds where to look; how far it goes: ``PrivateKeys``
    ),
    SecretPattern(
        id="jwt",
        description="JSON Web Token",
        regex=r"eyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}",
    ),
    SecretPattern(
        id="url-password",
        description="The password in an address",
        regex=r"[A-Za-z]:\\?/\\?/[^\s/:@\"'<>\\]*:"
        r"([^\s/\"'`<>\\]{3,})@[A-Za-z0-9\[._-]",
        allow=Allow(regexes=(*_CODE[:1], _ELSEWHERE[2], _DEFAULTS), stopwords=_STOPWORDS),
    ),
    _make_pattern(
        "url-secret",
        "A signature or a webhook's secret in an address",
        r"[?&; ](?:sig|signature|code)=([A-Za-z0-9%+/_-]{40,}={0,2})",
        r"SharedAccessKey=([A-Za-z0-9+/]{40,}={0,2})",
        r"discord(?:app)?\.com\\?/api\\?/(?:v[0-9]+\\?/)?webhooks\\?/[0-9]+\\?/([A-Za-z0-9_-]{30,})",
        r"webhook\.office\.com\\?/webhookb2\\?/([A-Za-z0-9@/\\-]{36,})",
    ),
    SecretPattern(
        id="authorization",
        description="What an Authorization header holds",
        regex=r"(?i:authorization|api-?key|auth-token|subscription-key)\\*[\"']?\s{0,3}[:=]\s{0,3}\\*[\"']?"
        r"(?:(?i:bearer|basic|token|key|apikey|digest|ssws|bot)\s{1,3})?([A-Za-z0-9._~+/=:|-]{12,})",
        allow=Allow(regexes=(*_CODE, *_ELSEWHERE, _WORDS_ONLY), stopwords=_STOPWORDS),
    ),
    SecretPattern(
        id="bearer",
        description="A token after Bearer or Basic",
        regex=r"\b(?i:bearer|basic)\s{1,3}([A-Za-z0-9._~+/=-]{16,})",
        entropy=3.0,
        allow=Allow(regexes=(*_CODE, *_ELSEWHERE, _WORDS_ONLY), stopwords=_STOPWORDS),
    ),
    SecretPattern(
        id="cookie",
        description="What a Cookie header holds",
        regex=r"(?i:\bcookie)\\*[\"']?\s{0,3}[:=]\s{0,3}\\*[\"']?([A-Za-z0-9_.%-]+="
        r"[^\s\"'\\;]{8,}(?:;\s?[A-Za-z0-9_.%-]+=[^\s\"'\\;]+)*)",
        entropy=3.5,
    ),
)

_COMMANDS = (
    _make_pattern(
        "user-password",
        "A name and a password for a program, as in curl -u",
        rf"(?:\b(?:curl|wget|xh|lftp)\b{_ARGS}|(?:^|\s)https?\s(?:[^\n;|]*?\s)?)"
        r"(?:-u|-a|-U|--user|--auth|--proxy-user)"
        r"[ =]?(?:\\*\"[^\s:\"@/]{1,64}:([^\"\\\n]{4,})\\*\"|\\*'[^\s:'@/]{1,64}:([^'\\\n]{4,})\\*'"
        r"|[^\s:\"'@/]{1,64}:([^\s\"'`\\<>|;]{4,}))",
        rf"\b(?:smbclient|rpcclient|smbget|net)\b{_ARGS}-U\s?\\*[\"']?[^\s%\"']+%([^\s\"'\\]{{4,}})",
        r"\becho\s+\\*[\"']?[^\s:\"']+:([^\s\"'\\]{4,})\\*[\"']?\s*\|\s*(?:sudo\s+)?chpasswd",
        rf"\brabbitmqctl\s+(?:add_user|change_password)\s+\S+\s+{_ARGUMENT}",
        rf"\bhtpasswd\s+-[A-Za-z]*b[A-Za-z]*(?:\s+[^\s-]\S*){{2}}\s+{_ARGUMENT}",
    ),
    _make_pattern(
        "program-password",
        "A password among a program's arguments, as in sshpass -p and mysql -p",
        r"\b(?:sshpass|mongo(?:sh|dump|restore|export|import)?"
        rf"|(?:docker|podman|az|oc|helm)\s+[a-z ]*login)\b{_ARGS}-p[ =]?{_ARGUMENT}",
        r"\b(?:mysql[a-z]*|mariadb(?:-[a-z]+)?|7z[ar]?|rar|unrar)\b" + rf"{_ARGS}-p{_ARGUMENT}",
        rf"\bredis-cli\b{_ARGS}-a\s+{_ARGUMENT}",
        rf"\bldap[a-z]+\b{_ARGS}-w\s+{_ARGUMENT}",
        rf"\b(?:zip|sqlcmd|bcp|isql|mosquitto_[a-z]+)\b{_ARGS}-P\s+{_ARGUMENT}",
        rf"\s-pass(?:in|out)?\s+\\*[\"']?pass:{_ARGUMENT}",
        rf"\s-(?:src|dest|new)?(?:store|key)pass\s+{_ARGUMENT}",
        rf"(?:^|\n)\s*(?:requirepass|masterauth)\s+{_ARGUMENT}",
        r"\b(?i:identified\s+(?:with\s+\S+\s+)?by|(?:with|encrypted|set|role\s+\S+)\s+password)\s+(?:=\s*)?'([^'\n]{4,})'",
        allow=(_FORM_WORDS,),
    ),
    SecretPattern(
        id="flag",
        description="A secret after a flag such as --api-key",
        regex=r"(?:^|[\s\"'])--?[A-Za-z0-9-]*(?i:password|passwd|passphrase|pass|pwd|token|secret"
        rf"|(?:secret|api|access|auth|private|license)[_-]?key|credentials?)(?:=|\s{{1,3}}|{_CLOSE},\s*){_VALUE}",
        entropy=2.5,
        allow=Allow(
            regexes=(*_NO_VALUE, *_CODE[1:], r"^[A-Za-z_.]+$", r"^-", _NAME), stopwords=_STOPWORDS
        ),
    ),
    _make_pattern(
        "netrc",
        "The password in .netrc or .pgpass",
        rf"\b(?:machine\s+\S+|default){_BREAK}login\s+\S+?{_BREAK}(?:account\s+\S+?{_BREAK})?"
        r"password\s+([^\s\"'\\]{4,})",
        r"(?:^|[\n\"']|\\n)(?:[A-Za-z0-9][A-Za-z0-9.-]*|\*):(?:[0-9]{4,5}|\*):[A-Za-z*][A-Za-z0-9_*-]*"
        r":[A-Za-z*][A-Za-z0-9_*-]*:([^\s:\\\"']{4,})",
    ),
)

_MARKUP_NAMES = (
    r"(?i:password|passwd|pwd|passphrase|secret|token|api[_-]?key|access[_-]?key|private[_-]?key)"
)
_MARKED_UP = (
    _make_pattern(
        "element",
        "A secret in an XML element whose name indicates it",
        rf"<[A-Za-z0-9_.:-]*{_MARKUP_NAMES}(?:\s[^<>]*)?>\s*(?:<!\[CDATA\[)?([^<>\s\]]{{4,}})\s*(?:\]\]>\s*)?<\\?/",
        rf"<add\s+(?:name|key)={_OPEN}[^\"'<>\\]*{_MARKUP_NAMES}{_CLOSE}\s+value={_OPEN}([^\"'<>\\]{{4,}})",
        allow=(_FORM_WORDS, r"^[A-Za-z]{4,9}$"),
    ),
    SecretPattern(
        id="named-value",
        description="A secret in a pair of name and value, as in XML, Kubernetes and Terraform",
        regex=rf"\b(?:name|key|id){_IS}{_OPEN}?[A-Za-z0-9_. -]*(?i:{_NAMES}|_pass){_CLOSE}?,?\s+"
        rf"\\*[\"']?(?:value|Value){_IS}{_VALUE}"
        rf"|\b(?:name|key|id)={_OPEN}[A-Za-z0-9_.-]*(?i:{_NAMES}){_CLOSE}\s*>([^<>\s]{{6,}})</"
        rf"|\bvariable\s+{_OPEN}[A-Za-z0-9_]*(?i:{_NAMES}){_CLOSE}\s*\{{[^{{}}]*?\bdefault\s*=\s*{_VALUE}",
        entropy=2.5,
        allow=Allow(regexes=(*_NO_VALUE, *_CODE, _WORDS_ONLY), stopwords=_STOPWORDS),
    ),
)

_CALLS = (
    _make_pattern(
        "call",
        "A secret given to a function, as in define('DB_PASSWORD', …)",
        rf"\bdefine\(\s*{_OPEN}{_ENDS}{_CLOSE}\s*,\s*(?:\\*\"([^\"\n]{{6,}})\"|\\*'([^'\n]{{6,}})')",
        r"\b(?:NetworkCredential|HTTP(?:Basic|Digest|Proxy)Auth|PasswordAuthentication"
        r"|UsernamePassword[A-Za-z]+|(?:Basic)?AWS[A-Za-z]*Credentials|[Bb]asic_?[Aa]uth(?:entication)?"
        r"|Credentials\.basic|[Ss]et_?[Bb]asic_?[Aa]uth|login|auth\s?[=:]\s?)"
        rf"\(\s*(?:{_OPEN}[^\"'\n]*{_CLOSE}|[A-Za-z0-9_.]+)\s*,\s*{_OPEN}([^\"'\n\\]{{4,}}){_CLOSE}",
        rf"\bgetConnection\(\s*[^\n]{{1,200}}?,\s*{_OPEN}[^\"'\n]*{_CLOSE}\s*,\s*{_OPEN}([^\"'\n\\]{{4,}}){_CLOSE}",
        rf"(?i:\b(?:set|with)_?(?:password|passphrase|secret)|\.password)\(\s*{_OPEN}([^\"'\n\\]{{6,}}){_CLOSE}\s*\)",
        allow=(_FORM_WORDS, r"^[a-z ,'.-]+[ ][a-z ,'.-]+$", r"^[a-z]{4,8}$"),
    ),
    SecretPattern(
        id="basic-auth",
        description="A name and a password in base64, as in the configuration of Docker and npm",
        regex=r"\\*\"auth\\*\"\s?:\s?\\*\"([A-Za-z0-9+/]{8,}={0,2})|\b_auth\s?=\s?\\*[\"']?([A-Za-z0-9+/]{8,}={0,2})",
        entropy=3.0,
        allow=Allow(regexes=(r"^[A-Za-z]+$",)),
    ),
)

_ASSIGNED = (
    SecretPattern(
        id="env-value",
        description="NAME_WITH_SECRET=value, as in .env files and shells",
        # Without blanks around it: in source code, which has them, "assigned" asks for more.
        regex=rf"(?:(?:{_CAPITALS})[A-Z0-9_]*|_PAT)=(?:{_QUOTED}|((?:<[^\s<>]+>)?[^\s\"'`\\<>]{{6,}}[^\s\"'`\\<>,;:.\])}}&]\)?))",
        entropy=2.5,
        allow=Allow(regexes=(*_NO_VALUE, *_CODE[1:], _NAME, _DEFAULTS), stopwords=_STOPWORDS),
    ),
    SecretPattern(
        id="env-words",
        description='NAME_WITH_SECRET="several words", and the same in Dockerfiles and shells',
        regex=rf"(?:^|[\s;\"']|\\n){_ENDS}=(?:\\*\"([^\"\n\\]{{8,}})|\\*'([^'\n\\]{{8,}}))"
        rf"|(?:^|\n|\\n)[A-Z0-9_]*PASS[A-Z]*=([a-z]{{4}}(?: [a-z]{{4}}){{3}})\b"
        rf"|(?:^|[\s;]|\\n)(?:ENV|ARG|setenv|setx|set\s+-[a-z]*x[a-z]*)\s+{_ENDS}\s+{_VALUE}",
        entropy=2.5,
        allow=Allow(
            regexes=(
                *(*_NO_VALUE, *_CODE[1:], _NAME),
                r"(?i)\b(?:enter|your|please|must|required?|invalid|password|token|secret|key)\b",
            ),
            stopwords=_STOPWORDS,
        ),
    ),
    SecretPattern(
        id="password",
        description="A value in quotes, or several words, given to a name such as password",
        regex=rf"(?i:password|passwd|passphrase|pwd|passwort|kennwort){_IS}"
        rf"(?:{_QUOTED}|([a-z]+(?:-[a-z]+){{3,}})(?:[\s#]|\\n|$))",
        entropy=2.5,
        allow=Allow(
            regexes=(
                *_NO_VALUE,
                *_CODE[1:],
                _IDENTIFIER,
                rf"^[A-Za-z_.-]*{_FORM_WORDS}[A-Za-z_.-]*$",
            ),
            stopwords=_STOPWORDS,
        ),
    ),
    SecretPattern(
        id="assigned",
        description="A value given to a name such as password or api_key",
        regex=rf"(?:(?i:{_NAMES})[A-Za-z0-9_]*|(?i:{_MORE_NAMES})){_IS}{_VALUE}",
        entropy=2.75,
        allow=Allow(
            regexes=(*_NO_VALUE, r"^[\[({<:]", *_CODE[1:], _WORDS_ONLY, _LONG_NAME, _DEFAULTS),
            stopwords=_STOPWORDS,
        ),
    ),
)

CONTEXTS: tuple[SecretPattern, ...] = (*_FORMS, *_COMMANDS, *_MARKED_UP, *_CALLS, *_ASSIGNED)
