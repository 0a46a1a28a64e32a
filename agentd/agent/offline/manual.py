"""What the offline engine says of itself: what it can do, and what it cannot."""

from agentd.agent.offline.markdown import code, table
from agentd.agent.offline.requests import Refused, Unknown
from agentd.agent.offline.understanding import COMMANDS

CONNECT = (
    "I am agentd's **offline engine**: no language model, no network. I answer a fixed set of"
    " questions about this folder. Which engine carries out prompts is set by `engine:` in"
    " `config/agentd.yml`; a model answers in my place once one that uses a model is set there."
)


def help_text() -> str:
    """What can be asked."""
    rows = [
        (code(f"/{command.name} {command.usage}".strip()), command.does) for command in COMMANDS
    ]
    return (
        f"{CONNECT}\n\n{table(('Ask', 'and you get'), rows)}\n\n"
        "Plain words do as well: *show me the first 20 lines of setup.cfg*, *where is main"
        " defined?*, *find TODO in src*, *how many lines of Python are there?*, *what changed?*,"
        " *last 5 commits*, *run make test*. Several lines are answered one after another."
        " Before a command line is run, you are asked, unless a rule of yours decides."
    )


def refusal(request: Refused) -> str:
    """Why something is not done."""
    if request.what == "run":
        command = request.text.strip("$! ") or "COMMAND"
        return (
            f"I did not run {code(request.text)}: I run a command line only where it is asked for"
            f" as such, as in {code(f'/run {command}')}. `/help` lists what I can do."
        )
    return (
        f"I did not do that ({code(request.text)}): changing files takes a language model, and"
        " I am the offline engine, which reads, and runs what `/run` tells it. `/help` lists what"
        " I can do, and how to connect a model."
    )


def not_understood(request: Unknown) -> str:
    """That something was not understood, and what would be."""
    hint = f" Did you mean {code(request.hint)}?" if request.hint else ""
    return f"I did not understand {code(request.text)}.{hint}\n\n{help_text()}"
