"""``secret-rules.yml``: every mistake with its line, values where they are, the seed made once."""

import asyncio
import re
from pathlib import Path

import pytest

from agentd.core.errors import ConfigError
from agentd.gateway.secrets import rule_file as secrets_rule_file
from agentd.gateway.secrets.builtin import BUILT_IN
from agentd.gateway.secrets.rules import SecretRules
from agentd.storage.layout import Layout
from tests.support.paths import REPOSITORY

FILE = """\
format: 1
built_in:
  jwt: {mode: report}
  env-value: {enabled: false}
  private-key: {mode: block}
rules:
  - id: ticket
    description: "Our ticket system's tokens"
    regex: 'tkt_([a-z0-9]{20})'
    keywords: [tkt_]
    entropy: 2.5
    mode: block
    allow:
      regexes: ['^0+$']
      stopwords: [example]
values:
  - {id: deploy, value: "env:DEPLOY_PASSWORD"}
  - {id: signing, value: "file:/none", mode: report}
"""


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(str(tmp_path / "state"), str(tmp_path))


def load_file(layout: Layout, text: str, mode: int = 0o600, **environ: str) -> SecretRules:
    path = Path(layout.secret_rules)
    path.write_text(text)
    path.chmod(mode)
    return secrets_rule_file.load_rules(layout, environ)


def load_problems(layout: Layout, text: str, mode: int = 0o600, **environ: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load_file(layout, text, mode, **environ)
    return [
        str(problem).removeprefix(f"{layout.secret_rules}:") for problem in caught.value.problems
    ]


def test_without_a_file_the_built_in_rules_hold(layout):
    assert secrets_rule_file.load_rules(layout, {}) == SecretRules(BUILT_IN)


def test_a_whole_file_is_read(layout, tmp_path):
    key = tmp_path / "key"
    key.write_text("first line\nsecond\n")
    key.chmod(0o600)
    text = FILE.replace("/none", str(key))
    found = load_file(layout, text, 0o644, DEPLOY_PASSWORD="tr0ub4dor")
    by_id = {rule.id: rule for rule in found.rules}
    assert found.rules[0].id == "ticket", "what a person wrote goes before what is built in"
    assert by_id["ticket"].entropy == 2.5
    assert by_id["ticket"].allow.stopwords == ("example",)
    assert by_id["jwt"].mode == "report"
    assert by_id["jwt"].enabled
    assert not by_id["env-value"].enabled
    assert [(value.id, value.text, value.mode) for value in found.values] == [
        ("deploy", "tr0ub4dor", "hide"),
        ("signing", "first line\nsecond", "report"),
    ]
    assert "tr0ub4dor" not in repr(found)


def test_every_mistake_comes_with_its_line(layout):
    text = FILE.replace("jwt:", "jwtt:").replace("'tkt_([a-z0-9]{20})'", "'(?<=x)a'")
    text = text.replace("'^0+$'", "'(a'").replace("id: deploy", "id: github")
    told = load_problems(layout, text)
    assert [line.split(":")[0] for line in told] == ["3", "9", "14", "17", "17", "18"]
    assert 'did you mean "jwt"?' in told[0]
    assert "look-around" in told[1]
    assert "missing )" in told[2]
    assert "is the id of a built-in rule" in "".join(told)
    assert "the environment variable DEPLOY_PASSWORD is missing" in "".join(told)
    assert "the file /none is missing" in told[-1]


@pytest.mark.parametrize(
    ("regex", "why"),
    [
        (r"(\w+)\1", "back-references"),
        ("a*", "matches empty text"),
        (".+", "matches ordinary text"),
        (r"\w+ ?", "matches ordinary text"),
        ("a{1,2000}", "invalid repetition size"),
    ],
)
def test_a_pattern_that_is_invalid_is_reported(layout, regex, why):
    text = f"rules:\n  - id: mine\n    regex: '{regex}'\n"
    (told,) = load_problems(layout, text)
    assert told.startswith("3: rules[0].regex: ")
    assert why in told


def test_a_group_that_does_not_exist_is_reported(layout):
    (told,) = load_problems(layout, "rules:\n  - id: mine\n    regex: 'tk(x)'\n    group: 2\n")
    assert told == "4: rules[0].group: is 2, but the regex has 1 groups"


def test_an_id_is_given_once(layout):
    text = "rules:\n  - {id: mine, regex: 'tkx'}\n  - {id: mine, regex: 'tky'}\n"
    assert load_problems(layout, text) == ['3: rules[1].id: "mine" is taken; take another one']


def test_a_value_in_the_file_is_never_shown_and_nobody_else_may_read_it(layout):
    text = "values:\n  - {id: mine, value: 'tr0ub4dor'}\n"
    assert load_file(layout, text).values[0].text == "tr0ub4dor"
    (told,) = load_problems(layout, text, 0o640)
    assert "others can read or change it; chmod 600" in told
    for broken in (text.replace("'tr0ub4dor'", "[tr0ub4dor]"), text.replace("tr0ub4dor", "troub")):
        (told,) = load_problems(layout, broken)
        assert "troub" not in told
        assert "tr0ub" not in told


def test_a_short_value_is_refused_because_it_is_everywhere(layout):
    (told,) = load_problems(layout, "values:\n  - {id: mine, value: 'env:A'}\n", A="short")
    assert told.startswith("2: values[0].value: ")
    assert "shorter than 6 bytes" in told


def test_a_check_looks_for_files_but_asks_no_environment(layout):
    Path(layout.secret_rules).write_text("values:\n  - {id: mine, value: 'env:A'}\n")
    secrets_rule_file.check_rules(layout)
    Path(layout.secret_rules).write_text("values:\n  - {id: mine, value: 'file:/none'}\n")
    with pytest.raises(ConfigError, match="the file /none is missing"):
        secrets_rule_file.check_rules(layout)


def test_an_edit_holds_while_the_daemon_works_and_a_broken_one_changes_nothing(layout):
    told: list[int] = []

    async def run_scenario() -> None:
        followed = secrets_rule_file.watch_rules(layout, {}, lambda: told.append(1))
        await followed.refresh()
        assert followed.current == SecretRules(BUILT_IN)
        path = Path(layout.secret_rules)
        path.write_text("rules:\n  - {id: mine, regex: 'tkx'}\n")
        await followed.refresh()
        assert followed.current.rules[0].id == "mine"
        path.write_text("rules:\n  - {id: mine, regex: 'longer('}\n")
        await followed.refresh()
        assert followed.current.rules[0].id == "mine"
        assert followed.problems[0].line == 2

    asyncio.run(run_scenario())
    assert len(told) >= 2


def test_the_seed_is_made_once_and_nobody_else_may_read_it(layout):
    seed = secrets_rule_file.load_seed(layout)
    assert len(seed) == 32
    assert secrets_rule_file.load_seed(layout) == seed
    path = Path(layout.placeholder_seed)
    assert path.stat().st_mode & 0o777 == 0o600
    path.chmod(0o644)
    with pytest.raises(ConfigError, match="others can read"):
        secrets_rule_file.load_seed(layout)


@pytest.mark.parametrize("damaged", [b"", b"short", b"x" * 33, bytes(32)], ids=len)
def test_a_damaged_seed_is_set_aside_and_another_made(layout, damaged, caplog):
    first = secrets_rule_file.load_seed(layout)
    path = Path(layout.placeholder_seed)
    path.write_bytes(damaged)
    [problem] = secrets_rule_file.check_seed(layout)
    assert problem.where == str(path)
    second = secrets_rule_file.load_seed(layout)
    assert len(second) == 32
    assert second not in (first, damaged)
    assert secrets_rule_file.load_seed(layout) == second
    assert list(secrets_rule_file.check_seed(layout)) == []
    [aside] = path.parent.glob("seed.damaged-*")
    assert aside.read_bytes() == damaged
    assert f"{path} is damaged, and is now {aside}" in caplog.text


def test_the_example_of_the_readme_is_read(layout):
    readme = (REPOSITORY / "config" / "README.md").read_text()
    (example,) = re.findall("### `secret-rules.yml`.*?```yaml\n(.*?)```", readme, re.DOTALL)
    found = load_file(layout, example, DEPLOY_PASSWORD="tr0ub4dor")
    assert found.rules[0].id == "ticket"
    assert found.values
    assert {rule.mode for rule in found.rules} == {"hide", "block", "report"}


def test_the_readme_names_every_built_in_rule():
    readme = (REPOSITORY / "config" / "README.md").read_text()
    named = set(re.findall(r"`([a-z][a-z0-9-]*)`", readme.split("### `secret-rules.yml`")[1]))
    assert {rule.id for rule in BUILT_IN} <= named
