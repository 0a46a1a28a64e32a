"""Checks a reply against its schema in a separate process, which can be ended.

An expression of a schema may take for ever, and so may schemas that refer to each other. Python's
expressions keep the whole process waiting meanwhile, other threads too.
"""

import asyncio
import sys

from agentd.core.errors import Unavailable
from agentd.llm import output_schema_child
from agentd.llm.output_schema import explain_not_json, shorten_reason
from agentd.system.process import run

CHECK_SECONDS = 10
"""Seconds of processor time that a check may take; it usually needs a tenth of one."""
_WAIT_SECONDS = 6.0
"""Seconds for each of them, on a busy machine."""


async def explain_mismatch(schema: str, reply: str, seconds: int = CHECK_SECONDS) -> str:
    """Explain why a reply does not fit a schema of ``parse_output_schema``; empty if it does.

    A reply that could not be checked does not fit.
    """
    if why := await asyncio.to_thread(explain_not_json, reply):
        return why
    try:
        done = await run(
            [sys.executable, "-P", output_schema_child.__file__, str(seconds)],
            folder="/",
            given=f"{schema}\n{reply}".encode(),
            timeout=_WAIT_SECONDS * seconds,
        )
    except Unavailable as error:
        return f"The reply could not be checked: {error.message}"
    if done.late or done.code < 0:
        return (
            f"The reply could not be checked within {seconds} s:"
            " the schema's patterns or references take too long."
        )
    if done.code:
        last = done.errors.decode("utf-8", "replace").strip().rpartition("\n")[2]
        return f"The reply could not be checked: {shorten_reason(last)}"
    return done.output.decode()
