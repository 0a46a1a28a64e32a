"""The table of engines and behaviours: what each engine does behind the daemon, as tests see it.

``test_matrix.py`` has a test for every cell. A cell with a reason is one that does not hold: its
test must fail, so that a reason that is no longer true is found. ``agentd/agent/README.md`` shows
the table (``python -m tests.agent.engines.real.matrix`` prints it).
"""

import sys
from collections.abc import Mapping

ENGINES = ("native", "codex", "claude-code", "opencode")

BEHAVIOURS: Mapping[str, str] = {
    "queue": "the prompts of a queue are carried out in their order",
    "follow_up": "a second prompt goes to a model that knows the first, its tools and the reply",
    "restart": "so does one after a restart of the daemon",
    "write": "a change of a file is asked for with its path, and made when it is allowed",
    "shell_allowed": "a command is asked for as it stands, and run when it is allowed",
    "shell_denied": "a command that is denied is not run, and the model reads the person's note",
    "note": "what a person says with a command that is allowed reaches the model",
    "shell_nobody": "where nobody answers in time, a command is not run and the turn goes on",
    "question": "what the model asks the person is put with its choices, and it has the answer",
    "stop": "a stop ends the turn with all its programs, and holds the queue",
    "kill_9": "a daemon that is killed leaves no program, and sends no prompt again",
    "crash": "a program that dies fails its turn, and the next prompt is carried out",
    "rate_limit": "a supplier's limit puts the prompt back into the queue until it ends",
    "cost": "tokens and cost are booked to the digit",
    "budget": "a run of a schedule that has cost its budget does nothing more",
    "model": "a prompt can name its model",
    "mode": "a chat can begin in a mode of the program: it plans, and the model knows",
    "system_prompt": "a chat's system prompt reaches the model",
    "skill": "a chat's skill reaches the model",
    "project_files": "the project's instructions reach the model",
    "images": "an uploaded image that a prompt names reaches the model as an image",
    "refused_image": "where the supplier refuses an image, the chat goes on without it",
    "output_schema": (
        "a reply fits the schema that its prompt demands, and is an object in the history"
    ),
    "mcp": "a tool of an MCP server is asked for, used, and its result reaches the model",
    "editor_mcp": "so is one of an MCP server that an editor names in its session (`agentd acp`)",
    "commands": "a custom command of `config/commands` reaches the model as its text",
    "own_commands": "so does one of the workspace, where the field puts it (`.claude/commands`, …)",
    "hooks": "a hook of `hooks.yml` keeps a command from running, and the model reads why",
    "own_hooks": "so does one of the workspace's `.claude/settings.json`",
}

_OWN_TOOLS = (
    "The program runs its tools by itself; `approval_rules` hold for them, `hooks.yml` is for the"
    " native engine's."
)

MISSING: Mapping[tuple[str, str], str] = {
    ("native", "crash"): "The native engine has no program: it is a part of the daemon.",
    ("native", "mode"): "The native engine has no modes; its system prompt can ask for a plan.",
    ("opencode", "question"): "It has no tool for that where a client speaks ACP.",
    ("opencode", "output_schema"): (
        "The Agent Client Protocol has no place for a schema, so such a prompt is refused."
    ),
    ("codex", "hooks"): _OWN_TOOLS,
    ("claude-code", "hooks"): _OWN_TOOLS,
    ("opencode", "hooks"): _OWN_TOOLS,
    ("codex", "own_hooks"): "It does not read that file.",
    ("claude-code", "own_hooks"): (
        "It is started without the workspace's settings: it would run the hooks without a question."
    ),
    ("opencode", "own_hooks"): "It does not read that file.",
}
"""Cells that do not hold, with the reason."""


def render_table() -> str:
    """Return the table as Markdown, with the reasons as notes below it."""
    notes: list[str] = []
    rows = [
        "| | " + " | ".join(ENGINES) + " |",
        "|---|" + "---|" * len(ENGINES),
    ]
    for behaviour, text in BEHAVIOURS.items():
        cells = [_render_cell(engine, behaviour, notes) for engine in ENGINES]
        rows.append(f"| {text} | " + " | ".join(cells) + " |")
    numbered = [f"{number}. {note}" for number, note in enumerate(notes, 1)]
    return "\n".join([*rows, *(["", *numbered] if numbered else [])]) + "\n"


def _render_cell(engine: str, behaviour: str, notes: list[str]) -> str:
    reason = MISSING.get((engine, behaviour))
    if reason is None:
        return "yes"
    if reason not in notes:
        notes.append(reason)
    return f"no ({notes.index(reason) + 1})"


if __name__ == "__main__":
    sys.stdout.write(render_table())
