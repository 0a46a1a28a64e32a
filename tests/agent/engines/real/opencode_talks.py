"""The conversations with opencode that are recorded: one function per scenario."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tests.agent.engines.real.programs import Place, build_opencode_argv, build_opencode_environment
from tests.agent.engines.real.talk import Message, Talk
from tests.supplier.request import Request
from tests.supplier.steps import Answer, Break, Call, Refuse, Say, Stall, Think, Tokens
from tests.supplier.supplier import Supplier
from tests.support.waiting import until


def answer_title(request: Request) -> Say | None:
    """Return the answer to opencode's request for a session's title, which no test is about."""
    return None if request.tools else Say("A title")


class Opencode:
    """Starts the program at a place; ``talks`` are its runs, one after another."""

    def __init__(self, where: Place, supplier: Supplier) -> None:
        self.where = where
        self.supplier = supplier
        self.talks: list[Talk] = []
        self._session = ""
        supplier.answer_always(answer_title)

    @contextmanager
    def running(self, kind: str = "allow_once") -> Iterator[Talk]:
        """The program, greeted; it is given the option of a kind whenever it asks."""
        environment = build_opencode_environment(self.where, self.supplier)

        def answer(request: Message) -> Message:
            options = request["params"].get("options", [])
            chosen = [one["optionId"] for one in options if one["kind"] == kind]
            return {"outcome": {"outcome": "selected", "optionId": chosen[0]}} if chosen else {}

        marked = {"jsonrpc": "2.0"}
        with Talk(build_opencode_argv(), self.where.workspace, environment, answer, marked) as talk:
            self.talks.append(talk)
            files = {"readTextFile": False, "writeTextFile": False}
            able = {"fs": files, "terminal": False}
            about = {"name": "agentd", "version": "0"}
            hello = {"protocolVersion": 1, "clientCapabilities": able, "clientInfo": about}
            talk.request("initialize", hello)
            yield talk

    def open(self, talk: Talk) -> None:
        """Start a new session."""
        given = {"cwd": str(self.where.workspace), "mcpServers": []}
        self._session = talk.request("session/new", given)["result"]["sessionId"]

    def reopen(self, talk: Talk, method: str) -> None:
        """Reopen the session by ``session/load`` or ``session/resume``."""
        given = {"cwd": str(self.where.workspace), "mcpServers": []}
        talk.request(method, {"sessionId": self._session, **given})

    def begin(self, talk: Talk, prompt: str) -> int:
        """Start a turn; the request that is answered when it ends."""
        text = {"type": "text", "text": prompt}
        return talk.start("session/prompt", {"sessionId": self._session, "prompt": [text]})

    def run_turn(self, talk: Talk, prompt: str) -> None:
        """Run a turn from its start to its end."""
        talk.wait_for_answer(self.begin(talk, prompt))

    def cancel(self, talk: Talk) -> None:
        """Ask for the turn's end."""
        talk.notify("session/cancel", {"sessionId": self._session})


def tools(opencode: Opencode) -> None:
    """A command and an edit are allowed; a file is read, which is not asked."""
    notes = str(opencode.where.notes)
    run = Call("bash", {"command": "echo three | tee -a notes.txt", "description": "Adds three"})
    edit = {"filePath": notes, "oldString": "one", "newString": "uno"}
    first = (Think("The file is short."), Say("I add a line."), run)
    used = Tokens(input=100, cached=900, output=20, reasoning=8)
    opencode.supplier.script(
        Answer(first, usage=used),
        [Call("read", {"filePath": notes})],
        Call("edit", edit),
        Say("Both are done."),
    )
    with opencode.running() as talk:
        opencode.open(talk)
        opencode.run_turn(talk, "Add three and translate one")


def rejected(opencode: Opencode) -> None:
    """A command is rejected; the turn ends."""
    run = Call("bash", {"command": "rm notes.txt", "description": "Removes the notes"})
    opencode.supplier.script(run, Say("I leave it."))
    with opencode.running("reject_once") as talk:
        opencode.open(talk)
        opencode.run_turn(talk, "Remove notes.txt")


def parallel(opencode: Opencode) -> None:
    """Two commands of one answer, one of which fails, and a tool that does not exist."""
    calls = [
        Call("bash", {"command": "ls -a", "description": "Lists"}),
        Call("bash", {"command": "echo bad >&2; exit 3", "description": "Fails"}),
        Call("fly", {}),
    ]
    opencode.supplier.script(calls, Say("One of them failed."))
    with opencode.running() as talk:
        opencode.open(talk)
        opencode.run_turn(talk, "Do all")


def loaded(opencode: Opencode) -> None:
    """A session is taken up by new processes: with its history told again, and without."""
    used = Tokens(input=1000, output=100)
    opencode.supplier.script(
        *(Answer((Say(said),), used) for said in ("Forty-two.", "42.", "XLII."))
    )
    with opencode.running() as talk:
        opencode.open(talk)
        opencode.run_turn(talk, "What is the answer?")
    for method in ("session/load", "session/resume"):
        with opencode.running() as talk:
            opencode.reopen(talk, method)
            opencode.run_turn(talk, "Say it again")


def cancelled(opencode: Opencode) -> None:
    """A turn is cancelled in the middle of an answer, and one while a command runs."""
    stall = Stall(after=4)
    slow = Answer((Say("one two three four five six seven eight"),), faults=(stall,))
    run = Call("bash", {"command": "touch begun; sleep 300", "description": "Sleeps"})
    opencode.supplier.script(slow, run)
    with opencode.running() as talk:
        opencode.open(talk)
        turn = opencode.begin(talk, "Count")
        stall.reached.result(30)
        talk.wait_for(lambda message: "agent_message_chunk" in str(message))
        opencode.cancel(talk)
        talk.wait_for_answer(turn)
        turn = opencode.begin(talk, "Sleep")
        talk.wait_for_method("session/request_permission")
        until((opencode.where.workspace / "begun").exists)
        opencode.cancel(talk)
        talk.wait_for_answer(turn)


def limited(opencode: Opencode) -> None:
    """Too many requests, with a time to wait; then the quota is used up."""
    told = {"message": "You exceeded your current quota", "type": "insufficient_quota"}
    quota = {"error": {**told, "param": None, "code": "insufficient_quota"}}
    wait = Refuse(429, headers={"Retry-After": "1"})
    opencode.supplier.script(wait, Say("Now it works."), *[Refuse(429, body=quota)] * 9)
    with opencode.running() as talk:
        opencode.open(talk)
        opencode.run_turn(talk, "Hello")
        turn = opencode.begin(talk, "Hello again")
        opencode.supplier.wait_for(5, 60)  # with the title: it tries the quota again
        opencode.cancel(talk)
        talk.wait_for_answer(turn)


def failed(opencode: Opencode) -> None:
    """A wrong key; then a stream that breaks."""
    cut = Answer((Say("This never ends well"),), faults=(Break(after=4),))
    opencode.supplier.script(Refuse(401, "Wrong key"), cut, Say("Recovered."))
    with opencode.running() as talk:
        opencode.open(talk)
        opencode.run_turn(talk, "Hello")
        opencode.run_turn(talk, "Hello again")


TALKS: tuple[Callable[[Opencode], None], ...] = (
    tools,
    rejected,
    parallel,
    loaded,
    cancelled,
    limited,
    failed,
)
"""Every scenario; its name is the function's."""
