"""``python -m tests.agent.tasks``: give the tasks to a real model, and count what it solves.

Each task gets a folder and a daemon of its own and is sent over the remote API, so that engines can
be compared. The agent is not asked before it does anything: run it where that is no danger, such as
in a container.
"""

import argparse
import os
import shlex
import sys
import tempfile
import textwrap
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from tests.agent.served import Caller, ServedAgent
from tests.agent.tasks.catalogue import TASKS
from tests.agent.tasks.task import Outcome, Task, Unsolved, make_repository

MODEL = "candidate"

EXAMPLES = """\
examples:
  export OPENAI_API_KEY=…
  python -m tests.agent.tasks --dialect openai-responses --url https://api.openai.com \\
      --key-env OPENAI_API_KEY --model gpt-5 --prices 1.25,10
  python -m tests.agent.tasks … --engine codex --tasks failing-test,traceback --repeat 3
  python -m tests.agent.tasks --engine claude-code --own-home       signed in as you are
"""


class Attempt(Struct, frozen=True):
    """One attempt at a task; ``problem`` is empty if it was solved. ``cost`` is in USD."""

    task: str
    problem: str
    seconds: float
    tools: int
    input_tokens: int
    output_tokens: int
    cost: float


def main(argv: Sequence[str] | None = None) -> int:
    """Run the tasks; return 0 if all attempts solved theirs."""
    args = _parse_arguments(argv)
    if args.list:
        _print_lines(f"{task.name:26} {_shorten(task.prompt)}" for task in TASKS)
        return 0
    chosen = _choose_tasks(args.tasks)
    attempts = []
    for attempt in _run_tasks(chosen, args):
        attempts.append(attempt)
        _print_lines([_describe_attempt(attempt)])
    _print_lines([_summarize(attempts)])
    if args.json:
        Path(args.json).write_bytes(msgspec.json.format(msgspec.json.encode(attempts)))
    return 0 if all(not one.problem for one in attempts) else 1


def _print_lines(lines: Iterable[str]) -> None:
    sys.stdout.writelines(f"{line}\n" for line in lines)
    sys.stdout.flush()


def _parse_arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.agent.tasks",
        description="Give small repository tasks to a coding agent and count what it solves.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--list", action="store_true", help="list the tasks and end")
    parser.add_argument("--tasks", default="", help="only these, with commas between")
    parser.add_argument("--repeat", type=int, default=1, help="how often each is tried")
    parser.add_argument("--seconds", type=float, default=900, help="the most for one attempt")
    parser.add_argument("--engine", default="native", help="native, codex, claude-code or acp")
    parser.add_argument("--command", help="the command line of an ACP agent")
    parser.add_argument("--model", default="", help="the supplier's name of the model")
    parser.add_argument("--dialect", default="openai-chat", help="the supplier's API")
    parser.add_argument("--url", default="", help="the supplier; empty: the engine's own sign-in")
    parser.add_argument("--key-env", default="", help="the variable that holds the supplier's key")
    parser.add_argument("--prices", default="", help="USD for a million tokens: input,output")
    parser.add_argument("--own-home", action="store_true", help="engines see your home folder")
    parser.add_argument("--json", help="also write every attempt to this file")
    return parser.parse_args(argv)


def _choose_tasks(names: str) -> tuple[Task, ...]:
    wanted = [name for name in names.split(",") if name]
    known = {task.name: task for task in TASKS}
    if unknown := [name for name in wanted if name not in known]:
        sys.exit(f"There is no task {', '.join(unknown)}; --list shows all.")
    return tuple(known[name] for name in wanted) if wanted else TASKS


def _run_tasks(tasks: Sequence[Task], args: argparse.Namespace) -> Iterator[Attempt]:
    environ = _choose_environment(args)
    models = _build_models(args)
    for task in tasks:
        for _ in range(args.repeat):
            with tempfile.TemporaryDirectory(prefix="agentd-task-") as folder:
                yield attempt_task(task, Path(folder), models, environ, args.seconds)


def attempt_task(
    task: Task, folder: Path, models: dict[str, Any], environ: dict[str, str], seconds: float
) -> Attempt:
    """Have a daemon over this empty folder do a task, and check what it left."""
    # Nobody is there to be asked about a task's own hooks.
    rule = {"decision": "allow", "kind": "protected", "tool": "workspace_hooks"}
    served = ServedAgent(
        folder, models, approvals="auto", turn_seconds=int(seconds), approval_rules=[rule]
    )
    make_repository(task, served.workspace)
    began = time.monotonic()
    with served.running(**environ) as caller:
        chat = caller.create_chat(task.prompt, model=MODEL)
        ended = _wait_for_end(caller, chat, began + seconds)
        messages = caller.client.get(f"/api/remote/chats/{chat}/messages")["messages"]
        used = caller.client.get("/api/analytics")["total"]
    return Attempt(
        task=task.name,
        problem=_find_problem(task, served.workspace, messages, ended=ended),
        seconds=round(time.monotonic() - began, 1),
        tools=sum(used["tools"].values()),
        input_tokens=used["tokens"]["input"],
        output_tokens=used["tokens"]["output"],
        cost=float(used["cost"]),
    )


def _wait_for_end(caller: Caller, chat: int, deadline: float) -> bool:
    """Return whether the turn ended in time; stop it if it did not."""
    while caller.client.status(chat, 10)["status"] != "completed":
        if time.monotonic() > deadline:
            caller.client.post(f"/api/chat/{chat}/stop", {})
            return False
    return True


def _find_problem(
    task: Task, workspace: Path, messages: list[dict[str, Any]], *, ended: bool
) -> str:
    """Explain what is wrong with an attempt; empty if it solved its task."""
    if not ended:
        return "it took too long"
    if messages[-1]["role"] == "error":
        return f"the turn failed: {messages[-1]['content']}"
    replies = [one["content"] for one in messages if one["role"] == "assistant"]
    try:
        task.check(Outcome(workspace, replies[-1] if replies else ""))
    except Unsolved as unsolved:
        return str(unsolved) or "unsolved"
    return ""


def _build_models(args: argparse.Namespace) -> dict[str, Any]:
    """Return the ``models.yml`` of the daemons."""
    model = {"name": MODEL, "engine": args.engine, "model": args.model}
    if args.command:
        model["command"] = shlex.split(args.command)
    if args.prices:
        spent, earned = args.prices.split(",")
        model["prices"] = {"input": float(spent), "output": float(earned)}
    if not args.url:
        return {"models": [model]}
    key = f"env:{args.key_env}" if args.key_env else ""
    supplier = {"dialect": args.dialect, "url": args.url, "key": key}
    return {"suppliers": {"own": supplier}, "models": [{**model, "supplier": "own"}]}


def _choose_environment(args: argparse.Namespace) -> dict[str, str]:
    """Return what the daemons know of this environment: the key, and on request the home."""
    environ = {"HOME": os.environ["HOME"]} if args.own_home else {}
    if args.key_env:
        if args.key_env not in os.environ:
            sys.exit(f"The variable {args.key_env} is not set.")
        environ[args.key_env] = os.environ[args.key_env]
    return environ


def _describe_attempt(attempt: Attempt) -> str:
    result = f"no: {_shorten(attempt.problem)}" if attempt.problem else "solved"
    return (
        f"{attempt.task:26} {attempt.seconds:7.1f} s {attempt.tools:4} tools"
        f" {attempt.input_tokens:9} in {attempt.output_tokens:7} out"
        f" {attempt.cost:9.4f} USD  {result}"
    )


def _summarize(attempts: Sequence[Attempt]) -> str:
    solved = sum(not one.problem for one in attempts)
    return (
        f"{solved} of {len(attempts)} solved ({100 * solved / len(attempts):.0f} %),"
        f" {sum(one.seconds for one in attempts):.0f} s,"
        f" {sum(one.tools for one in attempts)} tools,"
        f" {sum(one.input_tokens for one in attempts)} tokens in,"
        f" {sum(one.output_tokens for one in attempts)} out,"
        f" {sum(one.cost for one in attempts):.4f} USD"
    )


def _shorten(text: str) -> str:
    return textwrap.shorten(text, 70, placeholder=" …")


if __name__ == "__main__":
    sys.exit(main())
