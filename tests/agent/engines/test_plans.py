"""Plans of engines in the history: one checklist, whatever the program calls it."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from agentd.acp.updates import make_plan
from agentd.agent.engine import ToolStarted, ToolUsed
from agentd.agent.engines.acp.events import AcpEvents
from agentd.agent.engines.claude_code.plan import ClaudePlan
from agentd.agent.engines.codex.events import CodexEvents
from agentd.agent.engines.external.common import WorkspaceBounds
from agentd.agent.plan import PLAN_TOOL, PlanStep, make_step, render_plan, summarize_plan

BOUNDS = WorkspaceBounds("/work")
STATUS = st.sampled_from(["pending", "in_progress", "completed"])
STEPS = st.lists(
    st.builds(make_step, st.text("ab *[]x\n", min_size=1).filter(str.strip), STATUS), min_size=1
)


@given(STEPS)
def test_a_checklist_can_be_read_again(steps: list[PlanStep]) -> None:
    plan = make_plan(render_plan(steps))
    assert plan
    assert [one["status"] for one in plan["entries"]] == [step.status for step in steps][:100]


def test_a_step_is_one_short_line_with_a_known_status() -> None:
    assert make_step(" a\n b ", "inProgress") == PlanStep("a b", "in_progress")
    assert make_step("x" * 1000, "odd") == PlanStep("x" * 300)
    assert summarize_plan([PlanStep("a", "completed"), PlanStep("b")]) == "1 of 2 done"


def test_a_plan_of_codex_is_shown_unless_it_is_a_subagents() -> None:
    events = CodexEvents(BOUNDS, "")
    events.thread = "mine"
    plan = [{"step": "read", "status": "completed"}, {"step": "write", "status": "inProgress"}]
    (shown,) = events.on_plan({"threadId": "mine", "plan": plan})
    assert shown == ToolUsed(PLAN_TOOL, "1 of 2 done", "- [x] read\n- [ ] **write** (now)")
    assert not list(events.on_plan({"threadId": "other", "plan": plan}))
    assert not list(events.on_plan({"threadId": "mine", "plan": []}))


def test_a_plan_of_an_acp_agent_is_shown_when_it_changes() -> None:
    events = AcpEvents(BOUNDS)
    update: dict[str, Any] = {
        "sessionUpdate": "plan",
        "entries": [{"content": "read", "priority": "high", "status": "pending"}],
    }
    (shown,) = events.on_update(update)
    assert shown == ToolUsed(PLAN_TOOL, "0 of 1 done", "- [ ] read")
    assert not list(events.on_update(update))


def test_a_tool_keeps_the_name_that_it_began_with() -> None:
    events = AcpEvents(BOUNDS)
    call = {"sessionUpdate": "tool_call", "toolCallId": "1", "title": "lookup", "kind": "other"}
    (begun,) = events.on_update({**call, "status": "in_progress", "rawInput": {"a": 1}})
    ended = {"sessionUpdate": "tool_call_update", "toolCallId": "1", "title": "3 results"}
    (used,) = events.on_update({**ended, "status": "completed"})
    assert isinstance(begun, ToolStarted)
    assert isinstance(used, ToolUsed)
    assert begun.name == used.name == "lookup"


def test_tasks_of_claude_code_make_up_a_plan() -> None:
    plan = ClaudePlan()
    created = {"task": {"id": "1", "subject": "read"}}
    assert plan.read_use("TaskCreate", {"subject": "read"}, created) == [PlanStep("read")]
    done = plan.read_use("TaskUpdate", {"taskId": "1", "status": "completed"}, {})
    assert done == [PlanStep("read", "completed")]
    assert plan.read_use("TaskUpdate", {"taskId": "1", "status": "deleted"}, {}) == []
    assert plan.read_use("TaskUpdate", {"taskId": "7", "status": "completed"}, {}) == []
    listed = {"tasks": [{"id": "7", "subject": "old", "status": "in_progress"}]}
    assert plan.read_use("TaskList", {}, listed) == [PlanStep("old", "in_progress")]
    assert plan.read_use("Bash", {}, {}) == []
