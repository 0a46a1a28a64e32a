"""A running daemon does what its document says: Schemathesis tries every address."""

import re
import subprocess
import sys
from pathlib import Path

from hypothesis import settings

from tests.auth.test_gate_matrix import EVERY
from tests.support.daemon import Serving

EXAMPLES = settings().max_examples // 10
"""Requests by chance per address, beside those that the document's limits suggest."""

CONFIG = """
[generation]
# Keys by chance beside the good one: of two that differ none is good.
with-security-parameters = false
[checks]
# A prompt may be sent between being added and being looked for.
ensure_resource_availability.enabled = false
# 413 is how a text longer than maxLength is refused.
negative_data_rejection.expected-statuses = [400, 401, 403, 404, 405, 409, 412, 413, 415]
[[operations]]
# These answer without end, or to those who negotiated.
include-path-regex = "^/(liveChatHub|api/events|api/agent/requests/stream|mcp)"
enabled = false
[[operations]]
# It would change the daemon that is being tried.
include-path = "/api/settings/set"
enabled = false
[[operations]]
# Models, skills and chats that are not there; models are changed by administrators, who sign in.
include-path-regex = "^/api/(models|skills)"
checks.positive_data_acceptance.expected-statuses = ["2xx", 400, 403, 404]
[[operations]]
# A key is no user with preferences, and no login to notify; whole numbers written as 1.0.
include-path-regex = "^/api/me"
checks.positive_data_acceptance.expected-statuses = ["2xx", 400, 403]
[[operations]]
# A skill that nobody has; an Idempotency-Key that was used.
include-path-regex = "^/api/(remote/)?chats$"
checks.positive_data_acceptance.expected-statuses = ["2xx", 400, 409]
[[operations]]
# An output schema, which the offline engine of this daemon cannot hold its replies to.
include-path-regex = "^/api/(remote/chats/.*/queue|chat/.*/send)$"
checks.positive_data_acceptance.expected-statuses = ["2xx", 400, 404, 409, 412]
[[operations]]
# Another version, and ids of prompts that are not in the queue or come twice.
include-operation-id = "remote_replace_queue"
checks.positive_data_acceptance.expected-statuses = ["2xx", 400, 404, 412]
[[operations]]
# A label that nobody has.
include-operation-id = "label_chat"
checks.positive_data_acceptance.expected-statuses = ["2xx", 400, 404]
[[operations]]
# What contradicts itself, though each part is as described; whole numbers written as 1.0.
include-path-regex = "^/api/(analytics|chat/.*/(messages|search)|MessageQueue|chat-labels)"
checks.positive_data_acceptance.expected-statuses = ["2xx", 400, 404, 409, 412]
[[operations]]
# Names that nobody has or somebody has, other versions, expressions and zones that are none.
include-path-regex = "^/api/schedules"
checks.positive_data_acceptance.expected-statuses = ["2xx", 400, 404, 409, 412]
[[operations]]
# Servers that are neither a program nor an address, and headers that are none.
include-operation-id = "set_chat_servers"
checks.positive_data_acceptance.expected-statuses = ["2xx", 400, 404]
[[operations]]
# A name without a password, a code beside it, no login to end.
include-path = "/api/session"
checks.positive_data_acceptance.expected-statuses = ["2xx", 400, 401, 404]
[[operations]]
# Bytes that are no sound.
include-path-regex = "^/api/speechrecognition"
checks.positive_data_acceptance.expected-statuses = ["2xx", 400, 404, 415]
[[operations]]
# Paths and commits that are none, wishes that contradict themselves, forms without a file.
include-path-regex = "^/api/(git|files)"
checks.positive_data_acceptance.expected-statuses = ["2xx", 400, 403, 404, 409, 413, 415]
[[operations]]
# A channel whose supplier cannot be reached cannot be asked for its models.
include-path = "/api/agent/channels/{name}/models"
checks.not_a_server_error.expected-statuses = ["2xx", "4xx", 503]
checks.positive_data_acceptance.expected-statuses = ["2xx", 400, 404, 409, 412, 503]
[[operations]]
# Names that nobody has or somebody has, ETags of other versions, what contradicts itself.
include-path-regex = "^/api/agent"
checks.positive_data_acceptance.expected-statuses = ["2xx", 400, 404, 409, 412]
[[operations]]
# Streams without alt=sse, and what only the vendors' references forbid.
include-path-regex = "^/v1"
checks.positive_data_acceptance.expected-statuses = ["2xx", 400, 404]
# What a supplier of the same dialect is to judge is passed on as it came.
checks.negative_data_rejection.expected-statuses = ["2xx", 400, 401, 404, 405, 413]
"""


def run_schemathesis(daemon: Serving, folder: Path, header: str, place: str, document: str) -> str:
    """Try each address of a place with good and bad input; fail if Schemathesis finds anything."""
    config = folder / "schemathesis.toml"
    config.write_text(CONFIG)
    program = [sys.executable, "-c", "from schemathesis.cli import schemathesis; schemathesis()"]
    options = ["--header", header, "--max-examples", str(EXAMPLES), "--include-path-regex", place]
    options += ["--generation-deterministic", "--no-color"]
    options += ["--suppress-health-check", "filter_too_much"]
    done = subprocess.run(
        [*program, "--config-file", str(config), "run", f"{daemon.url}{document}", *options],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=3000,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-20_000:] + done.stderr[-2000:]
    streams = ("/api/events", "/api/agent/requests/stream")
    left_out = ("/liveChatHub", *streams, "/api/settings/set", "/mcp")
    paths = [route.path for route in EVERY if not route.path.startswith(left_out)]
    here = sum(bool(re.search(place, path)) for path in paths)
    assert f" {here} selected" in done.stdout, done.stdout[-3000:]
    numbers = daemon.client().get("/metrics").body.decode()
    assert 'status="500"' not in numbers
    return numbers
