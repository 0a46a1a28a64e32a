"""The system prompt that a model is given."""

from agentd.agent.engine import TurnRequest
from agentd.agent.engines.native.project_knowledge import ProjectFile
from agentd.agent.engines.native.system_prompt import build_system_prompt

AT = "2026-01-01T00:00:00.000Z"


def test_the_system_prompt_holds_instructions_and_what_the_project_says():
    files = (ProjectFile("AGENTS.md", "Use tabs."), ProjectFile("CLAUDE.md", "Be quick.", cut=True))
    prompt = build_system_prompt(TurnRequest(1, "", instructions=" Speak Dutch. "), files)
    assert "Speak Dutch." in prompt
    assert "<AGENTS.md>\nUse tabs.\n</AGENTS.md>" in prompt
    assert "only the beginning: read CLAUDE.md" in prompt
    assert "read AGENTS.md for" not in prompt


def test_the_date_is_told_only_when_it_is_given():
    assert build_system_prompt(TurnRequest(1, "")) == build_system_prompt(TurnRequest(1, ""))
    assert "202" not in build_system_prompt(TurnRequest(1, ""))
    assert "Today is 2026-01-01" in build_system_prompt(TurnRequest(1, ""), (), AT)
