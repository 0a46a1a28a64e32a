"""TensorZero's gateway as a process, in its own Python: ``embedded_tensorzero.py CONFIG FILE``.

It chooses a free port, and writes its address to the file; it stops when it is killed.
"""

import sys
import threading
from types import SimpleNamespace

import tensorzero  # type: ignore[import-not-found]


def main() -> None:
    client = SimpleNamespace()
    tensorzero.patch_openai_client(client, config_file=sys.argv[1], async_setup=False)
    with open(sys.argv[2], "w") as file:
        file.write(f"{client.base_url}\n")
    threading.Event().wait()


if __name__ == "__main__":
    main()
