"""Prompts that an agent takes for one of its commands, though it has none of that name. Pure."""

from agentd.agent.engines.external.json_rpc import get_text, iter_list

NO_COMMAND = "[This is a message and no command:]"


class CommandCheck:
    """Notices that an agent dropped a prompt as an unknown command.

    opencode ends the turn at once without a word, with every prompt that begins with a ``/``, such
    as the path of a file.
    """

    def __init__(self) -> None:
        self._known: set[str] | None = None
        """The commands that the agent has announced; None: it announces none."""
        self._words = ""

    def on_update(self, update: object) -> None:
        """Note the commands of the agent."""
        if get_text(update, "sessionUpdate") == "available_commands_update":
            self._known = {get_text(one, "name") for one in iter_list(update, "availableCommands")}

    def begin(self, words: str) -> str:
        """Note the prompt that is sent; return it."""
        self._words = words
        return words

    def note_work(self) -> None:
        """Note that the agent did something with the prompt."""
        self._words = ""

    def rephrase(self) -> str:
        """Return the words for another try, at the end of the prompt; empty: it was understood."""
        words, self._words = self._words.strip(), ""
        name, *_ = words[1:].split() or [""]
        dropped = words.startswith("/") and self._known is not None and name not in self._known
        return f"{NO_COMMAND}\n\n{words}" if dropped else ""
