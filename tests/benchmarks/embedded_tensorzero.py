"""TensorZero's gateway in a process of its own: ``embedded_tensorzero.py CONFIG``, in its Python.

It chooses a free port, and prints its address; it stops when it is killed.
"""

import sys
import threading
from types import SimpleNamespace

import tensorzero  # type: ignore[import-not-found]


def main() -> None:
    client = SimpleNamespace()
    tensorzero.patch_openai_client(client, config_file=sys.argv[1], async_setup=False)
    sys.stdout.write(f"{client.base_url}\n")
    sys.stdout.flush()
    threading.Event().wait()


if __name__ == "__main__":
    main()
