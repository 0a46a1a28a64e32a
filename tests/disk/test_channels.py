"""``channels.yml``: every mistake with its line, no secret told."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec import structs

from agentd.disk import channels
from agentd.disk.channels import ChannelBook
from agentd.disk.layout import Layout
from agentd.disk.models import strays
from agentd.errors import AgentdError, BadRequest, Conflict, Misconfigured, NotFound
from agentd.proxy.channel import Channel, Transport
from agentd.proxy.masking import shown

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


def read(layout: Layout, text: str, mode: int = 0o600):
    path = Path(layout.channels)
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    path.chmod(mode)
    return channels.load(layout)


def mistakes(layout: Layout, text: str, mode: int = 0o600) -> list[str]:
    with pytest.raises(Misconfigured) as caught:
        read(layout, text, mode)
    assert "hidden" not in str(caught.value)
    return [str(mistake).removeprefix(f"{layout.channels}:") for mistake in caught.value.mistakes]


def test_a_whole_file_is_read_in_its_order(layout):
    found = read(layout, FILE)
    assert list(found) == ["anthropic", "openai", "here"]
    openai = found["openai"]
    assert openai.key == "sk-hidden-0123456789"
    assert openai.dialects == ("openai-responses", "openai-chat")
    assert openai.transport == Transport("socks5", "socks5h://me:hidden-too@10.0.0.1:1080")
    assert (openai.on_leave, openai.cool_down, openai.enabled) == ("drain", 5.5, True)
    assert found["here"].local


@pytest.mark.parametrize("text", ["", "channels:\n", "channels: []\n", "# none yet\n"])
def test_without_channels_there_are_none(layout, text):
    assert channels.load(layout) == {}
    assert read(layout, text) == {}


def test_every_mistake_of_the_shape_comes_with_its_line_and_the_nearest_right_name(layout):
    text = FILE.replace("dialects: [anthropic]", "dialects: [antropic]")
    text = text.replace("url: https://api.openai.com/v1", "url: api.openai.com")
    text = text.replace("on_leave", "onleave").replace("kind: socks5", "kind: socks")
    told = mistakes(layout, text)
    assert [line.split(":")[0] for line in told] == ["3", "9", "11", "13"]
    assert 'did you mean "anthropic"?' in told[0]
    assert 'did you mean "socks5"?' in told[2]
    assert 'did you mean "on_leave"?' in told[3]


def test_what_no_address_and_no_name_can_be_is_told_in_words(layout):
    text = "channels:\n- {name: a b, dialects: [anthropic], url: 'localhost:1'}\n"
    name, url = mistakes(layout, text)
    assert 'name: found "a b", expected at most 64 letters, digits and . _ -' in name
    assert 'url: found "localhost:1", expected an address such as https://' in url
    (told,) = mistakes(layout, FILE.replace("on_leave: drain", "on_leave: xyz"))
    assert told.endswith('on_leave: found "xyz", expected cut or drain')


def test_a_channel_without_a_dialect_is_none(layout):
    (told,) = mistakes(layout, FILE.replace("dialects: [anthropic]", "dialects: []"))
    assert told == "3: channels[0].dialects: expected at least 1 item"


def test_every_contradiction_comes_with_its_line(layout):
    text = FILE.replace("name: here", "name: openai")
    text = text.replace("[openai-responses, openai-chat]", "[openai-chat, openai-chat]")
    text = text.replace("env:ANTHROPIC_API_KEY", "env:ANTHROPIC-API-KEY")
    text = text.replace("OpenAI-Organization: org", "Content-Length: '5'")
    assert mistakes(layout, text) == [
        "5: channels[0].key: expected the name of an environment variable after env:",
        "8: channels[1].dialects[1]: openai-chat is told twice",
        "12: channels[1].headers.Content-Length: is set by agentd itself; remove it",
        '15: channels[2].name: "openai" is the name of a channel above; choose another',
    ]


@pytest.mark.parametrize(
    ("transport", "wrong"),
    [
        ("{kind: direct, url: 'http://hidden'}", "mean nothing to kind direct"),
        ("{kind: socks5}", '"url" is missing'),
        ("{kind: http, url: 'socks5://hidden:1'}", "kind http begins otherwise"),
        ("{kind: socks5, url: 'http://hidden:1'}", "kind socks5 begins otherwise"),
        ("{kind: http, url: 'http://h:1', server: x}", '"server" means nothing'),
        ("{kind: vpn, url: 'hidden blank'}", "has blanks"),
    ],
)
def test_a_transport_that_does_not_fit_is_told(layout, transport, wrong):
    text = (
        f"channels: [{{name: a, dialects: [anthropic], url: 'https://a', transport: {transport}}}]"
    )
    (told,) = mistakes(layout, text)
    assert wrong in told


@pytest.mark.parametrize("host", ["127.0.0.1:1", "localhost", "[::1]", "10.0.0.1", "0x7f.1"])
def test_an_address_inside_must_be_meant(layout, host):
    text = f"channels: [{{name: a, dialects: [anthropic], url: 'http://{host}/v1'}}]"
    (told,) = mistakes(layout, text)
    assert told == "1: channels[0].url: leads to this machine or its network; add local: true"
    assert read(layout, text.replace("}]", ", local: true}]"))


@pytest.mark.parametrize("name", ["a b", "a:", "", "h\xe9"])
def test_a_header_that_cannot_be_sent_is_told(layout, name):
    text = "channels: [{name: a, dialects: [anthropic], url: 'https://a', headers: {'NAME': x}}]"
    assert "no name of a header" in mistakes(layout, text.replace("NAME", name))[0]


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
    assert "chmod 600" in mistakes(layout, text + secret, 0o640)[0]
    assert read(layout, text + secret)
    assert read(layout, text + "key: env:A", 0o644)


def test_a_check_tells_the_secrets_that_are_not_to_be_had_but_asks_no_environment(layout):
    read(layout, FILE)
    channels.check(layout)
    read(layout, FILE.replace("env:ANTHROPIC_API_KEY", f"file:{layout.config}/none"))
    with pytest.raises(Misconfigured, match=r"^channels\.anthropic\.key: there is no file"):
        channels.check(layout)


def test_the_example_of_the_readme_is_read(layout):
    readme = (Path(__file__).parents[2] / "config" / "README.md").read_text()
    (example,) = re.findall("### `channels.yml`.*?```yaml\n(.*?)```", readme, re.DOTALL)
    assert list(read(layout, example, 0o644)) == ["anthropic", "openai", "here"]
    (example,) = re.findall("### Section `proxy`.*?```yaml\n(.*?)```", readme, re.DOTALL)
    Path(layout.models).write_text(example)
    assert strays(layout, channels.load(layout)) == ()


# By the API.

NEW = Channel(
    name="new",
    dialects=("anthropic",),
    url="https://new.example",
    key="sk-new-0123456789",
    transport=Transport("http", "http://u:p@proxy:1"),
    headers={"x-a": "b"},
    timeout=5.5,
)


def text(layout: Layout) -> str:
    return Path(layout.channels).read_text()


def book(layout: Layout, content: str = FILE) -> ChannelBook:
    read(layout, content)
    return ChannelBook(layout)


@pytest.mark.gen_test
async def test_a_channel_is_added_below_the_others_and_holds_at_once(layout):
    changes: list[int] = []
    read(layout, FILE)
    made = ChannelBook(layout, lambda: changes.append(1))
    assert await made.add(NEW) == NEW
    assert made.current["new"] == NEW
    assert changes == [1]
    assert text(layout).startswith(FILE)
    assert "\n  - name: 'new'\n    dialects: ['anthropic']\n" in text(layout)


@pytest.mark.gen_test
async def test_the_first_channel_makes_a_file_that_nobody_else_can_read(layout):
    made = ChannelBook(layout)
    await made.add(NEW)
    assert made.current == {"new": NEW}
    assert Path(layout.channels).stat().st_mode & 0o777 == 0o600


@pytest.mark.gen_test
async def test_a_file_that_gets_its_first_secret_is_closed_to_others(layout):
    read(layout, "channels:\n- {name: a, dialects: [anthropic], url: 'https://a'}\n", 0o644)
    made = ChannelBook(layout)
    await made.change("a", lambda old: structs.replace(old, key="sk-new"))
    assert made.current["a"].key == "sk-new"
    assert Path(layout.channels).stat().st_mode & 0o777 == 0o600


@pytest.mark.gen_test
async def test_only_what_changes_is_written(layout):
    made = book(layout)

    def slower(old: Channel) -> Channel:
        return structs.replace(old, cool_down=9.0, on_leave="cut", timeout=7.5)

    await made.change("openai", slower)
    assert text(layout) == FILE.replace("on_leave: drain", "on_leave: 'cut'").replace(
        "cool_down: 5.5", "cool_down: 9\n    timeout: 7.5"
    )
    await made.enable("anthropic", False)
    assert not made.current["anthropic"].enabled
    before = text(layout)
    await made.enable("anthropic", False)
    assert text(layout) == before


@pytest.mark.gen_test
async def test_a_masked_channel_that_is_written_back_changes_no_byte(layout):
    made = book(layout)
    await made.change("openai", shown)
    assert text(layout) == FILE


@pytest.mark.gen_test
async def test_no_key_goes_to_another_address_by_a_change_or_a_copy(layout):
    made = book(layout)

    def moved(old: Channel) -> Channel:
        return structs.replace(shown(old), url="https://evil.example")

    with pytest.raises(BadRequest, match="does not go along"):
        await made.copy("openai", "twin", moved)
    with pytest.raises(BadRequest, match="does not go along"):
        await made.change("openai", moved)
    assert text(layout) == FILE


@pytest.mark.gen_test
async def test_a_copy_at_the_same_address_has_the_same_secrets(layout):
    made = book(layout)
    await made.copy("openai", "twin", shown)
    assert made.current["twin"] == structs.replace(made.current["openai"], name="twin")


@pytest.mark.gen_test
async def test_a_channel_leaves_with_its_comment(layout):
    made = book(layout)
    assert (await made.remove("openai")).name == "openai"
    begin, end = FILE.index("  # through"), FILE.index("  - {name: here")
    assert text(layout) == FILE[:begin] + FILE[end:]
    await made.remove("here")
    await made.remove("anthropic")
    assert made.current == {}


async def refused(layout: Layout, kind: type[AgentdError], step: Callable) -> str:
    made = book(layout)
    await made.file.refresh()
    with pytest.raises(kind) as caught:
        await step(made)
    assert text(layout) == FILE
    told = caught.value.message + caught.value.details
    assert "hidden" not in told
    return told


@pytest.mark.gen_test
async def test_what_cannot_be_is_told_and_nothing_is_written(layout):
    near = await refused(layout, NotFound, lambda made: made.remove("opnai"))
    assert 'did you mean "openai"?' in near
    for step in (
        lambda made: made.add(structs.replace(NEW, name="here")),
        lambda made: made.copy("here", "openai"),
        lambda made: made.change("here", lambda old: structs.replace(old, name="openai")),
    ):
        assert "already" in await refused(layout, Conflict, step)
    for wrong in (
        structs.replace(NEW, name="a b"),
        structs.replace(NEW, name="new\n"),
        structs.replace(NEW, url="ftp://new"),
        structs.replace(NEW, key="hidden key"),
        structs.replace(NEW, key="****hidden"),
        structs.replace(NEW, headers={"Host": "x"}),
        structs.replace(NEW, transport=Transport("socks5")),
    ):
        await refused(layout, BadRequest, lambda made, wrong=wrong: made.add(wrong))


@pytest.mark.gen_test
async def test_whoever_saves_the_file_in_the_same_moment_wins(layout):
    made = book(layout)
    hers = FILE + "# hers\n"

    def meanwhile(old: Channel) -> Channel:
        Path(layout.channels).write_text(hers)
        return structs.replace(old, enabled=False)

    with pytest.raises(Conflict, match="somebody else"):
        await made.change("here", meanwhile)
    assert text(layout) == hers


@pytest.mark.gen_test
async def test_a_file_with_mistakes_is_mended_by_hand_first(layout):
    made = book(layout)
    await made.file.refresh()
    Path(layout.channels).write_text(FILE.replace("on_leave", "onleave"))
    with pytest.raises(Conflict, match="mend it by hand"):
        await made.add(NEW)
    await made.file.refresh()
    assert list(made.current) == ["anthropic", "openai", "here"], "the last good ones hold"
    assert [mistake.line for mistake in made.file.mistakes] == [13]
