"""Places that no agent reads or writes unasked, wherever its workspace lies. Pure.

A workspace is the agent's to work in, and it may still hold what is not: agentd's own files (a
checkout, the person's home), secrets, and what makes programs of the person run something. All
engines ask this one rule about each path, before the chat's mode and whatever it says.

Most such places may be opened by a person's leave. Two may not: the state folder, where an
approved change would make keys, sign people in or rewrite what happened, and what git keeps for
itself, which git commands change (they are asked for as commands).

``.vscode``, ``.claude`` and their like are here because editors and coding agents run what they
name (tasks, hooks, servers of tools) without asking anybody; a source file or a ``Makefile`` is
not, since it runs only when somebody builds or tests.
"""

from msgspec import Struct

CONFIG_FILES = frozenset(
    (
        *("agentd.yml", "models.yml", "channels.yml", "proxy.yml", "secret-rules.yml"),
        *("skills.yml", "labels.yml", "users.yml", "bots.yml", "builds.yml", "deployments.yml"),
        *("speech.yml", "licence.key", "licence-issuer.pub", "licence-issuer.key"),
    )
)
"""Files of the configuration folder, for a workspace that lies in that folder or is it."""

SKILLS = "skills"
"""The folder of the configuration that agents are told to read."""

_SECRET_FILES = frozenset(
    ("agentd.env", ".envrc", ".netrc", "_netrc", ".git-credentials", ".pgpass", ".pypirc")
)
_PLAIN_SECRETS = ("agentd.env", "_netrc")
"""Those whose name begins with no dot; in lower case only, unlike the others."""
_EXAMPLES = (".example", ".sample", ".template", ".dist", ".defaults")
"""Ends of ``.env.example`` and the like, which are made to be read and committed."""

_RUN_BY_TOOLS = frozenset(
    (
        *(".vscode", ".idea", ".husky", ".devcontainer", ".claude", ".codex", ".opencode"),
        *(".gemini", ".cursor", ".mcp.json", "opencode.json", "opencode.jsonc"),
    )
)

_SECRETS_AT_HOME = (
    *(".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker", ".password-store", ".vault-token"),
    *(".config/gcloud", ".config/gh", ".config/hub", ".config/op", ".config/rclone"),
    *(".config/agentd", ".local/state/agentd", ".local/share/keyrings", ".terraform.d"),
    *(".npmrc", ".yarnrc.yml", ".m2", ".gem/credentials", ".cargo/credentials.toml"),
    *(".cargo/credentials", ".my.cnf", ".s3cfg", ".boto", ".bash_history", ".zsh_history"),
    *(".codex/auth.json", ".claude.json", ".claude/.credentials.json", ".mozilla"),
    *(".local/share/opencode/auth.json", ".gemini/oauth_creds.json", ".thunderbird"),
    *(".config/google-chrome", ".config/chromium", ".config/git/credentials"),
)
"""Below the home: keys, tokens and sign-ins. Neither read nor written unasked."""

_RUN_AT_HOME = (
    *("bin", ".local/bin", ".local/share/applications", ".local/share/systemd"),
    *(".config/autostart", ".config/environment.d", ".config/fish", ".config/git"),
    *(".config/systemd",),
)
"""Below the home: what a shell, the desktop or the service manager runs. Not written unasked."""

_HARMLESS_AT_HOME = frozenset((".cache",))
"""Hidden folders of the home that may be written: what is in there is made anew."""

_SYSTEM = ("/etc", "/var/spool/cron")

_GIT = ".git"
_GIT_SECRETS = frozenset(("config", "config.worktree", "credentials"))


class Protection(Struct, frozen=True):
    """Why a place is protected, as a sentence for a person and an agent."""

    why: str
    refused: bool = False
    """Nobody may allow it, either."""


_STATE = Protection(
    "This is in agentd's state folder, which stays closed to agents: it decides who may command"
    " agentd.",
    refused=True,
)
_CONFIG = Protection("This is agentd's own configuration: it says what agents and keys may do.")
_GIT_ITSELF = Protection(
    "This belongs to git itself: hooks and settings in there run programs. Use git commands.",
    refused=True,
)
_GIT_CONFIG = Protection("Settings of git may hold passwords.")
_SECRETS = Protection("Files of this name hold passwords and keys.")
_TOOLS = Protection("Editors and coding agents run what is set here without asking.")
_HOME_SECRETS = Protection("This place in the home folder holds keys, passwords or sign-ins.")
_HOME_HIDDEN = Protection("Hidden files of the home folder are settings, which start programs.")
_HOME_PROGRAMS = Protection("What is in this folder is run by the shell, the desktop or git.")
_SYSTEM_FILES = Protection("This is a part of the system, not of a project.")
_HOLDS_MORE = Protection(
    "agentd's own files, or the keys of the home folder, are in this folder: name what is meant."
)


class ProtectedPlaces(Struct, frozen=True):
    """The rule for one daemon. All paths are absolute, with every link resolved."""

    state: str = ""
    """The state folder; empty: none, as with all that follow."""
    config: str = ""
    """The folder of the configuration."""
    files: tuple[str, ...] = ()
    """Single files of the configuration that are elsewhere."""
    home: str = ""

    def reading(self, path: str, workspace: str) -> Protection | None:
        """Why this file is not read unasked by an agent that works in ``workspace``."""
        if found := self._ours(path, workspace, writing=False):
            return found
        if "/." not in path and not path.endswith(_PLAIN_SECRETS):
            return None  # most paths, and a search asks for each of them
        *folders, name = _steps(path, workspace)
        if _is_secret_name(name):
            return _SECRETS
        if _GIT in folders and name in _GIT_SECRETS:
            return _GIT_CONFIG
        return self._at_home(path, workspace, writing=False)

    def writing(self, path: str, workspace: str) -> Protection | None:
        """Why this file is not made, changed or deleted unasked."""
        if found := self._ours(path, workspace, writing=True):
            return found
        *folders, name = _steps(path, workspace)
        if name == _GIT or any(step.endswith(_GIT) for step in folders):
            return _GIT_ITSELF
        if _is_secret_name(name):
            return _SECRETS
        if not _RUN_BY_TOOLS.isdisjoint((*folders, name)):
            return _TOOLS
        if any(is_beneath(path, place) for place in _SYSTEM) and not is_beneath(path, workspace):
            return _SYSTEM_FILES
        return self._at_home(path, workspace, writing=True)

    def holding(self, folder: str) -> Protection | None:
        """Why a folder as a whole is not searched, moved or deleted unasked."""
        inner = filter(None, (self.state, self.config, self.home, *self.files))
        return _HOLDS_MORE if any(is_beneath(place, folder) for place in inner) else None

    def _ours(self, path: str, workspace: str, *, writing: bool) -> Protection | None:
        if self.state and is_beneath(path, self.state):
            return _STATE
        if path in self.files:
            return _CONFIG
        if not self.config or not is_beneath(path, self.config):
            return None
        steps = _steps(path, self.config)
        if not is_beneath(workspace, self.config):
            readable = steps[0] == SKILLS and not writing
        else:  # all that the agent works on is in there: only what agentd itself reads is ours
            readable = steps[0] not in CONFIG_FILES and (steps[0] != SKILLS or not writing)
        return None if readable else _CONFIG

    def _at_home(self, path: str, workspace: str, *, writing: bool) -> Protection | None:
        if not self.home or not is_beneath(path, self.home):
            return None
        if any(is_beneath(path, f"{self.home}/{place}") for place in _SECRETS_AT_HOME):
            return _HOME_SECRETS
        run = (f"{self.home}/{place}" for place in _RUN_AT_HOME) if writing else ()
        if any(is_beneath(path, one) and not is_beneath(workspace, one) for one in run):
            return _HOME_PROGRAMS
        first = _steps(path, self.home)[0]
        if not first.startswith(".") or first in _HARMLESS_AT_HOME:
            return None
        inside = is_beneath(path, workspace)
        if inside and is_beneath(workspace, f"{self.home}/{first}"):
            return None  # a project in a hidden folder
        return _HOME_HIDDEN if writing or inside else None


def is_beneath(path: str, folder: str) -> bool:
    """Tell whether a path is a folder, or lies in it."""
    return path == folder or path.startswith(folder if folder == "/" else f"{folder}/")


def why_no_workspace(workspace: str, state: str) -> str:
    """Why an agent cannot be given this folder to work in; empty when it can."""
    if workspace == "/":
        return "the workspace is /, the whole system; name the folder of a project"
    if is_beneath(workspace, state):
        return "the workspace lies in the state folder, which agents may not touch; name another"
    return ""


def why_risky_workspace(workspace: str, home: str) -> str:
    """What to warn of, for a folder that holds more than a project; empty for a usual one."""
    if not home or not is_beneath(home, workspace):
        return ""
    return (
        f"the workspace {workspace} holds the whole home folder: agents read and write its files"
        " unasked, but for hidden ones; name the folder of a project (--workspace)"
    )


def _steps(path: str, folder: str) -> list[str]:
    """The steps to a path in lower case: from ``folder`` when it is in there, else from ``/``."""
    inside = path.removeprefix(folder) if is_beneath(path, folder) else path
    return inside.strip("/").lower().split("/")


def _is_secret_name(name: str) -> bool:
    if name in _SECRET_FILES or name == ".env":
        return True
    return name.startswith(".env.") and not name.endswith(_EXAMPLES)
