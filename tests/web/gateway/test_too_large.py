"""Bodies that are larger than they may be."""

from collections.abc import Iterator

import anthropic
import openai
import pytest

from agentd.proxy.channel import ChannelDialect
from tests.web.gateway.callers import CHANNELS, Standing, asked, every_dialect, read, standing
from tests.web.gateway.conftest import House

MOST = 2**20


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standing]:
    def prepare(house: House) -> None:
        house.settings["max_body"] = MOST

    with standing(tmp_path_factory.mktemp("house"), prepare) as made:
        yield made


@pytest.mark.parametrize("chunked", [False, True])
@every_dialect
def test_a_body_that_is_too_large_is_refused_in_the_dialect(
    place: Standing, dialect: ChannelDialect, chunked: bool
) -> None:
    caller = place.caller()
    path, _ = asked(dialect, f"by-{CHANNELS[dialect]}")
    size = MOST + 1
    body = b" " * size
    request = caller.request(path, body)
    if chunked:
        head = caller.request(path, b"").replace(
            b"Content-Length: 0", b"Transfer-Encoding: chunked"
        )
        request = head + b"%x\r\n%b\r\n0\r\n\r\n" % (size, body)
    with caller.connected() as line:
        line.sendall(request)
        told = read(line, dialect)
    assert told.status == 413
    assert told.error()
    assert not place.supplier.requests


@pytest.mark.parametrize("size", [2 * MOST, 80 * MOST])
def test_the_vendors_clients_understand_the_refusal(place: Standing, size: int) -> None:
    key, said = place.house.key(), [{"role": "user", "content": "x" * size}]
    url = place.daemon.url
    with (
        openai.OpenAI(base_url=f"{url}/v1", api_key=key, max_retries=0) as client,
        pytest.raises(openai.APIStatusError) as refused,
    ):
        client.chat.completions.create(model="by-chat", messages=said)
    assert refused.value.status_code == 413
    with (
        anthropic.Anthropic(base_url=url, api_key=key, max_retries=0) as other,
        pytest.raises(anthropic.APIStatusError) as refused_too,
    ):
        other.messages.create(model="by-messages", max_tokens=9, messages=said)
    assert refused_too.value.status_code == 413
