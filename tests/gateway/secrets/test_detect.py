"""Secrets are found however they are written, and in time that does not depend on the pattern."""

import base64
from urllib.parse import quote

import pytest

from agentd.gateway.secrets.builtin import BUILT_IN
from agentd.gateway.secrets.detect import Detector, compute_entropy
from agentd.gateway.secrets.rules import Allow, ExactSecret, SecretPattern, SecretRules
from tests.gateway.secrets.samples import SURROUNDED, TOKENS, make_letters
from tests.support.processor import busy_for_less_than

BUILT = Detector(SecretRules(BUILT_IN))


def find_secrets(text: str, detector: Detector = BUILT) -> list[tuple[str, str]]:
    raw = text.encode()
    return [(hit.rule, raw[hit.start : hit.end].decode()) for hit in detector.find(raw)]


def build_detector(*rules: SecretPattern, values: tuple[ExactSecret, ...] = ()) -> Detector:
    return Detector(SecretRules(rules, values))


@pytest.mark.parametrize("rule", TOKENS)
def test_a_token_is_found_whatever_stands_around_it(rule):
    for surrounding in SURROUNDED:
        text = surrounding.format(TOKENS[rule])
        (hit,) = find_secrets(text)
        assert TOKENS[rule] in hit[1], text
        if rule not in ("telegram", "jwt"):  # after key= other rules may be first
            assert len(hit[1]) <= len(TOKENS[rule]) + 1, text


@pytest.mark.parametrize("rule", TOKENS)
def test_a_token_in_prose_is_reported_by_its_own_rule_and_nothing_beside_it_is_taken(rule):
    assert find_secrets(f"I use {TOKENS[rule]}, as ever") == [(rule, TOKENS[rule])]


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("postgres://me:p4ssw0rd@db.host/name", "p4ssw0rd"),
        ("amqp://me:p@ss-w0rd@host,", "p@ss-w0rd"),
        ("redis://:hunter22@localhost:6379/0", "hunter22"),
        ('{"url": "https:\\/\\/me:hunter22@host"}', "hunter22"),
        ("Authorization: Bearer abcdef0123456789abcdef", "abcdef0123456789abcdef"),
        ('-H "authorization: token 0a1b2c3d4e5f6a7b8c9d"', "0a1b2c3d4e5f6a7b8c9d"),
        ("X-Api-Key: 0a1b2c3d4e5f", "0a1b2c3d4e5f"),
        ("then Basic dXNlcjpodW50ZXIyMg==", "dXNlcjpodW50ZXIyMg=="),
        ("Cookie: session=0a1b2c3d4e5f6a7b8c9d; b=2", "session=0a1b2c3d4e5f6a7b8c9d; b=2"),
        ("DB_PASSWORD=correcthorse", "correcthorse"),
        ("export DB_PASSWORD='p#ss;w0rd!'", "p#ss;w0rd!"),
        ("SECRET_KEY=a$b%c^d&e*f1", "a$b%c^d&e*f1"),
        ('{"password": "hunter22!"}', "hunter22!"),
        ('{\\"api_key\\": \\"0a1b2c3d4e5f\\"}', "0a1b2c3d4e5f"),
        ("client_secret: 0a1b2c3d4e5f6a7b", "0a1b2c3d4e5f6a7b"),
        (
            "aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYzq9w1kLr+a",
            "wJalrXUtnFEMI/K7MDENG/bPxRfiCYzq9w1kLr+a",
        ),
    ],
)
def test_what_stands_around_it_shows_a_secret_without_a_form(text, secret):
    assert [value for _, value in find_secrets(text)] == [secret]


@pytest.mark.parametrize(
    "text",
    [
        "PASSWORD=${DB_PASSWORD}",
        "password = os.environ['DB_PASSWORD']",
        "token = self._settings.token_2",
        "api_key: str | None = None",
        "MAX_TOKENS=100000",
        'KEY = "agent_api_key"',
        "password: <your password>",
        "TOKEN_URL=https://host/oauth2/token",
        "KEY_FILE=/etc/keys/key1.pem",
        "postgres://user:password@localhost/db",
        "http://localhost:8080/path@2x.png",
        "http://[::1]:8080/",
        "The bearer authentication-middleware-module is used",
        "commit 9fceb02d0ae598e95dc970b74767f19372d61af8",
        "id 123e4567-e89b-12d3-a456-426614174000",
        '"-----BEGIN PRIVATE KEY-----" in text and "-----END PRIVATE KEY-----" in text',
        "the secret: keep it simple, always",
    ],
)
def test_what_is_no_secret_is_left_alone(text):
    assert find_secrets(text) == []


def test_two_that_share_what_is_between_them_are_both_found():
    first, second = TOKENS["telegram"], f"{'9' * 10}:{make_letters(35)}"
    assert find_secrets(f"{first} {second}") == [("telegram", first), ("telegram", second)]


def test_a_private_key_without_its_end_is_found_as_far_as_it_goes():
    whole = TOKENS["private-key"]
    cut = whole[: whole.index("-----END") - 60]
    assert find_secrets(f"here:\n{cut}") == [("private-key", cut.rstrip())]


def test_a_private_key_is_found_with_escaped_line_ends():
    escaped = TOKENS["private-key"].replace("\n", "\\n")
    assert find_secrets(f'{{"key": "{escaped}"}}') == [("private-key", escaped)]


def test_a_secret_in_base64_is_found_and_the_whole_of_it_is_taken():
    token = base64.b64encode(f"user:{TOKENS['github']}".encode()).decode()
    assert find_secrets(f"run {token} now") == [("github", token)]
    url_safe = base64.urlsafe_b64encode(f"user:{TOKENS['github']}".encode()).decode().rstrip("=")
    assert find_secrets(url_safe) == [("github", url_safe)]


def test_a_secret_in_percent_escapes_is_found_where_it_stands():
    token = quote(TOKENS["sendgrid"], safe="").replace(".", "%2E")
    assert find_secrets(f"https://host/?a=%20b&x={token}&c=%20d") == [("sendgrid", token)]


def test_a_value_that_is_known_exactly_is_found_anywhere():
    known = build_detector(values=(ExactSecret(id="deploy", text="tr0ub4dor & 3"),))
    assert find_secrets("xxtr0ub4dor & 3yy", known) == [("deploy", "tr0ub4dor & 3")]


def test_of_two_that_overlap_all_is_hidden_by_the_first_rules_name():
    both = build_detector(SecretPattern(id="a", regex="bcd"), SecretPattern(id="b", regex="abc"))
    assert find_secrets("xabcdx", both) == [("a", "abcd")]


def test_what_is_only_reported_hides_nothing_and_keeps_nothing_from_being_hidden():
    both = build_detector(
        SecretPattern(id="a", regex="x+bcd", mode="report"), SecretPattern(id="b", regex="bcd")
    )
    hits = both.find(b"xxbcd xxxxx xbcd"[:11])
    assert [(hit.rule, hit.mode) for hit in hits] == [("b", "hide")]
    (hit,) = build_detector(SecretPattern(id="a", regex="x+b", mode="report")).find(b"---xxxb---")
    assert (hit.start, hit.end, hit.mode) == (3, 7, "report")


def test_a_match_goes_as_far_as_the_text_allows_wherever_it_stands():
    look = build_detector(SecretPattern(id="a", regex="<[a ]{600}>|<[a ]{3}"))
    whole = f"<{'a ' * 300}>"
    for before in range(0, 9000, 53):
        assert find_secrets("." * before + whole + "." * 9000, look) == [("a", whole)], before


def test_many_finds_that_are_only_reported_take_no_longer_together():
    rules = [
        SecretPattern(id="a", regex="[0-9]{6};"),
        SecretPattern(id="b", regex="[a-z]{6};", mode="report"),
    ]
    both = build_detector(*rules)
    with busy_for_less_than(1):
        for _ in range(10):
            both.find(b"123456;abcdef;" * 1000)


def test_block_wins_over_hide_where_both_find_something():
    both = build_detector(
        SecretPattern(id="a", regex="bcdefg"), SecretPattern(id="b", regex="abcdef", mode="block")
    )
    (hit,) = both.find(b"abcdefg")
    assert (hit.rule, hit.mode) == ("a", "block")


def test_entropy_keywords_stopwords_and_allowed_forms_are_conditions():
    rule = SecretPattern(
        id="a",
        regex="key-([a-z0-9]{8})",
        keywords=("Corp",),
        entropy=2.0,
        allow=Allow(regexes=("^00",), stopwords=("Test",)),
    )
    assert find_secrets("corp key-a1b2c3d4", build_detector(rule)) == [("a", "a1b2c3d4")]
    for text in ("key-a1b2c3d4", "corp key-aaaaaaaa", "corp key-00b2c3d4", "corp key-testc3d4"):
        assert find_secrets(text, build_detector(rule)) == []


def test_a_rule_that_is_switched_off_finds_nothing():
    assert (
        find_secrets("abcdef", build_detector(SecretPattern(id="a", regex="abc", enabled=False)))
        == []
    )


def test_half_a_character_is_never_taken():
    assert find_secrets("ééabcé", build_detector(SecretPattern(id="a", regex=r"\C\Cabc\C"))) == [
        ("a", "ééabcé"[1:])
    ]


@pytest.mark.parametrize(
    ("regex", "text"),
    [
        ("(a+)+$", "a" * 100_000 + "!"),
        ("(a|aa)+b", "a" * 100_000),
        ("x(.*y)?", "x" * 100_000),
        ("(?s)x.*?y.*z", "xy" * 50_000),
        ("([a-z]+)*[0-9]{50}", "a1" * 50_000),
    ],
)
def test_a_catastrophic_pattern_is_harmless(regex, text):
    look = build_detector(SecretPattern(id="a", regex=regex))
    with busy_for_less_than(2):  # it takes a backtracking engine years
        look.find(text.encode())


def test_so_many_finds_that_they_would_take_long_are_one():
    look = build_detector(SecretPattern(id="a", regex="[0-9]{6};"))
    text = b"123456;" * 5000
    hits = look.find(text)
    assert len(hits) < 1100
    covered = sum(hit.end - hit.start for hit in hits)
    assert covered == len(text)


@pytest.mark.parametrize(
    "text",
    [
        "-----BEGIN PRIVATE KEY-----" * 10_000,
        "a://" * 60_000,
        "a://b:" * 40_000,
        "password=" * 30_000,
        "password = " * 30_000,
        "eyJ" * 80_000,
        "%41" * 80_000,
        "A" * 250_000,
        "bearer " * 40_000,
        'key": "' * 40_000,
        "\\" * 250_000,
    ],
)
def test_no_text_is_slow_for_the_built_in_rules(text):
    with busy_for_less_than(3):
        BUILT.find(text.encode())


def test_letters_that_differ_have_more_entropy():
    assert compute_entropy(b"aaaa") == 0
    assert compute_entropy(make_letters(64).encode()) > 4
