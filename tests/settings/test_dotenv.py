"""``.env`` belongs to the person: ours is read exactly, what others put there is passed over."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentd.core.errors import ConfigError
from agentd.settings import dotenv

OURS = ["AGENTD_HOST", "AGENTD_PORT", "AGENT_API_KEY"]


def read(text: str) -> dict[str, str]:
    return dotenv.load(".env", text.encode(), OURS)


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("AGENTD_HOST=a", "a"),
        ("export AGENTD_HOST=a", "a"),
        ("  AGENTD_HOST = a b  ", "a b"),
        ("AGENTD_HOST=a # why", "a"),
        ("AGENTD_HOST=a#b", "a#b"),
        ("AGENTD_HOST='a # b'", "a # b"),
        ("AGENTD_HOST='a\\n'", "a\\n"),
        ('AGENTD_HOST="a\\n\\"b\\\\" # why', 'a\n"b\\'),
        ("AGENTD_HOST='$HOME'", "$HOME"),
        ("AGENTD_HOST=", ""),
        ("AGENTD_HOST= # nothing", ""),
        ("AGENTD_HOST=a\r", "a"),
        ("\ufeffAGENTD_HOST=a", "a"),
        ("AGENTD_HOST=a=b", "a=b"),
    ],
)
def test_a_value_is_read_as_written(line, value):
    assert read(f"{line}\nAGENTD_PORT=1\n") == {"AGENTD_HOST": value, "AGENTD_PORT": "1"}


def test_what_belongs_to_others_is_passed_over():
    text = """
# AGENT_API_KEY=commented out
PEM="-----BEGIN
AGENTD_HOST=inside a text
-----END"
not a line of ours: at all
AGENTD_PORT=1
OTHER='never closed
"""
    assert read(text) == {"AGENTD_PORT": "1"}


@pytest.mark.parametrize(
    "line",
    [
        "AGENT_API_KEY: hunter2",
        "AGENT_API_KEY hunter2",
        "AGENT_API_KEY='hunter2",
        'AGENT_API_KEY="a" hunter2',
        "export AGENT_API_KEY",
    ],
)
def test_a_line_of_ours_that_is_none_is_a_mistake_that_shows_no_value(line):
    with pytest.raises(ConfigError) as caught:
        read(f"A=1\n\n{line}\n")
    (problem,) = caught.value.problems
    assert str(problem) == ".env:3: expected AGENT_API_KEY=value on one line"


def test_a_variable_given_twice_is_a_mistake():
    with pytest.raises(ConfigError, match=r"\.env:3: AGENTD_PORT is given twice, first on line 1"):
        read("AGENTD_PORT=1\nA=1\nAGENTD_PORT=2\n")


@pytest.mark.parametrize("part", ['A="\n', "A='\n", "A=x ", "A= ", "A=1\n", '"\\', " ", "="])
def test_any_file_is_read_in_linear_time(part):
    began = time.process_time()
    assert read(part * (1_000_000 // len(part))) == {}
    assert time.process_time() - began < 60


@given(st.binary(max_size=100) | st.text(alphabet="AGENTD_HOST='\"\\ #\n\r=", max_size=60))
def test_any_bytes_are_values_or_mistakes(text):
    data = text.encode() if isinstance(text, str) else text
    try:
        assert set(dotenv.load(".env", data, OURS)) <= set(OURS)
    except ConfigError as error:
        assert error.problems
