"""The supplier that repeats, with which the model gateway is tried."""

import re
import subprocess
import sys
from collections.abc import Iterator

import openai
import pytest


@pytest.fixture
def url() -> Iterator[str]:
    """Yield the address of a supplier."""
    command = [sys.executable, "-m", "agentd", "demo", "--supplier", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr
        try:
            found = re.search(r"http://\S+", process.stderr.readline())
            assert found
            yield found[0]
        finally:
            process.terminate()


def test_openais_client_is_shown_what_it_said_whole_and_streamed(url: str) -> None:
    with openai.OpenAI(base_url=f"{url}/v1", api_key="x", max_retries=0, timeout=60) as client:
        assert [model.id for model in client.models.list()] == ["parrot"]
        said = [{"role": "user", "content": "hello there"}]
        whole = client.chat.completions.create(model="parrot", messages=said)
        assert whole.choices[0].message.content == "You said: hello there"
        assert whole.usage.prompt_tokens > 0
        with client.chat.completions.create(model="parrot", messages=said, stream=True) as stream:
            chunks = list(stream)
        assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks).split() == [
            *("You", "said:", "hello", "there")
        ]
        assert chunks[-1].choices[0].finish_reason == "stop"
        with pytest.raises(openai.BadRequestError, match='"messages" must be a list'):
            client.chat.completions.create(model="parrot", messages=[])
