"""Nearly all plain forms of secrets are found, and nothing of what only looks like one."""

from time import process_time

import pytest

from agentd.proxy.secrets.builtin import BUILT_IN
from agentd.proxy.secrets.detect import Detector
from agentd.proxy.secrets.rules import Rules
from tests.proxy.secrets.innocents import INNOCENTS
from tests.proxy.secrets.plain_forms import FORMS

BUILT = Detector(Rules(BUILT_IN))
MOST_LEFT = 7
"""Characters of a secret in a row that may stay."""


def left_of(text: str) -> str:
    raw = text.encode()
    at, left = 0, []
    for hit in BUILT.find(raw):
        left.append(raw[at : hit.start])
        at = hit.end
    return b"\0".join([*left, raw[at:]]).decode()


def leaks(text: str, secret: str) -> bool:
    left = left_of(text)
    size = min(MOST_LEFT + 1, len(secret))
    return any(secret[at : at + size] in left for at in range(len(secret) - size + 1))


def test_the_corpora_are_as_large_as_is_said():
    assert len({text for text, _ in FORMS}) >= 300
    assert len(set(INNOCENTS)) >= 250


@pytest.mark.parametrize(("text", "secret"), FORMS, ids=[f"form{at}" for at in range(len(FORMS))])
def test_a_plain_form_is_found(text, secret):
    assert not leaks(text, secret), text


@pytest.mark.parametrize("text", INNOCENTS, ids=[f"innocent{at}" for at in range(len(INNOCENTS))])
def test_what_holds_no_secret_is_left_alone(text):
    assert left_of(text) == text
    assert left_of(f"before\n{text}\nafter") == f"before\n{text}\nafter"
    assert left_of(f"first line\\n{text}\\nlast") == f"first line\\n{text}\\nlast"
    assert left_of(f"    {text}") == f"    {text}"


def test_all_innocents_together_are_left_alone():
    text = "\n\n".join(INNOCENTS)
    assert left_of(text) == text


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
    def seconds(size: int) -> float:
        raw = (text * (size // len(text))).encode()
        began = process_time()
        BUILT.find(raw)
        return process_time() - began

    small, large = seconds(25_000), seconds(200_000)
    assert large < 40 * max(small, 0.01)
