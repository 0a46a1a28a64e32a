"""``channels.yml``: every mistake with its line, no secret told."""

import re
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from agentd.core.errors import AgentdError, BadRequest, ConfigError, Conflict, NotFound
from agentd.gateway.channels import store as channels_store
from agentd.gateway.channels.masking import mask_channel
from agentd.gateway.channels.model import Channel
from agentd.gateway.channels.store import ChannelRepository
from agentd.llm.endpoint import ChannelTransport
from agentd.llm.parameters import ParameterChanges
from agentd.models.store import find_unknown_channels
from agentd.storage.layout import Layout
from tests.support.paths import REPOSITORY

FILE = """\
channels:
  - name: anthropic
    dialects: [anthropic]
    url: https://api.anthropic.com
    key: env:ANTHROPIC_API_KEY
  # through the office
  - name: openai
    dialects: [openai-responses, openai-chat]
    url: https://api.openai.com/v1
    key: sk-hidden-0123456789
    transport: {kind: socks5, url: "socks5h://me:hidden-too@10.0.0.1:1080"}
    headers: {OpenAI-Organization: org, X-Token: hidden-three}
    on_leave: drain
    cool_down: 5.5
  - {name: here, dialects: [openai-chat], url: "http://127.0.0.1:11434", local: true}
"""


def load_file(layout: Layout, text: str, mode: int = 0o600):
    path = Path(layout.channels)
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    path.chmod(mode)
    return channels_store.load(layout)


def load_problems(layout: Layout, text: str, mode: int = 0o600) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load_file(layout, text, mode)
    assert "hidden" not in str(caught.value)
    return [str(problem).removeprefix(f"{layout.channels}:") for problem in caught.value.problems]


def test_a_whole_file_is_read_in_its_order(layout):
    found = load_file(layout, FILE)
    assert list(found) == ["anthropic", "openai", "here"]
    openai = found["openai"]
    assert openai.key == "sk-hidden-0123456789"
    assert openai.dialects == ("openai-responses", "openai-chat")
    assert openai.transport == ChannelTransport("socks5", "socks5h://me:hidden-too@10.0.0.1:1080")
    assert (openai.on_leave, openai.cool_down, openai.enabled) == ("drain", 5.5, True)
    assert found["here"].local


def test_further_keys_are_read_and_every_mistake_in_them_has_its_line(layout):
    text = FILE.replace("key: sk-hidden-0123456789", "keys: [env:ONE, sk-hidden-0123456789]")
    openai = load_file(layout, text)["openai"]
    assert openai.keys == ("env:ONE", "sk-hidden-0123456789")
    assert openai.key_fields == ("keys[0]", "keys[1]")
    wrong = text.replace("env:ONE", "'', env:A-B, env:ONE, env:ONE")
    result = [line.partition(": ")[2] for line in load_problems(layout, wrong)]
    assert [line.partition(": ")[0] for line in result] == [
        f"channels[1].keys[{number}]" for number in (0, 1, 3)
    ]
    many = ", ".join(f"env:K{number}" for number in range(51))
    (result,) = load_problems(layout, text.replace("env:ONE", many))
    assert "channels[1].keys: found 52 items; expected at most 50" in result


def test_a_file_with_a_further_key_in_it_is_private(layout):
    text = "channels:\n- {name: a, dialects: [anthropic], url: 'https://a.b', keys: [KEYS]}\n"
    assert load_file(layout, text.replace("KEYS", "env:ONE"), 0o644)["a"].keys == ("env:ONE",)
    with pytest.raises(AgentdError):
        load_file(layout, text.replace("KEYS", "sk-hidden"), 0o644)


@pytest.mark.parametrize("text", ["", "channels:\n", "channels: []\n", "# none yet\n"])
def test_without_channels_there_are_none(layout, text):
    assert channels_store.load(layout) == {}
    assert load_file(layout, text) == {}


def test_every_mistake_of_the_shape_comes_with_its_line_and_the_nearest_right_name(layout):
    text = FILE.replace("dialects: [anthropic]", "dialects: [antropic]")
    text = text.replace("url: https://api.openai.com/v1", "url: api.openai.com")
    text = text.replace("on_leave", "onleave").replace("kind: socks5", "kind: socks")
    result = load_problems(layout, text)
    assert [line.split(":")[0] for line in result] == ["3", "9", "11", "13"]
    assert 'did you mean "anthropic"?' in result[0]
    assert 'did you mean "socks5"?' in result[2]
    assert 'did you mean "on_leave"?' in result[3]


def test_what_no_address_and_no_name_can_be_is_reported_in_words(layout):
    text = "channels:\n- {name: a b, dialects: [anthropic], url: 'localhost:1'}\n"
    name, url = load_problems(layout, text)
    assert 'name: found "a b", expected at most 64 letters, digits and . _ -' in name
    assert 'url: found "localhost:1", expected an address such as https://' in url
    (result,) = load_problems(layout, FILE.replace("on_leave: drain", "on_leave: xyz"))
    assert result.endswith('on_leave: found "xyz", expected cut or drain')


def test_a_channel_without_a_dialect_is_none(layout):
    (result,) = load_problems(layout, FILE.replace("dialects: [anthropic]", "dialects: []"))
    assert result == "3: channels[0].dialects: expected at least 1 item"


def test_every_contradiction_comes_with_its_line(layout):
    text = FILE.replace("name: here", "name: openai")
    text = text.replace("[openai-responses, openai-chat]", "[openai-chat, openai-chat]")
    text = text.replace("env:ANTHROPIC_API_KEY", "env:ANTHROPIC-API-KEY")
    text = text.replace("OpenAI-Organization: org", "Content-Length: '5'")
    assert load_problems(layout, text) == [
        "5: channels[0].key: expected the name of an environment variable after env:",
        "8: channels[1].dialects[1]: openai-chat is listed twice",
        "12: channels[1].headers.Content-Length: is set by agentd itself; remove it",
        '15: channels[2].name: "openai" is the name of a channel above; choose another',
    ]


@pytest.mark.parametrize(
    ("transport", "wrong"),
    [
        ("{kind: direct, url: 'http://hidden'}", "mean nothing to kind direct"),
        ("{kind: socks5}", '"url" is missing'),
        ("{kind: http, url: 'socks5://hidden:1'}", "wrong scheme for the kind http"),
        ("{kind: socks5, url: 'http://hidden:1'}", "wrong scheme for the kind socks5"),
        ("{kind: http, url: 'http://h:1', server: x}", '"server" means nothing'),
        ("{kind: vpn, url: 'hidden blank'}", "blank"),
        ("{kind: vpn, url: 'https://[::1'}", "the host or port of the subscription's address"),
    ],
)
def test_a_transport_that_does_not_fit_is_reported(layout, transport, wrong):
    text = (
        f"channels: [{{name: a, dialects: [anthropic], url: 'https://a', transport: {transport}}}]"
    )
    (result,) = load_problems(layout, text)
    assert wrong in result


@pytest.mark.parametrize("host", ["127.0.0.1:1", "localhost", "[::1]", "10.0.0.1", "0x7f.1"])
def test_an_address_inside_must_be_meant(layout, host):
    text = f"channels: [{{name: a, dialects: [anthropic], url: 'http://{host}/v1'}}]"
    (result,) = load_problems(layout, text)
    what = "leads to this machine or its network; allow it with local: true (--local)"
    assert result == f"1: channels[0].url: {what}"
    assert load_file(layout, text.replace("}]", ", local: true}]"))


@pytest.mark.parametrize("host", ["[::1", "[zz]", "a:b", "a:99999", "a..b", "a" * 64])
@pytest.mark.parametrize("local", ["", ", local: true"])
def test_an_address_that_no_request_can_be_sent_to_is_reported(layout, host, local):
    text = f"channels: [{{name: a, dialects: [anthropic], url: 'http://{host}/v1'{local}}}]"
    (result,) = load_problems(layout, text)
    assert result.startswith("1: channels[0].url: its host or port is not valid; expected an addr")


@pytest.mark.parametrize("name", ["a b", "a:", "", "h\xe9"])
def test_a_header_that_cannot_be_sent_is_reported(layout, name):
    text = "channels: [{name: a, dialects: [anthropic], url: 'https://a', headers: {'NAME': x}}]"
    assert "not a valid header name" in load_problems(layout, text.replace("NAME", name))[0]


@pytest.mark.parametrize(
    "secret",
    [
        "key: sk-hidden",
        "transport: {kind: http, url: 'http://u:hidden@h:1'}",
        "headers: {authorization: hidden}",
    ],
)
def test_a_file_with_a_secret_in_it_must_be_readable_by_nobody_else(layout, secret):
    text = "channels:\n- name: a\n  dialects: [anthropic]\n  url: https://a\n  "
    assert "chmod 600" in load_problems(layout, text + secret, 0o640)[0]
    assert load_file(layout, text + secret)
    assert load_file(layout, text + "key: env:A", 0o644)


def test_a_check_shows_the_secrets_that_are_unavailable_but_asks_no_environment(layout):
    load_file(layout, FILE)
    channels_store.check(layout)
    load_file(layout, FILE.replace("env:ANTHROPIC_API_KEY", f"file:{layout.config}/none"))
    with pytest.raises(ConfigError, match=r"^channels\.anthropic\.key: there is no file"):
        channels_store.check(layout)


def test_the_example_of_the_readme_is_read(layout):
    readme = (REPOSITORY / "config" / "README.md").read_text()
    (example,) = re.findall("### `channels.yml`.*?```yaml\n(.*?)```", readme, re.DOTALL)
    assert list(load_file(layout, example, 0o644)) == ["anthropic", "openai", "here"]
    (example,) = re.findall("### Section `proxy`.*?```yaml\n(.*?)```", readme, re.DOTALL)
    Path(layout.models).write_text(example)
    assert find_unknown_channels(layout, channels_store.load(layout)) == ()


# By the API.

NEW = Channel(
    name="new",
    dialects=("anthropic",),
    url="https://new.example",
    key="sk-new-0123456789",
    transport=ChannelTransport("http", "http://u:p@proxy:1"),
    headers={"x-a": "b"},
    timeout=5.5,
)


def read_file(layout: Layout) -> str:
    return Path(layout.channels).read_text()


def build_repository(layout: Layout, content: str = FILE) -> ChannelRepository:
    load_file(layout, content)
    return open_repository(layout)


def open_repository(
    layout: Layout, changed: Callable[[], None] = lambda: None
) -> ChannelRepository:
    return ChannelRepository(layout, channels_store.watch_channels(layout, changed))


@pytest.mark.gen_test
async def test_a_channel_is_added_below_the_others_and_holds_at_once(layout):
    changes: list[int] = []
    load_file(layout, FILE)
    made = open_repository(layout, lambda: changes.append(1))
    assert await made.add(NEW) == NEW
    assert made.current["new"] == NEW
    assert changes == [1]
    assert read_file(layout).startswith(FILE)
    assert "\n  - name: 'new'\n    dialects: ['anthropic']\n" in read_file(layout)


@pytest.mark.gen_test
async def test_the_first_channel_makes_a_file_that_nobody_else_can_read(layout):
    made = open_repository(layout)
    await made.add(NEW)
    assert made.current == {"new": NEW}
    assert Path(layout.channels).stat().st_mode & 0o777 == 0o600


@pytest.mark.gen_test
async def test_a_file_that_gets_its_first_secret_is_closed_to_others(layout):
    load_file(layout, "channels:\n- {name: a, dialects: [anthropic], url: 'https://a'}\n", 0o644)
    made = open_repository(layout)
    await made.change("a", lambda old: structs.replace(old, key="sk-new"))
    assert made.current["a"].key == "sk-new"
    assert Path(layout.channels).stat().st_mode & 0o777 == 0o600


@pytest.mark.gen_test
async def test_only_what_changes_is_written(layout):
    made = build_repository(layout)

    def make_slower(old: Channel) -> Channel:
        return structs.replace(old, cool_down=9.0, on_leave="cut", timeout=7.5)

    def disable(old: Channel) -> Channel:
        return structs.replace(old, enabled=False)

    await made.change("openai", make_slower)
    assert read_file(layout) == FILE.replace("on_leave: drain", "on_leave: 'cut'").replace(
        "cool_down: 5.5", "cool_down: 9\n    timeout: 7.5"
    )
    await made.change("anthropic", disable)
    assert not made.current["anthropic"].enabled
    before = read_file(layout)
    await made.change("anthropic", disable)
    assert read_file(layout) == before


@pytest.mark.gen_test
async def test_a_masked_channel_that_is_written_back_changes_no_byte(layout):
    made = build_repository(layout)
    await made.change("openai", mask_channel)
    assert read_file(layout) == FILE


@pytest.mark.gen_test
async def test_no_key_goes_to_another_address_by_a_change(layout):
    made = build_repository(layout)

    def move(old: Channel) -> Channel:
        return structs.replace(mask_channel(old), url="https://evil.example")

    with pytest.raises(BadRequest, match="not sent to another"):
        await made.change("openai", move)
    assert read_file(layout) == FILE


@pytest.mark.gen_test
async def test_a_copy_has_the_same_secrets(layout):
    made = build_repository(layout)
    await made.copy("openai", "twin")
    assert made.current["twin"] == structs.replace(made.current["openai"], name="twin")


@pytest.mark.gen_test
async def test_a_channel_leaves_with_its_comment(layout):
    made = build_repository(layout)
    assert (await made.remove("openai")).name == "openai"
    begin, end = FILE.index("  # through"), FILE.index("  - {name: here")
    assert read_file(layout) == FILE[:begin] + FILE[end:]
    await made.remove("here")
    await made.remove("anthropic")
    assert made.current == {}


async def check_refused(layout: Layout, kind: type[AgentdError], step: Callable) -> str:
    made = build_repository(layout)
    await made.file.refresh()
    with pytest.raises(kind) as caught:
        await step(made)
    assert read_file(layout) == FILE
    result = caught.value.message + caught.value.details
    assert "hidden" not in result
    return result


@pytest.mark.gen_test
async def test_what_cannot_be_is_reported_and_nothing_is_written(layout):
    near = await check_refused(layout, NotFound, lambda made: made.remove("opnai"))
    assert 'did you mean "openai"?' in near
    for step in (
        lambda made: made.add(structs.replace(NEW, name="here")),
        lambda made: made.copy("here", "openai"),
        lambda made: made.change("here", lambda old: structs.replace(old, name="openai")),
    ):
        assert "already" in await check_refused(layout, Conflict, step)
    for wrong in (
        structs.replace(NEW, name="a b"),
        structs.replace(NEW, name="new\n"),
        structs.replace(NEW, url="ftp://new"),
        structs.replace(NEW, key="hidden key"),
        structs.replace(NEW, key="****hidden"),
        structs.replace(NEW, headers={"Host": "x"}),
        structs.replace(NEW, transport=ChannelTransport("socks5")),
    ):
        await check_refused(layout, BadRequest, lambda made, wrong=wrong: made.add(wrong))


@pytest.mark.gen_test
async def test_anyone_who_saves_the_file_in_the_same_moment_wins(layout):
    made = build_repository(layout)
    hers = FILE + "# hers\n"

    def edit_meanwhile(old: Channel) -> Channel:
        Path(layout.channels).write_text(hers)
        return structs.replace(old, enabled=False)

    with pytest.raises(Conflict, match="somebody else"):
        await made.change("here", edit_meanwhile)
    assert read_file(layout) == hers


@pytest.mark.gen_test
async def test_a_file_with_mistakes_is_repaired_by_hand_first(layout):
    made = build_repository(layout)
    await made.file.refresh()
    Path(layout.channels).write_text(FILE.replace("on_leave", "onleave"))
    with pytest.raises(Conflict, match="by hand"):
        await made.add(NEW)
    await made.file.refresh()
    assert list(made.current) == ["anthropic", "openai", "here"], "the last good ones hold"
    assert [problem.line for problem in made.file.problems] == [13]


NUMBERS = st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    st.booleans() | NUMBERS | st.text(),
    lambda inner: st.dictionaries(st.text(max_size=200), inner) | st.lists(inner, min_size=1),
    max_leaves=5,
)


@given(st.dictionaries(st.sampled_from(["seed", "stop", "a.b"]), VALUES))
def test_every_value_of_a_parameter_is_read_as_it_was_written(values):
    with TemporaryDirectory() as folder:
        entries = channels_store.open_entries(Layout(f"{folder}/state", f"{folder}/config"))
        channel = Channel(name="a", dialects=("anthropic",), url="https://a.b")
        changes = ParameterChanges(default=values)
        made = entries.add(structs.replace(channel, parameters=changes), dry_run=True)
        assert made.parameters == (changes if values else None)
