"""A small ACP agent made with the official package, which does what its prompt's words say.

``python acp_agent.py STATE [word …]``: ``STATE`` is a folder for its sessions; the words change
what it is able to do: ``load`` (no ``session/resume``), ``boast`` (it only says that it has it),
``forgetful`` (neither), ``sign-in``.

A prompt's words: ``edit`` and ``run`` ask for leave first, ``big`` writes half a megabyte in one
line, ``wait`` works until it is cancelled, ``late`` tells its cost after the prompt's answer,
``limit`` and ``break`` fail, ``die`` ends the process, ``cut`` ends with ``max_tokens``.
"""

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import acp
from acp import helpers, schema

CALL_COST = 0.01
"""USD of a prompt."""


class ScriptedAgent:
    """Sessions are files with the prompts that they were given, and what they cost."""

    def __init__(self, state: Path, words: list[str]) -> None:
        self._state = state
        self._words = words
        self._cancelled = asyncio.Event()
        self._client: Any = None
        self._tasks: set[asyncio.Task[None]] = set()

    def on_connect(self, conn: Any) -> None:
        self._client = conn

    async def initialize(self, protocol_version: int, **_: Any) -> schema.InitializeResponse:
        resume = None if "load" in self._words else schema.SessionResumeCapabilities()
        forgetful = "forgetful" in self._words
        able = schema.AgentCapabilities(
            load_session=not forgetful,
            session_capabilities=schema.SessionCapabilities(resume=None if forgetful else resume),
        )
        way = schema.AuthMethodAgent(id="x", name="Sign in", description="Run `scripted login`")
        return schema.InitializeResponse(
            protocol_version=protocol_version,
            agent_capabilities=able,
            agent_info=schema.Implementation(name="scripted", version="1"),
            auth_methods=[way],
        )

    async def new_session(self, cwd: str, **_: Any) -> schema.NewSessionResponse:
        if "sign-in" in self._words:
            raise acp.RequestError.auth_required()
        session = f"s{len(list(self._state.iterdir())) + 1}"
        self._write(session, {"cwd": cwd, "prompts": [], "model": "small"})
        return schema.NewSessionResponse(session_id=session, config_options=self._list_options())

    async def resume_session(self, session_id: str, **_: Any) -> schema.ResumeSessionResponse:
        self._read(session_id)
        return schema.ResumeSessionResponse(config_options=self._list_options())

    async def load_session(self, session_id: str, **_: Any) -> schema.LoadSessionResponse:
        for prompt in self._read(session_id)["prompts"]:
            await self._tell(session_id, helpers.update_user_message_text(prompt))
            await self._tell(session_id, helpers.update_agent_message_text("Told long ago."))
        return schema.LoadSessionResponse(config_options=self._list_options())

    async def set_config_option(
        self, config_id: str, session_id: str, value: str | bool, **_: Any
    ) -> schema.SetSessionConfigOptionResponse:
        self._write(session_id, {**self._read(session_id), config_id: value})
        return schema.SetSessionConfigOptionResponse(config_options=self._list_options())

    async def cancel(self, session_id: str, **_: Any) -> None:
        self._cancelled.set()

    async def prompt(self, session_id: str, prompt: list[Any], **_: Any) -> schema.PromptResponse:
        text = "\n".join(block.text for block in prompt)
        session = self._read(session_id)
        session["prompts"].append(text)
        self._write(session_id, session)
        words = text.split()
        await self._say(session_id, "I begin.")
        for word in words:
            if action := getattr(self, f"_{word}", None):
                await action(session_id, session)
        if not self._cancelled.is_set():
            said = f"{len(session['prompts'])} prompts, model {session['model']}."
            await self._say(session_id, said)
        cost = schema.UsageUpdate(
            session_update="usage_update",
            used=100,
            size=1000,
            cost=schema.Cost(amount=CALL_COST * len(session["prompts"]), currency="USD"),
        )
        if "late" in words:
            task = asyncio.create_task(self._tell_later(session_id, cost))
            self._tasks.add(task)
        elif "free" not in words:
            await self._tell(session_id, cost)
        usage = schema.Usage(
            input_tokens=90, output_tokens=7, cached_read_tokens=10, total_tokens=107
        )
        reason = "max_tokens" if "cut" in words else "end_turn"
        if self._cancelled.is_set():
            reason = "cancelled"
        return schema.PromptResponse(stop_reason=reason, usage=usage)

    async def _tell_later(self, session: str, cost: schema.UsageUpdate) -> None:
        await asyncio.sleep(0.05)
        await self._tell(session, cost)

    async def _edit(self, session: str, about: dict[str, Any]) -> None:
        path = Path(about["cwd"]) / "notes.txt"
        call = helpers.start_edit_tool_call("e1", "Edit notes.txt", str(path), "changed\n")
        await self._tell(session, call)
        if await self._may(session, schema.ToolCallUpdate(tool_call_id="e1", kind="edit")):
            old = path.read_text()
            path.write_text("changed\n")
            change = helpers.tool_diff_content(str(path), "changed\n", old)
            await self._tell(
                session, helpers.update_tool_call("e1", status="completed", content=[change])
            )
        else:
            await self._tell(session, helpers.update_tool_call("e1", status="failed"))

    async def _run(self, session: str, _: dict[str, Any]) -> None:
        given = {"command": "touch made.txt"}
        call = helpers.start_tool_call("r1", "touch made.txt", kind="execute", raw_input=given)
        await self._tell(session, call)
        leave = await self._may(session, schema.ToolCallUpdate(tool_call_id="r1"))
        status = "completed" if leave else "failed"
        await self._tell(session, helpers.update_tool_call("r1", status=status))

    async def _big(self, session: str, _: dict[str, Any]) -> None:
        output = helpers.tool_content(helpers.text_block("x" * 500_000))
        call = helpers.start_tool_call("b1", "cat", kind="read", status="completed")
        await self._tell(session, call.model_copy(update={"content": [output]}))

    async def _wait(self, *_: object) -> None:
        await self._cancelled.wait()

    async def _limit(self, *_: object) -> None:
        raise acp.RequestError(-32603, "Rate limit reached, try again later")

    async def _break(self, *_: object) -> None:
        raise acp.RequestError(-32603, "The model is gone")

    async def _die(self, *_: object) -> None:
        sys.stderr.write("it hurts\n")
        sys.stderr.flush()
        os._exit(7)

    async def _may(self, session: str, call: schema.ToolCallUpdate) -> bool:
        options = [
            schema.PermissionOption(option_id=kind[:5], name=kind, kind=kind)
            for kind in ("allow_always", "allow_once", "reject_once")
        ]
        options[0].option_id = "always"
        answer = await self._client.request_permission(
            session_id=session, tool_call=call, options=options
        )
        return getattr(answer.outcome, "option_id", "") == "allow"

    async def _say(self, session: str, text: str) -> None:
        for piece in (text[:4], text[4:]):
            await self._tell(session, helpers.update_agent_message_text(piece))

    async def _tell(self, session: str, update: Any) -> None:
        await self._client.session_update(session_id=session, update=update)

    def _list_options(self) -> list[schema.SessionConfigOptionSelect]:
        models = [schema.SessionConfigSelectOption(value=m, name=m) for m in ("small", "large")]
        return [
            schema.SessionConfigOptionSelect(
                id="model",
                name="Model",
                category="model",
                type="select",
                current_value="small",
                options=models,
            )
        ]

    def _read(self, session: str) -> dict[str, Any]:
        path = self._state / session
        if not path.exists():
            raise acp.RequestError.resource_not_found(session)
        found: dict[str, Any] = json.loads(path.read_text())
        return found

    def _write(self, session: str, content: dict[str, Any]) -> None:
        (self._state / session).write_text(json.dumps(content))


if __name__ == "__main__":
    scripted = ScriptedAgent(Path(sys.argv[1]), sys.argv[2:])
    resumes = "boast" not in sys.argv  # it is only served when this is said
    asyncio.run(acp.run_agent(scripted, use_unstable_protocol=resumes))
