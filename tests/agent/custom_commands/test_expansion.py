"""Custom commands of whole turns: what the model is sent, what is asked, what the history has."""

import asyncio
from contextlib import aclosing
from pathlib import Path

import pytest
from msgspec import structs

from agentd.agent.custom_commands.expansion import LONGEST_PROMPT, CommandEngine
from agentd.agent.custom_commands.model import CustomCommand
from agentd.agent.custom_commands.store import CommandDirectory
from agentd.agent.engine import (
    EngineEvent,
    RateLimited,
    ReplyCompleted,
    ToolUsed,
    TurnFailed,
    TurnRequest,
)
from agentd.agent.tools.files import FolderWorkspace
from agentd.agent.tools.shell import ShellTerminal
from agentd.agent.tools.toolbox import Toolbox
from agentd.chats.model import Message
from agentd.chats.turns import format_tool_message
from agentd.storage.layout import Layout
from agentd.system.protected_paths import ProtectedPlaces
from agentd.workspace.git.repository import GitRepository
from tests.agent.engines.native.scene import Person
from tests.support.daemon import NOON, Engine


class Scene:
    """A workspace, the configuration beside it, and an engine that says what it is given."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "work"
        self.root.mkdir()
        self.config = folder / "config"
        self.person = Person()
        self.engine = Engine()
        self.engine.name = "native"

    def put(self, path: str, text: str) -> None:
        """Write a file of the workspace, or one below ``config/``."""
        file = self.config.parent / path if path.startswith("config/") else self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def run(self, prompt: str, *, native: bool = True) -> list[EngineEvent]:
        """Run a turn, and return its events."""
        request = TurnRequest(1, prompt, turn_tag="test.1.1")
        return asyncio.run(collect_events(self.build_engine(native=native), request, self.person))

    @property
    def sent(self) -> str:
        """What the engine was given last."""
        return self.engine.given[-1].prompt

    def build_engine(self, *, native: bool = True) -> CommandEngine:
        """Build the engine that expands commands."""
        root = str(self.root)
        layout = Layout(str(self.config.parent / "state"), str(self.config))
        workspace = FolderWorkspace(root, protected=ProtectedPlaces())
        tools = Toolbox(workspace, GitRepository(root), ShellTerminal(root))
        directory = CommandDirectory(layout, root)

        async def find(given: TurnRequest) -> CustomCommand | None:
            return await directory.find_called(given.prompt, root, configured_only=not native)

        return CommandEngine(self.engine, tools, find)


async def collect_events(
    engine: CommandEngine, request: TurnRequest, person: Person
) -> list[EngineEvent]:
    """Run a turn, and return its events."""
    async with asyncio.timeout(60), aclosing(engine.run(request, person)) as events:
        return [event async for event in events]


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def list_used(events: list[EngineEvent]) -> list[tuple[str, str, bool]]:
    return [(one.name, one.input, one.ok) for one in events if isinstance(one, ToolUsed)]


def test_a_command_is_sent_with_its_arguments_output_and_files(scene: Scene) -> None:
    scene.put("src/a.py", "print('a')\n")
    scene.put(
        ".claude/commands/review.md",
        "---\nargument-hint: [file]\n---\nReview @$1, made by !`printf 'Ada %s' $2` (@nobody).\n",
    )
    events = scene.run("/review src/a.py L")
    assert scene.sent == (
        "Review @src/a.py, made by Ada L (@nobody).\n\n"
        "<file path=\"src/a.py\">\nprint('a')\n</file>"
    )
    assert [(one.kind, one.subject) for one in scene.person.asked] == [
        ("shell", "printf 'Ada %s' L")
    ]
    assert "/review" in scene.person.asked[0].reason
    assert list_used(events) == [
        ("shell", "printf 'Ada %s' L", True),
        ("command", "/review src/a.py L", True),
    ]
    (shown,) = [one for one in events if isinstance(one, ToolUsed) and one.name == "command"]
    assert shown.outcome == f".claude/commands/review.md\n\n{scene.sent}"


def test_a_line_that_is_not_allowed_is_not_run_and_the_model_knows(scene: Scene) -> None:
    scene.person.denied = ("shell",)
    scene.put("config/commands/status.md", "It is: !`touch made`\nSay so.")
    events = scene.run("/status")
    assert scene.sent == (
        "It is: [not run: This was not allowed: Not while I am at lunch.]\nSay so."
    )
    assert not (scene.root / "made").exists()
    assert list_used(events)[0] == ("shell", "touch made", False)


def test_a_line_that_fails_is_sent_with_its_exit_code(scene: Scene) -> None:
    scene.put("config/commands/status.md", "It is: !`echo no; exit 3`")
    scene.run("/status")
    assert scene.sent == "It is: no\n[exit 3]"


@pytest.mark.parametrize("prompt", ["/nothing here", "/etc/passwd is a file", "not /review", "//x"])
def test_a_prompt_that_calls_no_command_is_sent_as_it_is(scene: Scene, prompt: str) -> None:
    scene.put("config/commands/review.md", "Review.")
    events = scene.run(prompt)
    assert scene.sent == prompt
    assert not list_used(events)


def test_agents_that_expand_the_workspaces_commands_themselves_get_what_was_typed(
    scene: Scene,
) -> None:
    scene.put(".claude/commands/theirs.md", "Theirs.")
    scene.put("config/commands/mine.md", "Mine.")
    scene.run("/theirs", native=False)
    assert scene.sent == "/theirs"
    scene.run("/mine", native=False)
    assert scene.sent == "Mine."


def test_files_outside_and_secret_ones_are_not_included(scene: Scene) -> None:
    scene.put(".env", "KEY=s3cret")
    scene.put("picture.bin", "\0\0")
    (scene.root / "out").symlink_to("/etc")
    scene.put("config/commands/leak.md", "@.env @../config/agentd.yml @out/passwd @picture.bin")
    scene.run("/leak")
    assert scene.sent == "@.env @../config/agentd.yml @out/passwd @picture.bin"


def test_a_command_that_becomes_too_long_fails_its_turn(scene: Scene) -> None:
    scene.put("config/commands/long.md", "$ARGUMENTS" * 3)
    events = scene.run("/long " + "x" * (LONGEST_PROMPT // 2))
    assert not scene.engine.given
    (failed,) = events
    assert isinstance(failed, TurnFailed)
    assert "/long" in failed.reason


def test_the_lines_of_a_command_are_run_once_though_a_limit_ends_its_turn(scene: Scene) -> None:
    scene.put(".claude/commands/release.md", "Released: !`echo x >> done; cat done`\n")
    engine = scene.build_engine()
    first = TurnRequest(1, "/release", turn_tag="test.1.1", message=7)
    again = structs.replace(first, turn_tag="test.1.2", is_retry=True)
    scene.engine.says = lambda _: [RateLimited("Later.")]
    asyncio.run(collect_events(engine, first, scene.person))
    asyncio.run(collect_events(engine, again, scene.person))
    scene.engine.says = lambda _: [ReplyCompleted("Done.")]
    events = asyncio.run(collect_events(engine, again, scene.person))
    assert [one.prompt.strip() for one in scene.engine.given] == ["Released: x"] * 3
    assert events == [ReplyCompleted("Done.")]
    assert (scene.root / "done").read_text() == "x\n"
    asyncio.run(collect_events(engine, structs.replace(first, message=9), scene.person))
    assert (scene.root / "done").read_text() == "x\nx\n"


def test_a_command_that_a_limit_ended_is_not_run_again_after_a_restart(scene: Scene) -> None:
    scene.put(".claude/commands/release.md", "Released: !`echo x >> done; cat done`\n\nAll of it.")
    first = TurnRequest(1, "/release", turn_tag="test.1.1", message=7)
    scene.engine.says = lambda _: [RateLimited("Later.")]
    events = asyncio.run(collect_events(scene.build_engine(), first, scene.person))
    used = [one for one in events if isinstance(one, ToolUsed)]
    history = tuple(
        Message(number, "tool", format_tool_message(one.input, one.outcome), NOON, one.name)
        for number, one in enumerate(used, 8)
    )
    again = structs.replace(first, turn_tag="test.1.2", is_retry=True, history=history)
    asyncio.run(collect_events(scene.build_engine(), again, scene.person))
    assert [one.prompt for one in scene.engine.given] == ["Released: x\n\nAll of it."] * 2
    assert (scene.root / "done").read_text() == "x\n"
    later = structs.replace(again, message=history[-1].id)
    asyncio.run(collect_events(scene.build_engine(), later, scene.person))
    assert (scene.root / "done").read_text() == "x\nx\n"
