"""A scripted agent of the Agent Client Protocol: its reply tells when it was made.

``answering.py``: ``first`` is when it wrote its first byte, ``done`` when its reply was finished;
both by the clock that all processes of the host share. A prompt that is a number keeps it at work
for so many seconds: it goes on writing.
"""

import json
import sys
import time

OPENED = {"initialize": {"protocolVersion": 1, "agentCapabilities": {}}}
PAUSE = 0.1
"""Seconds between two pieces of a long reply."""


def encode_message(**members: object) -> str:
    return json.dumps({"jsonrpc": "2.0", **members}) + "\n"


def encode_update(**members: object) -> str:
    return encode_message(method="session/update", params={"sessionId": "s", "update": members})


def encode_chunk(text: str) -> str:
    content = {"type": "text", "text": text}
    return encode_update(sessionUpdate="agent_message_chunk", content=content)


def main() -> None:
    first = 0.0
    for line in sys.stdin:
        asked = json.loads(line)
        method = asked["method"]
        if method == "session/prompt":
            prompt = asked["params"]["prompt"][0]["text"]
            end = time.monotonic() + float(prompt if prompt.isdigit() else 0)
            while time.monotonic() < end:
                sys.stdout.write(encode_chunk("A piece of it. "))
                sys.stdout.flush()
                time.sleep(PAUSE)
            cost = {"amount": 0.5, "currency": "USD"}
            spent = encode_update(sessionUpdate="usage_update", used=1, size=10, cost=cost)
            answer = encode_message(id=asked["id"], result={"stopReason": "end_turn"})
            reply = encode_chunk(f"first={first:.6f} done={time.monotonic():.6f}")
            sys.stdout.write(reply + spent + answer)
        elif "id" in asked:
            first = first or time.monotonic()
            result = OPENED.get(method, {"sessionId": "s"})
            sys.stdout.write(encode_message(id=asked["id"], result=result))
        sys.stdout.flush()


if __name__ == "__main__":
    main()
