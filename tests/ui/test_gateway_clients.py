"""The lines that are shown with a new access key, run by a shell, with the clients themselves."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.agent.engines.real.programs import (
    CLAUDE,
    CLAUDE_ALONE,
    CODEX,
    CODEX_SANDBOXED,
    OPENCODE,
    isolate_opencode,
)
from tests.supplier.request import Request
from tests.supplier.steps import Call
from tests.ui.gateway_site import GatewaySite, open_gateway
from tests.ui.support import Person, person

from playwright.sync_api import Browser, Page, expect  # isort: skip

pytestmark = pytest.mark.engines

PROGRAMS = {
    "codex": (CODEX, 'exec --skip-git-repo-check "$@" "$PROMPT"'),
    "claude": (CLAUDE, '-p --allowedTools=Agent "$@" "$PROMPT"'),
    "opencode": (OPENCODE, 'run "$@" "$PROMPT"'),
}
"""What each shows in a terminal is for people; these arguments have it answer once, and end."""

MODELS: list[dict[str, Any]] = [
    {"name": "a-text-embedding"},
    {"name": "big", "context": 150_000, "maxOutput": 4000},
    {"name": "tiny-flash", "context": 100_000, "maxOutput": 2000},
]
"""The first is none that converses, the last one for small tasks."""

GEMINI = """
import os, httpx
answer = httpx.post(
    os.environ["GOOGLE_GEMINI_BASE_URL"] + "/v1beta/models/big:generateContent",
    headers={"x-goog-api-key": os.environ.get("GOOGLE_API_KEY") or os.environ["GEMINI_API_KEY"]},
    json={"contents": [{"role": "user", "parts": [{"text": "Hello"}]}]},
    timeout=60,
)
print(answer.json()["candidates"][0]["content"]["parts"][0]["text"])
"""
"""What Google's client sends with these variables; it is not installed for the tests."""

OPENAI = """
import openai
messages = [{"role": "user", "content": "Hello"}]
answer = openai.OpenAI().chat.completions.create(model="big", messages=messages)
print(answer.choices[0].message.content)
print(openai.OpenAI().responses.create(model="big", input="Hello").output_text)
"""

ANTHROPIC = """
import anthropic
messages = [{"role": "user", "content": "Hello"}]
client = anthropic.Anthropic()
answer = client.messages.create(model="big", max_tokens=9, messages=messages)
print(answer.content[0].text)
"""

DELEGATED = "Look closely."


def delegate(request: Request) -> Call | None:
    """Delegate when the prompt says to which model, once."""
    body = json.dumps(request.body)
    asked = re.search(r"Delegate to (\w+)\.", body)
    if not asked or DELEGATED in body or "Agent" not in request.tools:
        return None
    kind = {"description": "looks", "subagent_type": "general-purpose", "model": asked[1]}
    return Call("Agent", {**kind, "prompt": DELEGATED})


SCRIPTS = {"OpenAI SDK": OPENAI, "Anthropic SDK": ANTHROPIC, "Gemini SDK": GEMINI}


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewaySite]:
    """A gateway with models for all purposes."""
    with open_gateway(tmp_path_factory.mktemp("site"), delegate) as site:
        for name in [one["name"] for one in site.setup.models]:
            site.admin.delete(f"/api/agent/models/{name}")
        prices = {"input": 3, "output": 15}
        for model in MODELS:
            routes = [{"channel": "chat", "model": model["name"]}]
            made = {**model, "routes": routes, "prices": prices}
            assert site.admin.post("/api/agent/models", made).status == 201
        yield site


@pytest.fixture(scope="module")
def page(browser: Browser, gateway: GatewaySite) -> Iterator[Page]:
    """The page with a new key, as it is shown once."""
    with person(browser, gateway.serving) as gus:
        yield open_new_key(gus)


def open_new_key(gus: Person) -> Page:
    page = gus.open("/gateway/keys")
    page.get_by_role("button", name="New key").click()
    page.get_by_role("dialog").locator("[name=name]").fill("terminal")
    page.get_by_role("button", name="Create key").click()
    expect(page.get_by_role("textbox", name="Key", exact=True)).to_be_visible()
    return page


def read_lines(page: Page, client: str) -> str:
    button = page.get_by_role("button", name=client, exact=True)
    button.click()
    expect(button).to_have_attribute("aria-pressed", "true")
    return page.get_by_role("region", name="Lines for a terminal").inner_text()


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """An empty home, and the programs in ``bin``, which answer once and end."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, (program, arguments) in PROGRAMS.items():
        script = programs / name
        script.write_text(f"#!/bin/sh\nexec {program} {arguments} < /dev/null\n")
        script.chmod(0o700)
    made = tmp_path / "home"
    made.mkdir()
    return made


def run_lines(lines: str, home: Path, **more: str) -> str:
    """Run lines in a shell whose environment has nothing of this machine's owner."""
    clean = {"HOME": str(home), "PATH": f"{home.parent / 'bin'}{os.pathsep}{os.environ['PATH']}"}
    alone = {**CLAUDE_ALONE, **CODEX_SANDBOXED, **isolate_opencode(home)}
    run = subprocess.run(
        ["sh", "-euc", lines],
        env={**clean, **alone, "PROMPT": "Hello", **more},
        cwd=home,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    return run.stdout


@pytest.mark.parametrize(
    ("client", "program"), [("Codex", "codex"), ("Claude Code", "claude"), ("opencode", "opencode")]
)
def test_a_coding_agent_answers_with_its_lines_as_they_are_shown(
    page: Page, gateway: GatewaySite, home: Path, client: str, program: str
) -> None:
    if not shutil.which(PROGRAMS[program][0]):
        pytest.skip(f"no {program}: npm install --prefix tests/agent/engines/real")
    before = len(gateway.supplier.requests)
    said = run_lines(read_lines(page, client), home, ANTHROPIC_API_KEY="sk-of-somebody-else")
    assert said.split()[-1] == "Hello."
    models = {one.model for one in gateway.supplier.requests[before:]}
    assert "big" in models and models <= {"big", "tiny-flash"}


@pytest.mark.parametrize(("asked", "sent"), [("haiku", "tiny-flash"), ("sonnet", "big")])
def test_a_sub_agent_of_claude_code_has_a_model_of_the_gateway(
    page: Page, gateway: GatewaySite, home: Path, asked: str, sent: str
) -> None:
    if not shutil.which(CLAUDE):
        pytest.skip("no claude: npm install --prefix tests/agent/engines/real")
    lines = read_lines(page, "Claude Code")
    before = len(gateway.supplier.requests)
    run_lines(lines, home, PROMPT=f"Delegate to {asked}.")
    bodies = [(one.model, json.dumps(one.body)) for one in gateway.supplier.requests[before:]]
    delegated = [model for model, body in bodies if DELEGATED in body and "Delegate to" not in body]
    assert delegated and set(delegated) == {sent}


@pytest.mark.parametrize("client", SCRIPTS)
def test_a_library_answers_with_its_lines_as_they_are_shown(
    page: Page, home: Path, client: str
) -> None:
    (home / "script.py").write_text(SCRIPTS[client])
    lines = f"{read_lines(page, client)}\n{sys.executable} script.py"
    others = {"ANTHROPIC_AUTH_TOKEN": "of-somebody-else", "GOOGLE_API_KEY": "of-somebody-else"}
    assert set(run_lines(lines, home, **others).split()) == {"Hello."}


def test_the_models_of_the_lines_can_be_chosen(page: Page) -> None:
    read_lines(page, "Claude Code")
    lines = page.get_by_role("region", name="Lines for a terminal")
    model = page.get_by_role("combobox", name="Model", exact=True)
    small = page.get_by_role("combobox", name="Model for small tasks")
    expect(model).to_have_value("big")
    expect(small).to_have_value("tiny-flash")
    model.select_option("a-text-embedding")
    expect(lines).to_contain_text("ANTHROPIC_MODEL='a-text-embedding'")
    small.select_option("big")
    expect(lines).to_contain_text(re.compile("HAIKU_MODEL='big'"))
    expect(lines).not_to_contain_text("tiny-flash")
