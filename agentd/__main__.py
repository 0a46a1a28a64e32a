"""``python -m agentd`` is the command ``agentd``."""

from agentd.cli.main import main

if __name__ == "__main__":
    raise SystemExit(main())
