"""Help texts of the offline engine: what it can do, and what it cannot."""

from agentd.agent.engines.offline.markdown import render_code, render_table
from agentd.agent.engines.offline.requests import DeclinedRequest, NotUnderstood
from agentd.agent.engines.offline.understanding import COMMANDS

CONNECT = (
    "I am agentd's **offline engine**: no language model, no network. I answer a fixed set of"
    " questions about this folder. Which engine carries out prompts is set by `engine:` in"
    " `config/agentd.yml`; a model answers in my place once one that uses a model is set there."
)


def render_help() -> str:
    """Return the list of supported requests."""
    rows = [
        (render_code(f"/{command.name} {command.usage}".strip()), command.does)
        for command in COMMANDS
    ]
    return (
        f"{CONNECT}\n\n{render_table(('Ask', 'and you get'), rows)}\n\n"
        "Plain words do as well: *show me the first 20 lines of setup.cfg*, *where is main"
        " defined?*, *find TODO in src*, *how many lines of Python are there?*, *what changed?*,"
        " *and in src?*, *last 5 commits*, *how do I add a model?*, *run make test*. Several lines"
        " are answered one after another."
        " Before a command line is run, you are asked, unless a rule of yours decides."
    )


def explain_models() -> str:
    """Explain how a language model is added."""
    return """\
Add one on the page **Settings → Models** (*Add a model*), or in `config/models.yml`, which is in
force as soon as it is saved:

```yaml
default: sonnet
suppliers:
  anthropic: {dialect: anthropic, url: "https://api.anthropic.com", key: "env:ANTHROPIC_API_KEY"}
models:
  - {name: sonnet, engine: native, model: claude-sonnet-4-5, supplier: anthropic}
  - {name: claude, engine: claude-code}
```

`native` is agentd's own agent: it needs a supplier. `claude-code` and `codex` are programs of this
machine, which use their own sign-in where no supplier is named. A chat uses the `default` unless it
names another model. `agentd check` tells what is wrong with the file; `config/README.md` has every
field."""


def explain_refusal(request: DeclinedRequest) -> str:
    """Explain why a request is declined."""
    if request.what == "run":
        command = request.text.strip("$! ") or "COMMAND"
        return (
            f"I did not run {render_code(request.text)}: I run a command line only when asked with"
            f" {render_code(f'/run {command}')}. `/help` lists what I can do."
        )
    return (
        f"I did not do that ({render_code(request.text)}): changing files takes a language model,"
        " and I am the offline engine: I read, and run commands given to `/run`. `/help` lists"
        " what I can do, and how to connect a model."
    )


def explain_not_understood(request: NotUnderstood) -> str:
    """Explain what was not understood, and list what is supported."""
    hint = f" Did you mean {render_code(request.hint)}?" if request.hint else ""
    return f"I did not understand {render_code(request.text)}.{hint}\n\n{render_help()}"
