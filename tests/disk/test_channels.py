"""``channels.yml``: every mistake with its line, no secret told."""

from pathlib import Path

import pytest

from agentd.disk import channels
from agentd.disk.layout import Layout
from agentd.errors import Misconfigured
from agentd.proxy.channel import Transport

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
        ("{kind: http, url: 'socks5://hidden:1'}", "begins with http://"),
        ("{kind: socks5, url: 'http://hidden:1'}", "begins with socks5:// or socks5h://"),
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


@pytest.mark.parametrize("name", ["a b", "a:", "", "h\xe9"])
def test_a_header_that_cannot_be_sent_is_told(layout, name):
    text = "channels: [{name: a, dialects: [anthropic], url: 'https://a', headers: {'NAME': x}}]"
    assert "no name of a header" in mistakes(layout, text.replace("NAME", name))[0]


@pytest.mark.parametrize(
    "secret",
    [
        "key: sk-hidden",
        "transport: {kind: http, url: 'http://hidden@h:1'}",
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
