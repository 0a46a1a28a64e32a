"""An agent of the Agent Client Protocol that asks leave for the tool call that its prompt is."""

import json
import sys
from typing import Any


def say(**message: Any) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def ask(prompt: str) -> str:
    """Return the chosen option."""
    options = [{"optionId": kind, "name": kind, "kind": kind} for kind in OPTIONS]
    call = {"toolCallId": "c", "title": "x", **json.loads(prompt)}
    params = {"sessionId": "s", "toolCall": call, "options": options}
    say(id=99, method="session/request_permission", params=params)
    outcome = json.loads(sys.stdin.readline())["result"]["outcome"]
    return str(outcome.get("optionId", outcome["outcome"]))


def main() -> None:
    for line in sys.stdin:
        asked = json.loads(line)
        match asked.get("method"):
            case "initialize":
                say(id=asked["id"], result={"protocolVersion": 1, "agentCapabilities": {}})
            case "session/new":
                say(id=asked["id"], result={"sessionId": "s"})
            case "session/prompt":
                content = {"type": "text", "text": ask(asked["params"]["prompt"][0]["text"])}
                update = {"sessionUpdate": "agent_message_chunk", "content": content}
                say(method="session/update", params={"sessionId": "s", "update": update})
                say(id=asked["id"], result={"stopReason": "end_turn"})


OPTIONS = ("allow_once", "reject_once")

if __name__ == "__main__":
    main()
