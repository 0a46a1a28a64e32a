"""Answers as suppliers stream them, and what is to be read from each."""

import json

from agentd.llm.conversation import (
    ReplyFinished,
    ReplyStarted,
    TextDelta,
    Thinking,
    ThinkingDelta,
    ThinkingDone,
    ToolCall,
    ToolCallDelta,
    ToolCallDone,
    ToolCallStarted,
    UsageUpdated,
)
from agentd.llm.price import Usage

LS = ToolCall("call_1", "ls", '{"p":"/"}')


def encode_named_events(*events: dict) -> bytes:
    """Encode server-sent events with their type as name, as Anthropic and the Responses API do."""
    return b"".join(
        f"event: {event['type']}\ndata: {json.dumps(event, ensure_ascii=False)}\n\n".encode()
        for event in events
    )


def encode_chunks(*events: dict) -> bytes:
    """Encode chunks of a chat completion, without the end."""
    return b"".join(f"data: {json.dumps(event)}\n\n".encode() for event in events)


CHAT_CALL = b"""\
data: {"id":"c1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,\
"delta":{"role":"assistant","content":null,"tool_calls":[{"index":0,"id":"call_1","type":"function",\
"function":{"name":"ls","arguments":""}}]},"finish_reason":null}],"usage":null}

data: {"id":"c1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,\
"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\\"p\\":\\"/\\"}"}}]},\
"finish_reason":null}],"usage":null}

data: {"id":"c1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,\
"delta":{},"finish_reason":"tool_calls"}],"usage":null}

data: {"id":"c1","object":"chat.completion.chunk","created":1,"model":"m","choices":[],"usage":\
{"prompt_tokens":30,"completion_tokens":9,"total_tokens":39,\
"prompt_tokens_details":{"cached_tokens":20}}}

data: [DONE]

"""

ANTHROPIC_CALL = encode_named_events(
    {
        "type": "message_start",
        "message": {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "m",
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": {
                "input_tokens": 10,
                "cache_creation_input_tokens": 0,
                "cache_read_input_tokens": 20,
                "output_tokens": 1,
            },
        },
    },
    {
        "type": "content_block_start",
        "index": 0,
        "content_block": {"type": "tool_use", "id": "call_1", "name": "ls", "input": {}},
    },
    {"type": "ping"},
    {
        "type": "content_block_delta",
        "index": 0,
        "delta": {"type": "input_json_delta", "partial_json": '{"p":"/"}'},
    },
    {"type": "content_block_stop", "index": 0},
    {
        "type": "message_delta",
        "delta": {"stop_reason": "tool_use", "stop_sequence": None},
        "usage": {"output_tokens": 9},
    },
    {"type": "message_stop"},
)

ANTHROPIC_THOUGHT = encode_named_events(
    {"type": "message_start", "message": {"id": "msg_2", "model": "m", "usage": {}}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "thinking"}},
    {
        "type": "content_block_delta",
        "index": 0,
        "delta": {"type": "thinking_delta", "thinking": "Is it "},
    },
    {
        "type": "content_block_delta",
        "index": 0,
        "delta": {"type": "thinking_delta", "thinking": "Ω?"},
    },
    {
        "type": "content_block_delta",
        "index": 0,
        "delta": {"type": "signature_delta", "signature": "EqQB/Ω+=="},
    },
    {"type": "content_block_stop", "index": 0},
    {
        "type": "content_block_start",
        "index": 1,
        "content_block": {"type": "redacted_thinking", "data": "sealed=="},
    },
    {"type": "content_block_stop", "index": 1},
    {"type": "content_block_start", "index": 2, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 2, "delta": {"type": "text_delta", "text": "Yes 🎉"}},
    {"type": "content_block_stop", "index": 2},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}},
    {"type": "message_stop"},
)

RESPONSE = {
    "id": "resp_1",
    "object": "response",
    "model": "m",
    "status": "completed",
    "output": [
        {
            "type": "reasoning",
            "id": "rs_1",
            "summary": [{"type": "summary_text", "text": "Look."}],
            "encrypted_content": "gAAA==",
            "status": "completed",
        },
        {
            "type": "message",
            "id": "msg_1",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "I look.", "annotations": []}],
        },
        {
            "type": "function_call",
            "id": "fc_1",
            "call_id": "call_1",
            "name": "ls",
            "arguments": '{"p":"/"}',
        },
    ],
    "usage": {
        "input_tokens": 30,
        "input_tokens_details": {"cached_tokens": 20},
        "output_tokens": 9,
        "output_tokens_details": {"reasoning_tokens": 4},
        "total_tokens": 39,
    },
}

COMPLETION = {
    "id": "c1",
    "object": "chat.completion",
    "model": "m",
    "choices": [
        {
            "index": 0,
            "message": {
                "role": "assistant",
                "reasoning_content": "Look.",
                "content": "I look.",
                "tool_calls": [
                    {
                        "id": "call_1",
                        "type": "function",
                        "function": {"name": "ls", "arguments": '{"p":"/"}'},
                    }
                ],
            },
            "finish_reason": "tool_calls",
        }
    ],
    "usage": {
        "prompt_tokens": 30,
        "completion_tokens": 9,
        "total_tokens": 39,
        "prompt_tokens_details": {"cached_tokens": 20},
    },
}

MESSAGE = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "m",
    "content": [
        {"type": "thinking", "thinking": "Look.", "signature": "EqQB=="},
        {"type": "text", "text": "I look."},
        {"type": "tool_use", "id": "call_1", "name": "ls", "input": {"p": "/"}},
    ],
    "stop_reason": "tool_use",
    "usage": {"input_tokens": 10, "cache_read_input_tokens": 20, "output_tokens": 9},
}

GEMINI = {
    "candidates": [
        {
            "content": {
                "role": "model",
                "parts": [
                    {"text": "Look.", "thought": True},
                    {"text": "I look."},
                    {
                        "functionCall": {"id": "call_1", "name": "ls", "args": {"p": "/"}},
                        "thoughtSignature": "EqQB==",
                    },
                ],
            },
            "finishReason": "STOP",
            "index": 0,
        }
    ],
    "usageMetadata": {
        "promptTokenCount": 30,
        "cachedContentTokenCount": 20,
        "candidatesTokenCount": 5,
        "thoughtsTokenCount": 4,
        "totalTokenCount": 39,
    },
    "modelVersion": "m",
    "responseId": "r1",
}


def build_gemini_piece(parts: list[dict], **more: object) -> dict:
    """Build a piece of a streamed answer; ``finishReason`` goes to its candidate."""
    finish = {"finishReason": more.pop("finishReason")} if "finishReason" in more else {}
    candidate = {"content": {"role": "model", "parts": parts}, **finish, "index": 0}
    return {"candidates": [candidate], "modelVersion": "m", "responseId": "r1", **more}


_PARTS = GEMINI["candidates"][0]["content"]["parts"]
_FIRST = {"promptTokenCount": 30, "cachedContentTokenCount": 20, "thoughtsTokenCount": 4}

GEMINI_CALL = encode_chunks(
    build_gemini_piece(_PARTS[:1], usageMetadata=_FIRST | {"totalTokenCount": 34}),
    build_gemini_piece([{"text": "I "}], usageMetadata=_FIRST | {"totalTokenCount": 34}),
    build_gemini_piece([{"text": "look."}]),
    build_gemini_piece(_PARTS[2:], finishReason="STOP", usageMetadata=GEMINI["usageMetadata"]),
)

_BEGUN = RESPONSE | {"status": "in_progress", "output": [], "usage": None}

RESPONSES_CALL = encode_named_events(
    {"type": "response.created", "response": _BEGUN},
    {"type": "response.in_progress", "response": _BEGUN},
    {"type": "response.output_item.added", "output_index": 0, "item": {"type": "reasoning"}},
    {
        "type": "response.reasoning_summary_text.delta",
        "output_index": 0,
        "summary_index": 0,
        "delta": "Look.",
    },
    {"type": "response.output_item.done", "output_index": 0, "item": RESPONSE["output"][0]},
    {"type": "response.output_item.added", "output_index": 1, "item": {"type": "message"}},
    {"type": "response.output_text.delta", "output_index": 1, "delta": "I "},
    {"type": "response.output_text.delta", "output_index": 1, "delta": "look."},
    {"type": "response.output_text.done", "output_index": 1, "text": "I look."},
    {"type": "response.output_item.done", "output_index": 1, "item": RESPONSE["output"][1]},
    {
        "type": "response.output_item.added",
        "output_index": 2,
        "item": RESPONSE["output"][2] | {"arguments": ""},
    },
    {"type": "response.function_call_arguments.delta", "output_index": 2, "delta": '{"p":"/"}'},
    {"type": "response.function_call_arguments.done", "output_index": 2, "arguments": '{"p":"/"}'},
    {"type": "response.output_item.done", "output_index": 2, "item": RESPONSE["output"][2]},
    {"type": "response.completed", "response": RESPONSE},
)

SEALED = (
    '{"summary":[{"type":"summary_text","text":"Look."}],"type":"reasoning","id":"rs_1",'
    '"encrypted_content":"gAAA=="}'
)

CALLED = [ToolCallStarted(0, "call_1", "ls"), ToolCallDelta(0, '{"p":"/"}'), ToolCallDone(0, LS)]

READ = {
    "chat call": (
        "openai-chat",
        CHAT_CALL,
        [
            ReplyStarted("c1", "m"),
            *CALLED[:2],
            UsageUpdated(Usage(input=10, cache_read=20, output=9)),
            CALLED[2],
            ReplyFinished("tool_calls"),
        ],
    ),
    "anthropic call": (
        "anthropic",
        ANTHROPIC_CALL,
        [
            ReplyStarted("msg_1", "m"),
            UsageUpdated(Usage(input=10, cache_read=20, output=1)),
            *CALLED,
            UsageUpdated(Usage(input=10, cache_read=20, output=9)),
            ReplyFinished("tool_calls"),
        ],
    ),
    "anthropic thought": (
        "anthropic",
        ANTHROPIC_THOUGHT,
        [
            ReplyStarted("msg_2", "m"),
            ThinkingDelta("Is it "),
            ThinkingDelta("Ω?"),
            ThinkingDone(Thinking("anthropic", "Is it Ω?", "EqQB/Ω+==")),
            ThinkingDone(Thinking("anthropic", sealed="sealed==")),
            TextDelta("Yes 🎉"),
            ReplyFinished("end"),
        ],
    ),
    "gemini call": (
        "gemini",
        GEMINI_CALL,
        [
            ReplyStarted("r1", "m"),
            ThinkingDelta("Look."),
            UsageUpdated(Usage(input=10, cache_read=20, reasoning=4)),
            ThinkingDone(Thinking("gemini", "Look.")),
            TextDelta("I "),
            UsageUpdated(Usage(input=10, cache_read=20, reasoning=4)),
            TextDelta("look."),
            ThinkingDone(Thinking("gemini", "", "EqQB==")),
            *CALLED,
            UsageUpdated(Usage(input=10, cache_read=20, output=5, reasoning=4)),
            ReplyFinished("tool_calls"),
        ],
    ),
    "responses call": (
        "openai-responses",
        RESPONSES_CALL,
        [
            ReplyStarted("resp_1", "m"),
            ThinkingDelta("Look."),
            ThinkingDone(Thinking("openai-responses", "Look.", sealed=SEALED)),
            TextDelta("I "),
            TextDelta("look."),
            *CALLED,
            UsageUpdated(Usage(input=10, cache_read=20, output=5, reasoning=4)),
            ReplyFinished("tool_calls"),
        ],
    ),
}
"""Dialect, bytes, events."""
