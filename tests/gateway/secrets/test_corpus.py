"""Nearly all plain forms of secrets are found, and nothing of what only looks like one."""

import pytest

from agentd.gateway.secrets.builtin import BUILT_IN
from agentd.gateway.secrets.detect import Detector
from agentd.gateway.secrets.rules import SecretRules
from tests.gateway.secrets.innocents import INNOCENTS
from tests.gateway.secrets.plain_forms import FORMS
from tests.support.processor import assert_linear

BUILT = Detector(SecretRules(BUILT_IN))
MOST_LEFT = 7
"""Characters of a secret in a row that may stay."""


def remove_found(text: str) -> str:
    raw = text.encode()
    at, left = 0, []
    for hit in BUILT.find(raw):
        left.append(raw[at : hit.start])
        at = hit.end
    return b"\0".join([*left, raw[at:]]).decode()


def is_leaked(text: str, secret: str) -> bool:
    left = remove_found(text)
    size = min(MOST_LEFT + 1, len(secret))
    return any(secret[at : at + size] in left for at in range(len(secret) - size + 1))


def test_the_corpora_are_as_large_as_is_said():
    assert len({text for text, _ in FORMS}) >= 300
    assert len(set(INNOCENTS)) >= 250


@pytest.mark.parametrize(("text", "secret"), FORMS, ids=[f"form{at}" for at in range(len(FORMS))])
def test_a_plain_form_is_found(text, secret):
    assert not is_leaked(text, secret), text


@pytest.mark.parametrize("text", INNOCENTS, ids=[f"innocent{at}" for at in range(len(INNOCENTS))])
def test_what_holds_no_secret_is_left_alone(text):
    assert remove_found(text) == text
    assert remove_found(f"before\n{text}\nafter") == f"before\n{text}\nafter"
    assert remove_found(f"first line\\n{text}\\nlast") == f"first line\\n{text}\\nlast"
    assert remove_found(f"    {text}") == f"    {text}"


def test_all_innocents_together_are_left_alone():
    text = "\n\n".join(INNOCENTS)
    assert remove_found(text) == text


HOSTILE = [
    *("curl ", "curl -u a:", "curl -u a:password ", "curl -u a:hunter22x ", "mysql ", "mysql -p"),
    *(
        "http ",
        "<password>",
        "<password>x",
        "<password>string</password>",
        "name: password\nvalue: ",
    ),
    *("define('DB_KEY', '", "define('DB_KEY', 'password');", 'variable "password" {'),
    *('variable "password" ', "ENV X_KEY ", "machine a login b password ", "machine a login b "),
    *("a:5432:b:c:", "a.", "auth=(", "auth=('a', 'password')", "getConnection(a, ", "--token "),
    *("--token TOKEN ", "IDENTIFIED BY '", "X_PASS=", "X_PASS=abcd ", 'X_KEY="a b c d e ', "$6$"),
    *(
        "$2b$12$",
        "scrypt:",
        "SCRAM-SHA-256$1:",
        "pbkdf2_sha256$1$",
        "{SSHA}",
        "dp.pt.",
        "a.atlasv1.",
    ),
    *("0123456789abcdef-", "&sig=", "password: a-b-c-d ", "password: 'a-b-c-d' ", "token=a;{}"),
    *(
        "token=&lt;",
        '"auth": "',
        "echo a:",
        "htpasswd -b ",
        "密码：",
        "密",
        "FlyV1 fm2_",
        "a://b:c@",
    ),
]


@pytest.mark.parametrize("text", HOSTILE)
def test_the_time_for_a_hostile_text_is_linear_in_it(text):
    small, large = ((text * (size // len(text))).encode() for size in (25_000, 100_000))
    assert_linear(BUILT.find, small, large, times=4)
