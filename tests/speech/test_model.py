"""The speech engines of a file."""

import pytest

from agentd.core.errors import NotFound
from agentd.speech.model import POCKETSPHINX, Speech, SpeechEngine, fill_command, validate

WHISPER = SpeechEngine(name="whisper", engine="openai", supplier="openai", model="whisper-1")


def list_problems(*ears: SpeechEngine, default: str = "") -> list[str]:
    return [what for _, what in validate(Speech(default=default, engines=ears))]


def test_without_a_file_there_is_the_offline_engine() -> None:
    assert Speech().find("") == POCKETSPHINX


def test_the_default_is_the_named_one_or_the_first() -> None:
    assert Speech(engines=(WHISPER, POCKETSPHINX)).find("") == WHISPER
    speech = Speech(default="pocketsphinx", engines=(WHISPER, POCKETSPHINX))
    assert speech.find("") == POCKETSPHINX
    assert speech.find("whisper") == WHISPER


def test_an_unknown_engine_is_reported_with_the_nearest() -> None:
    with pytest.raises(NotFound, match="did you mean"):
        Speech(engines=(WHISPER,)).find("wisper")
    with pytest.raises(NotFound, match="names no engine"):
        Speech(engines=()).find("")


def test_each_engine_is_given_what_it_needs_and_nothing_else() -> None:
    assert list_problems(WHISPER, POCKETSPHINX, default="whisper") == []
    assert list_problems(SpeechEngine(name="a", engine="command", command=("hear", "{file}"))) == []
    result = list_problems(
        SpeechEngine(name="a", engine="openai"),
        SpeechEngine(name="a", engine="command", command=("hear",)),
        SpeechEngine(name="b", engine="pocketsphinx", model="x"),
        default="c",
    )
    assert len(result) == 6
    for word in ('"supplier"', '"model"', "above", "{file}", "means nothing", '"c"'):
        assert any(word in one for one in result), word


def test_a_file_named_like_an_option_or_a_placeholder_stays_one_argument() -> None:
    command = ("hear", "--language={language}", "{file}", "a b")
    result = fill_command(command, "/x/{language}; rm -rf.wav", "en")
    assert result == ["hear", "--language=en", "/x/{language}; rm -rf.wav", "a b"]
