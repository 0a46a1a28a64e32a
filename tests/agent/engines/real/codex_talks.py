"""The conversations with Codex that are recorded: one function per scenario."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tests.agent.engines.real.programs import (
    MODEL,
    Place,
    build_codex_argv,
    build_codex_environment,
)
from tests.agent.engines.real.talk import Message, Talk
from tests.supplier.steps import Answer, Break, Call, Fail, Refuse, Say, Stall, Think, Tokens
from tests.supplier.supplier import Supplier
from tests.support.waiting import until

PATCH = """apply_patch <<'EOF'
*** Begin Patch
*** Update File: notes.txt
@@
-one
+uno
*** End Patch
EOF"""


class Codex:
    """Starts the program at a place; ``talks`` are its runs, one after another."""

    def __init__(self, where: Place, supplier: Supplier) -> None:
        self.supplier = supplier
        self.talks: list[Talk] = []
        self.where = where
        self._thread = ""

    @contextmanager
    def running(self, decision: str = "accept") -> Iterator[Talk]:
        """The program, greeted; it is answered ``decision`` whenever it asks."""
        argv, environment = build_codex_argv(self.supplier), build_codex_environment(self.where)

        def answer(request: Message) -> Message:
            return {"decision": decision}

        with Talk(argv, self.where.workspace, environment, answer, {}) as talk:
            self.talks.append(talk)
            about = {"name": "agentd", "title": "agentd", "version": "0"}
            talk.request("initialize", {"clientInfo": about})
            talk.notify("initialized")
            yield talk

    def open(self, talk: Talk, policy: str = "untrusted", sandbox: str = "workspace-write") -> None:
        """Start a new thread."""
        self._open(talk, "thread/start", {"approvalPolicy": policy, "sandbox": sandbox})

    def reopen(self, talk: Talk) -> None:
        """Resume the thread."""
        given = {"threadId": self._thread, "approvalPolicy": "untrusted"}
        self._open(talk, "thread/resume", {**given, "sandbox": "workspace-write"})

    def _open(self, talk: Talk, method: str, params: Message) -> None:
        whole = {"cwd": str(self.where.workspace), "model": MODEL, **params}
        self._thread = talk.request(method, whole)["result"]["thread"]["id"]

    def begin(self, talk: Talk, prompt: str) -> Message:
        """Start a turn; what names it when it is to be interrupted."""
        given = {"threadId": self._thread, "input": [{"type": "text", "text": prompt}]}
        turn = talk.request("turn/start", given)["result"]["turn"]
        return {"threadId": self._thread, "turnId": turn["id"]}

    def run_turn(self, talk: Talk, prompt: str) -> None:
        """Run a turn from its start to its end."""
        self.begin(talk, prompt)
        talk.wait_for_method("turn/completed")


def command(codex: Codex) -> None:
    """A command is approved, its output streamed, and the model concludes from it."""
    used = Tokens(input=100, cached=900, output=20, reasoning=8)
    run = Call("exec_command", {"cmd": "cat notes.txt && echo three | tee -a notes.txt"})
    first = (Think("The file is short."), Say("I add a line."), run)
    codex.supplier.script(Answer(first, usage=used), Say("The line is there."))
    with codex.running() as talk:
        codex.open(talk)
        codex.run_turn(talk, "Add three to notes.txt")


def declined(codex: Codex) -> None:
    """A command is declined; the turn goes on."""
    codex.supplier.script(Call("exec_command", {"cmd": "rm notes.txt"}), Say("I leave it."))
    with codex.running("decline") as talk:
        codex.open(talk)
        codex.run_turn(talk, "Remove notes.txt")


def cancelled(codex: Codex) -> None:
    """A question is answered with ``cancel``; the turn ends."""
    codex.supplier.script(Call("exec_command", {"cmd": "rm notes.txt"}), Say("I leave it."))
    with codex.running("cancel") as talk:
        codex.open(talk)
        codex.run_turn(talk, "Remove notes.txt")


def parallel(codex: Codex) -> None:
    """Two commands of one answer, one of which fails."""
    calls = [
        Call("exec_command", {"cmd": "ls -a"}),
        Call("exec_command", {"cmd": "touch x; exit 3"}),
    ]
    codex.supplier.script(calls, Say("One of them failed."))
    with codex.running() as talk:
        codex.open(talk)
        codex.run_turn(talk, "Do both")


def patch(codex: Codex) -> None:
    """A patch in a sandbox that may not write: the file's change is approved."""
    codex.supplier.script(Call("exec_command", {"cmd": PATCH}), Say("Changed."))
    with codex.running() as talk:
        codex.open(talk, "untrusted", "read-only")
        codex.run_turn(talk, "Change one to uno")


def sandboxed(codex: Codex) -> None:
    """No approval is asked for: a command in the workspace, and one that the sandbox refuses."""
    inside = Call("exec_command", {"cmd": "echo three >> notes.txt; cat notes.txt"})
    outside = Call("exec_command", {"cmd": "echo no > ../outside.txt"})
    codex.supplier.script(inside, outside, Say("The second was refused."))
    with codex.running() as talk:
        codex.open(talk, "on-request")
        codex.run_turn(talk, "Write inside and outside")


def escalated(codex: Codex) -> None:
    """The model asks to leave the sandbox and says why."""
    why = {"sandbox_permissions": "require_escalated", "justification": "May I write outside?"}
    run = Call("exec_command", {"cmd": "echo yes > ../outside.txt", **why})
    codex.supplier.script(run, Say("Written."))
    with codex.running() as talk:
        codex.open(talk, "on-request")
        codex.run_turn(talk, "Write outside")


def resumed(codex: Codex) -> None:
    """A thread is taken up by a new process."""
    codex.supplier.script(Say("Forty-two."), Say("As I said: forty-two."))
    with codex.running() as talk:
        codex.open(talk)
        codex.run_turn(talk, "What is the answer?")
    with codex.running() as talk:
        codex.reopen(talk)
        codex.run_turn(talk, "Say it again")


def interrupted(codex: Codex) -> None:
    """A turn is interrupted in the middle of an answer, another while a command runs."""
    stall = Stall(after=8)
    slow = Answer((Say("one two three four five six seven eight"),), faults=(stall,))
    codex.supplier.script(slow, Call("exec_command", {"cmd": "touch begun; sleep 300"}))
    with codex.running() as talk:
        codex.open(talk)
        turn = codex.begin(talk, "Count")
        talk.wait_for_method("item/agentMessage/delta")
        stall.reached.result(60)
        talk.request("turn/interrupt", turn)
        talk.wait_for_method("turn/completed")
        turn = codex.begin(talk, "Sleep")
        talk.wait_for_method("serverRequest/resolved")
        until((codex.where.workspace / "begun").exists)
        talk.request("turn/interrupt", turn)
        talk.wait_for_method("turn/completed")


def limited(codex: Codex) -> None:
    """The usage limit of a subscription, then a plain 429 again and again."""
    told = {
        "type": "usage_limit_reached",
        "message": "The usage limit has been reached",
        "plan_type": "pro",
        "resets_at": 1_900_000_000,
        "resets_in_seconds": 3600,
    }
    refuse = Refuse(429, headers={"Retry-After": "1"})
    codex.supplier.script(Refuse(429, body={"error": told}), *[refuse] * 10)
    with codex.running() as talk:
        codex.open(talk)
        codex.run_turn(talk, "Hello")
        codex.run_turn(talk, "Hello again")


def broken(codex: Codex) -> None:
    """A stream breaks once and is taken up; then it breaks for good."""
    cut = Answer((Say("This never ends well"),), faults=(Break(after=6),))
    codex.supplier.script(cut, Say("Recovered."), cut, cut, cut, cut)
    with codex.running() as talk:
        codex.open(talk)
        codex.run_turn(talk, "Hello")
        codex.run_turn(talk, "Hello again")


def failed(codex: Codex) -> None:
    """A wrong key, an unknown model, and a failure within the stream."""
    fail = Answer((Say("Well"),), faults=(Fail(after=6, type="context_length_exceeded"),))
    wrong = Refuse(401, "Wrong key")
    codex.supplier.script(wrong, wrong, Refuse(404, "No such model"), fail)
    with codex.running() as talk:
        codex.open(talk)
        for prompt in ("One", "Two", "Three"):
            codex.run_turn(talk, prompt)


TALKS: tuple[Callable[[Codex], None], ...] = (
    command,
    declined,
    cancelled,
    parallel,
    patch,
    sandboxed,
    escalated,
    resumed,
    interrupted,
    limited,
    broken,
    failed,
)
"""Every scenario; its name is the function's."""
