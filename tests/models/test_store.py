"""``models.yml``: every mistake with its line, and keys that nobody else can read."""

import re
from decimal import Decimal
from pathlib import Path

import pytest

from agentd.core.errors import ConfigError, ConfigProblem
from agentd.models import store as models_store
from agentd.models.model import Models, Supplier
from agentd.storage.layout import Layout
from tests.support.paths import REPOSITORY

FILE = """\
default: sonnet
suppliers:
  anthropic: {dialect: anthropic, url: "https://api.anthropic.com", key: "env:ANTHROPIC_API_KEY"}
models:
  - name: sonnet
    engine: native
    model: claude-sonnet-4-5
    supplier: anthropic
    effort: high
    context: 200000
    prices: {input: 3, cache_read: "0.30", cache_write: "3.75", output: 15}
  - name: long
    engine: native
    model: m
    supplier: anthropic
    prices:
      input: 1
      output: 2
      above:
      - {tokens: 200000, input: 2, output: 4}
"""


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(str(tmp_path / "state"), str(tmp_path))


def read(layout: Layout, text: str, mode: int = 0o600) -> Models:
    path = Path(layout.models)
    path.write_text(text)
    path.chmod(mode)
    return models_store.load(layout)


def read_problems(layout: Layout, text: str, mode: int = 0o600) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        read(layout, text, mode)
    return [str(problem).removeprefix(f"{layout.models}:") for problem in caught.value.problems]


def test_a_whole_file_is_read(layout):
    found = read(layout, FILE, 0o644)
    sonnet = found.find(found.default)
    assert (sonnet.engine, sonnet.model, sonnet.effort) == ("native", "claude-sonnet-4-5", "high")
    assert sonnet.prices is not None
    assert sonnet.prices.cache_read == Decimal("0.30")
    assert sonnet.prices.reasoning is None
    long = found.find("long")
    assert long.prices is not None
    assert [(tier.tokens, tier.output) for tier in long.prices.above] == [(200000, Decimal(4))]
    assert found.suppliers["anthropic"].key == "env:ANTHROPIC_API_KEY"


def test_without_a_file_there_are_no_models(layout):
    assert models_store.load(layout) == Models()


def test_every_mistake_of_the_shape_comes_with_its_line_and_the_nearest_right_name(layout):
    text = FILE.replace("engine: native\n    model: m", "engine: nativ\n    modle: m")
    text = text.replace("output: 2\n", "output: -2\n").replace("dialect: anthropic", "dialect: a")
    assert read_problems(layout, text) == [
        '3: suppliers.anthropic.dialect: found "a", expected anthropic or openai-chat or'
        " openai-responses",
        '13: models[1].engine: found "nativ", expected acp or claude-code or codex or native or'
        ' offline; did you mean "native"?',
        '14: models[1]: "modle" is not known here; did you mean "model"?',
        "17: models[1].prices: output: -2 is not a price; expected 0 to 1000000 USD",
    ]


def test_every_contradiction_comes_with_its_line(layout):
    text = FILE.replace("name: long", "name: sonnet").replace("default: sonnet", "default: opus")
    head, _, tail = text.rpartition("supplier: anthropic")
    told = read_problems(layout, f"{head}supplier: antropic{tail}")
    assert [line.split(":")[0] for line in told] == ["1", "12", "15"]
    assert 'models[1].supplier: "antropic" is none of the suppliers; did you mean' in told[2]


def test_a_key_in_the_file_is_never_shown(layout):
    text = FILE.replace('"env:ANTHROPIC_API_KEY"', "sk-secret")
    assert read(layout, text).suppliers["anthropic"].key == "sk-secret"
    for broken in (
        text.replace("sk-secret", "[sk-secret]"),
        text.replace("sk-secret", "'sk-secret with blanks'"),
        text.replace("sk-secret", "sk-secret" * 500),
        text.replace("dialect: anthropic", "dialect: sk"),
    ):
        assert "secret" not in "".join(read_problems(layout, broken))


def test_a_file_with_a_key_in_it_must_be_readable_by_nobody_else(layout):
    text = FILE.replace('"env:ANTHROPIC_API_KEY"', "sk-secret")
    (told,) = read_problems(layout, text, 0o640)
    assert f"others can read or change it; chmod 600 {layout.models}" in told


def read_key(text: str, environ: dict[str, str] | None = None) -> str:
    return models_store.read_supplier_key(
        "s", Supplier("anthropic", "https://a.b", text), environ or {}
    )


def read_key_problem(text: str, environ: dict[str, str] | None = None) -> ConfigProblem:
    with pytest.raises(ConfigError) as caught:
        read_key(text, environ)
    (problem,) = caught.value.problems
    return problem


def test_a_key_comes_from_where_the_file_points(tmp_path):
    place = tmp_path / "key"
    place.write_text("sk-file\n")
    place.chmod(0o600)
    assert read_key("") == ""
    assert read_key("sk-here") == "sk-here"
    assert read_key("env:K", {"K": "sk-env"}) == "sk-env"
    assert read_key(f"file:{place}") == "sk-file"


def test_a_path_from_home_is_understood(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "key").write_text("sk-home")
    (tmp_path / "key").chmod(0o600)
    assert read_key("file:~/key") == "sk-home"


def test_a_key_that_is_unavailable_is_reported_by_its_place(tmp_path):
    assert str(read_key_problem("env:K")) == (
        "suppliers.s.key: the environment variable K is not set; put the supplier's key there"
    )
    assert "there is no file" in read_key_problem(f"file:{tmp_path}/none").what
    (tmp_path / "empty").touch(0o600)
    assert "is empty; put" in read_key_problem(f"file:{tmp_path}/empty").what


def test_a_key_file_that_others_can_read_or_that_is_a_link_is_refused(tmp_path):
    place = tmp_path / "key"
    place.write_text("sk-file")
    place.chmod(0o644)
    assert "others can read" in read_key_problem(f"file:{place}").what
    place.chmod(0o600)
    (tmp_path / "link").symlink_to(place)
    assert "symbolic link" in read_key_problem(f"file:{tmp_path}/link").what


def test_a_check_shows_the_keys_that_are_unavailable_but_asks_no_environment(layout):
    text = FILE.replace("env:ANTHROPIC_API_KEY", f"file:{layout.config}/none")
    read(layout, text)
    with pytest.raises(ConfigError, match=r"^suppliers\.anthropic\.key: there is no file"):
        models_store.check(layout)
    read(layout, FILE)
    models_store.check(layout)


def test_the_example_of_the_readme_is_read(layout):
    readme = (REPOSITORY / "config" / "README.md").read_text()
    (example,) = re.findall("## `models.yml`.*?```yaml\n(.*?)```", readme, re.DOTALL)
    found = read(layout, example, 0o644)
    assert found.default in found.names
    assert {model.engine for model in found.models} == {
        *("offline", "native", "codex", "claude-code", "acp")
    }
    assert {supplier.dialect for supplier in found.suppliers.values()} == {
        *("openai-chat", "openai-responses", "anthropic")
    }
    assert any(model.prices and model.prices.above for model in found.models)


@pytest.mark.parametrize("value", ["two words", "line\nline", "caf\xe9", "tab\t"])
def test_what_could_not_stand_in_a_header_is_no_key_and_is_not_reported(value):
    problem = read_key_problem("env:K", {"K": value})
    assert "is no key" in problem.what
    assert value not in problem.what


@pytest.mark.parametrize("host", ["[::1", "a:b", "a..b"])
def test_a_suppliers_address_that_no_request_can_be_sent_to_is_reported(layout, host):
    text = FILE.replace("https://api.anthropic.com", f"https://{host}/v1")
    with pytest.raises(ConfigError) as error:
        read(layout, text)
    (problem,) = error.value.problems
    assert problem.line == 3
    assert problem.what.startswith("suppliers.anthropic.url: its host or port is not valid")


PROXY = """\
proxy:
  - name: sonnet
    prices: {input: 3, output: 15}
    max_output: 64000
    routes:
      - {channel: anthropic, model: claude-sonnet-4-5}
      - {channel: azure, priority: 1, weight: 3, prices: {input: 4, output: 20}}
  - name: vendor/mini
    enabled: false
    routes: [{channel: openai}]
"""


def test_the_models_of_the_gateway_stand_apart_from_those_of_chats(layout):
    found = read(layout, FILE + PROXY)
    assert found.names == ("sonnet", "long")
    sonnet, mini = found.proxy
    assert [(one.channel, one.priority, one.weight) for one in sonnet.routes] == [
        ("anthropic", 0, 1),
        ("azure", 1, 3),
    ]
    assert sonnet.routes[1].prices is not None
    assert sonnet.routes[1].prices.input == 4
    assert not mini.enabled


def test_contradictions_between_models_of_the_gateway_come_with_their_line(layout):
    text = PROXY.replace("vendor/mini", "sonnet").replace(
        "channel: azure", "channel: anthropic, model: claude-sonnet-4-5"
    )
    assert read_problems(layout, text) == [
        "7: proxy[0].routes[1]: is the same route as one above; remove it",
        '8: proxy[1].name: "sonnet" is the name of a model above; choose another',
    ]
    assert (
        "8: proxy[1]: "
        in read_problems(layout, PROXY.replace("routes: [{channel: openai}]", ""))[0]
    )


def test_a_way_to_a_channel_that_is_not_there_is_told_with_its_line_and_the_rest_holds(layout):
    read(layout, PROXY)
    assert (
        models_store.find_unknown_channels(layout, {"anthropic": 1, "azure": 1, "openai": 1}) == ()
    )
    told = models_store.find_unknown_channels(layout, ["antropic", "openai"])
    assert [problem.line for problem in told] == [6, 7]
    assert told[0].what == (
        'proxy[0].routes[0].channel: "anthropic" is no channel of channels.yml;'
        ' did you mean "antropic"?'
    )
    assert "there are none yet" in models_store.find_unknown_channels(layout, ())[0].what


def test_a_file_with_mistakes_of_its_own_is_compared_with_no_channels(layout):
    read_problems(layout, PROXY.replace("vendor/mini", "sonnet"))
    with pytest.raises(ConfigError, match="is the name of a model above"):
        models_store.find_unknown_channels(layout, ())


def test_fallbacks_that_lead_in_a_circle_are_told_with_their_line(layout):
    text = """\
proxy:
  - name: large
    routes: [{channel: one}]
    fallbacks:
      - small
  - name: small
    routes: [{channel: one}]
    fallbacks: [large]
    content_fallbacks: [smal]
"""
    found = sorted(read_problems(layout, text))
    assert [line.split(":")[0] for line in found] == ["5", "9"]
    assert "large → small → large" in found[0]
    assert 'did you mean "small"' in found[1]
