"""Secrets come back in replies, however a stream was cut, and nothing else is touched."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentd.gateway.secrets.placeholder import Placeholders
from agentd.gateway.secrets.restoring import HELD_LIMIT, create_restorer, restore_body
from tests.gateway.secrets.replies import DIALECTS, build_reply, build_stream, parse_stream
from tests.gateway.secrets.samples import PEM, TOKENS
from tests.support.processor import busy_for_less_than
from tests.support.splitting import list_split_places

MAKER = Placeholders(bytes(range(32)))
GITHUB, QUOTED = TOKENS["github"], 'p"w\\n\\"é/'
VALUES = (GITHUB, TOKENS["jwt"], PEM, QUOTED)
KINDS = ("github", "jwt", "private-key", "env-value")
PLACED = {
    MAKER.create(value.encode(), kind, "k"): value
    for value, kind in zip(VALUES, KINDS, strict=True)
}
HUB, JWT, KEY, PASSWORD = PLACED
PLAIN = {name: PLACED[name] for name in (HUB, JWT)}
"""Secrets that are written the same everywhere, so that events without any are not even read."""
STRANGE = MAKER.create(GITHUB.encode(), "github", "another")


def restore_stream(dialect: Any, data: bytes, sizes: list[int], secrets: Any = None) -> bytes:
    """Restore the stream, fed in pieces of these sizes."""
    putting = create_restorer(dialect, PLACED if secrets is None else secrets)
    out: list[bytes] = []
    at = turn = 0
    while at < len(data):
        size = sizes[turn % len(sizes)]
        out.append(putting.feed(data[at : at + size]))
        at, turn = at + size, turn + 1
    return b"".join((*out, putting.close()))


def replace_placeholders(text: str, secrets: Any = None) -> str:
    for placeholder, value in (PLACED if secrets is None else secrets).items():
        text = text.replace(placeholder, value)
    return text


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("cut", [1, 2, 7, 1000])
def test_text_and_arguments_come_back_however_the_supplier_cuts_them(dialect, cut):
    text = f"S SE {HUB}{HUB}, {KEY}\n({PASSWORD}) {STRANGE} SECRET_"
    arguments = {"a": f"echo {HUB} S", "b": [{"c": f'"{PASSWORD}"\n{KEY}'}], HUB: 1.0}
    data = build_stream(dialect, text, json.dumps(arguments), [cut])
    said, called = parse_stream(dialect, restore_stream(dialect, data, [len(data)]))
    assert said == replace_placeholders(text)
    assert json.loads(called) == {
        "a": f"echo {GITHUB} S",
        "b": [{"c": f'"{QUOTED}"\n{PEM}'}],
        GITHUB: 1.0,
    }


TEXTS = st.lists(
    st.text(max_size=6) | st.sampled_from([*PLACED, STRANGE, HUB[:9], "S", "SECRET_", '"', "\\"]),
    max_size=6,
).map("".join)
CUTS = st.lists(st.integers(1, 40), min_size=1, max_size=4)


@given(
    dialect=st.sampled_from(DIALECTS),
    secrets=st.sampled_from([PLACED, PLAIN]),
    text=TEXTS,
    argument=TEXTS,
    cuts=CUTS,
    sizes=CUTS,
    newline=st.sampled_from(["\n", "\r\n", "\r"]),
)
def test_for_every_split_of_the_stream_the_result_is_the_same(
    dialect, secrets, text, argument, cuts, sizes, newline
):
    arguments = json.dumps({"x": argument}, ensure_ascii=False)
    data = build_stream(dialect, text, arguments, cuts, newline)
    at_once = restore_stream(dialect, data, [len(data)], secrets)
    assert restore_stream(dialect, data, sizes, secrets) == at_once
    said, called = parse_stream(dialect, at_once)
    assert said == replace_placeholders(text, secrets)
    if not argument.lstrip().startswith(("{", "[")):
        assert json.loads(called) == {"x": replace_placeholders(argument, secrets)}


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("cut", range(1, 9))
def test_a_placeholder_that_an_event_of_its_own_begins_comes_back_wherever_it_is_cut(dialect, cut):
    """Each event comes alone, as suppliers send them; the first ends within the placeholder."""
    text = f"{'x' * (9 - cut)}{HUB} end"
    argument = json.dumps({"x": f"{HUB}{JWT}"})
    data = build_stream(dialect, text, argument, [9])
    putting = create_restorer(dialect, PLAIN)
    out = [putting.feed(event + b"\n\n") for event in data.split(b"\n\n")[:-1]]
    said, called = parse_stream(dialect, b"".join((*out, putting.close())))
    assert said == replace_placeholders(text)
    assert json.loads(called) == {"x": f"{GITHUB}{PLACED[JWT]}"}


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("secrets", [PLACED, PLAIN], ids=["escaped", "plain"])
def test_for_every_single_split_the_result_is_the_same(dialect, secrets):
    data = build_stream(dialect, f"é {HUB} S", json.dumps({"x": f"{KEY}é"}), [25], "\r\n")
    at_once = restore_stream(dialect, data, [len(data)], secrets)
    for at in list_split_places(data):
        putting = create_restorer(dialect, secrets)
        assert putting.feed(data[:at]) + putting.feed(data[at:]) + putting.close() == at_once


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("secrets", [PLACED, PLAIN], ids=["escaped", "plain"])
def test_a_stream_without_placeholders_passes_byte_for_byte(dialect, secrets):
    text = f"STOP SECRET_ {HUB[:-1]} {STRANGE} S"
    data = build_stream(dialect, text, json.dumps({"S": "SECRET", "n": 1.0}), [3])
    for size in (11, len(data)):
        assert restore_stream(dialect, data, [size], secrets) == data


@pytest.mark.parametrize("dialect", DIALECTS)
def test_events_without_a_placeholder_pass_byte_for_byte_beside_those_with_one(dialect):
    data = build_stream(dialect, f"one {HUB} two", "{}", [5])
    before = data.split(b"\n\n")
    said = [event for event in before if b"one" in event or b"two" in event]
    touched = before[before.index(said[0]) : before.index(said[-1])]
    after = restore_stream(dialect, data, [len(data)]).split(b"\n\n")
    assert len(after) == len(before)
    for old, new in zip(before, after, strict=True):
        assert old == new or old in touched or HUB.encode() in old


def test_an_event_of_too_many_parts_passes_as_it_is():
    data = b'data: {"choices":[' + b'{"SECRET_":1},' * 1_000_000 + b"{}]}\n\n"
    with busy_for_less_than(3):
        assert restore_stream("openai-chat", data, [len(data)]) == data


def test_all_three_places_of_responses_hold_the_secret():
    data = build_stream("openai-responses", f"a {HUB}", json.dumps({"x": HUB}), [4])
    after = restore_stream("openai-responses", data, [50])
    assert b"SECRET_" not in after
    # The instructions told again; of text and arguments: deltas, done, item and response.
    assert after.count(GITHUB.encode()) == 1 + 4 + 4


def test_signed_thinking_is_left_alone():
    data = build_stream("anthropic", f"a {HUB}", "{}", [1000])
    after = restore_stream("anthropic", data, [len(data)])
    assert json.dumps({"type": "thinking_delta", "thinking": f"a {HUB}"}).encode() in after
    body = {"content": [{"type": "thinking", "thinking": HUB, "signature": HUB}]}
    raw = json.dumps(body).encode()
    assert restore_body("anthropic", PLACED, raw) == raw


def test_a_secret_of_several_lines_is_escaped_once_more_in_json_in_a_string():
    inner = json.dumps({"key": KEY, "token": HUB})
    for dialect in DIALECTS:
        data = build_stream(dialect, "", json.dumps({"content": inner, "plain": KEY}), [8])
        _, called = parse_stream(dialect, restore_stream(dialect, data, [13]))
        arguments = json.loads(called)
        assert json.loads(arguments["content"]) == {"key": PEM, "token": GITHUB}
        assert arguments["plain"] == PEM


def decode_arguments(body: Any) -> Any:
    """Decode the arguments in the body."""
    if isinstance(body, list):
        return [decode_arguments(item) for item in body]
    if isinstance(body, dict):
        return {
            name: json.loads(item) if name == "arguments" else decode_arguments(item)
            for name, item in body.items()
        }
    return body


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_whole_answer_is_restored_and_keeps_its_other_bytes(dialect):
    text, arguments = f"é {HUB} {KEY}", {"x": [f"{PASSWORD}é", 1.0], "y": json.dumps({"k": KEY})}
    body = build_reply(dialect, text, json.dumps(arguments))
    raw = json.dumps(body, indent=1).encode()
    expected = {"x": [f"{QUOTED}é", 1.0], "y": json.dumps({"k": PEM})}
    after = json.loads(restore_body(dialect, PLACED, raw))
    assert decode_arguments(after) == decode_arguments(
        build_reply(dialect, replace_placeholders(text), json.dumps(expected))
    )
    clean = json.dumps(build_reply(dialect, "SECRET_ x", "{}"), indent=2).encode()
    assert restore_body(dialect, PLACED, clean) == clean


def test_a_beginning_is_held_back_only_until_it_is_none():
    putting = create_restorer("openai-chat", PLACED)

    def build_event(text: str) -> bytes:
        choice = {"index": 0, "delta": {"content": text}, "finish_reason": None}
        return f"data: {json.dumps({'choices': [choice]})}\n\n".encode()

    assert putting.feed(build_event("hello")) == build_event("hello")
    assert putting.feed(build_event("DNS")) == b""
    assert putting.feed(build_event(" is")) == build_event("DNS") + build_event(" is")
    assert putting.feed(build_event(HUB[:20])) == b""
    assert putting.feed(build_event("!")) == build_event(HUB[:20]) + build_event("!")
    assert putting.feed(build_event(f"x{HUB[:20]}")) == b""
    assert putting.feed(build_event(f"{HUB[20:]}y")) == build_event(f"x{GITHUB}") + build_event("y")


DELTAS: dict[str, Any] = {
    "anthropic": {"type": "content_block_delta", "index": 1, "delta": {"text": "S"}},
    "openai-chat": {"choices": [{"index": 0, "delta": {"content": "S"}}]},
    "openai-responses": {"type": "response.output_text.delta", "output_index": 0, "delta": "S"},
    "gemini": {"candidates": [{"index": 0, "content": {"parts": [{"text": "S"}]}}]},
}


@pytest.mark.parametrize(
    ("dialect", "end"),
    [
        ("anthropic", {"type": "content_block_stop", "index": 1}),
        ("anthropic", {"type": "message_delta", "delta": {"stop_reason": "max_tokens"}}),
        ("anthropic", {"type": "error", "error": {}}),
        ("openai-chat", {"choices": [{"index": 0, "delta": {}, "finish_reason": "length"}]}),
        ("openai-chat", {"error": {"message": "x"}}),
        ("openai-chat", "[DONE]"),
        ("openai-responses", {"type": "response.output_text.done", "output_index": 0}),
        ("openai-responses", {"type": "response.incomplete", "response": {}}),
        ("gemini", {"candidates": [{"index": 0, "finishReason": "MAX_TOKENS"}]}),
    ],
)
def test_what_is_held_back_is_let_go_with_the_end_of_its_text(dialect, end):
    putting = create_restorer(dialect, PLACED)
    begun = f"data: {json.dumps(DELTAS[dialect])}\n\n".encode()
    other = f"data: {json.dumps({'type': 'ping'})}\n\n".encode()
    ended = f"data: {end if isinstance(end, str) else json.dumps(end)}\n\n".encode()
    assert putting.feed(begun) == b""
    assert putting.feed(other) == b"", "the order stays"
    assert putting.feed(ended) == begun + other + ended


def test_a_backslash_in_a_secret_is_escaped_in_arguments():
    secrets = {HUB: "a\\nb"}
    for dialect in DIALECTS:
        data = build_stream(dialect, HUB, json.dumps({"x": HUB}), [1000])
        said, called = parse_stream(dialect, restore_stream(dialect, data, [1000], secrets))
        assert said == "a\\nb"
        assert json.loads(called) == {"x": "a\\nb"}


def test_what_is_cut_off_by_a_limit_stays_as_it_came():
    text = f"then {HUB[:-3]}"
    for dialect in DIALECTS:
        data = build_stream(dialect, text, "{}", [6])
        assert restore_stream(dialect, data, [10]) == data


def test_replies_side_by_side_do_not_mix():
    def build_event(index: int, text: str) -> bytes:
        choice = {"index": index, "delta": {"content": text}}
        return f"data: {json.dumps({'choices': [choice]})}\n\n".encode()

    parts = [
        build_event(0, HUB[:20]),
        build_event(1, HUB[:30]),
        build_event(0, HUB[20:]),
        build_event(1, HUB[30:]),
    ]
    out = restore_stream("openai-chat", b"".join(parts), [17])
    assert out == build_event(0, GITHUB) + build_event(1, GITHUB) + build_event(
        0, ""
    ) + build_event(1, "")


def test_tool_calls_side_by_side_do_not_mix():
    def build_event(index: int, text: str) -> bytes:
        call = {"index": index, "function": {"arguments": text}}
        return f"data: {json.dumps({'choices': [{'delta': {'tool_calls': [call]}}]})}\n\n".encode()

    parts = [
        build_event(0, HUB[:20]),
        build_event(1, HUB[:30]),
        build_event(0, HUB[20:]),
        build_event(1, HUB[30:]),
    ]
    out = restore_stream("openai-chat", b"".join(parts), [17])
    assert out == build_event(0, GITHUB) + build_event(1, GITHUB) + build_event(
        0, ""
    ) + build_event(1, "")


@pytest.mark.parametrize(
    "data",
    [
        b"data: {broken SECRET_\n\n",
        b"SECRET_ no field\n\n: comment SECRET_\n\n",
        b'data: [1, "SECRET_"]\n\ndata: "S"\n\n',
        b'data: {"choices": [1, {"delta": 3}, {"delta": {"content": ["S"]}}]}\n\n',
        b'data: {"choices": [1, {"delta": {"content": "S"}}]}\n\n',
        b'data: {"candidates": [1, {"content": {"parts": [2, {"text": "S"}]}}]}\n\n',
        b"\xff\xfe SECRET_ \n\n\n\nS",
        b'data: {"type": "content_block_delta", "delta": "S"}\n\n',
        b"data:" + b"[" * 100_000 + b"SECRET_\n\n",
    ],
)
@pytest.mark.parametrize("dialect", DIALECTS)
def test_malformed_bytes_pass(dialect, data):
    assert restore_stream(dialect, data, [7]) == data


def test_data_over_several_lines_is_understood():
    lines = json.dumps({"choices": [{"index": 0, "delta": {"content": HUB}}]}, indent=1).split("\n")
    data = "".join(f"data: {line}\n" for line in lines).encode() + b"\n"
    assert restore_stream("openai-chat", data, [9]) == data.replace(HUB.encode(), GITHUB.encode())


def test_an_event_without_its_last_blank_line_is_understood():
    data = build_stream("openai-chat", HUB, "{}", [1000]).rstrip(b"\n")
    data = data[: data.index(b"data: ", 200)].rstrip(b"\n")
    assert restore_stream("openai-chat", data, [5]) == data.replace(HUB.encode(), GITHUB.encode())


@pytest.mark.parametrize("secrets", [PLACED, PLAIN], ids=["escaped", "plain"])
@pytest.mark.parametrize("form", ["\\u{:04x}", "\\u{:04X}"])
def test_letters_that_a_supplier_escapes_are_understood(secrets, form):
    written = "".join(form.format(ord(letter)) for letter in HUB)
    data = f'data: {{"choices": [{{"delta": {{"content": "{written}"}}}}]}}\n\n'.encode()
    restored = data.replace(written.encode(), GITHUB.encode())
    for size in (9, len(data)):
        assert restore_stream("openai-chat", data, [size], secrets) == restored


def test_what_is_held_back_is_bounded():
    putting = create_restorer("openai-chat", PLACED)
    end = b'data: {"choices": [{"delta": {"content": "S"}}]}\n\n'
    other = b'data: {"choices": [{"index": 7, "delta": {"content": "%b"}}]}\n\n' % (b"x" * 65536)
    assert putting.feed(end) == b""
    passed = sum(len(putting.feed(other)) for _ in range(HELD_LIMIT // 65536 + 1))
    assert passed > HELD_LIMIT
    endless = create_restorer("openai-chat", PLACED)
    assert sum(len(endless.feed(b"x" * 65536)) for _ in range(80)) > HELD_LIMIT


def test_a_long_stream_of_pieces_is_restored_in_linear_time():
    secrets = {MAKER.create(b"%d" % n, "env-value", "k"): f"line {n}\n" for n in range(300)}
    text = json.dumps({"x": " ".join([*secrets] * 4)})
    data = build_stream("anthropic", "", text, [4])
    with busy_for_less_than(10):
        _, called = parse_stream("anthropic", restore_stream("anthropic", data, [1000], secrets))
    assert json.loads(called) == {"x": " ".join([*secrets.values()] * 4)}
