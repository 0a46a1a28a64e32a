"""Prints why a reply does not fit a JSON Schema; run by the daemon in its own process.

Its argument is the seconds of processor time that it may take. The schema is the first line of its
standard input, the reply is the rest.
"""

import resource
import sys

from agentd.llm.output_schema import find_mismatch


def main() -> int:
    """Print the reason, if there is one."""
    seconds = int(sys.argv[1])
    # The kernel ends it, also if the daemon was killed meanwhile.
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    schema, _, reply = sys.stdin.buffer.read().partition(b"\n")
    sys.stdout.buffer.write(find_mismatch(schema, reply).encode("utf-8", "replace"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
