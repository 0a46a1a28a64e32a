"""Paths that agents may not read or write without approval, in any workspace. Pure.

A workspace may contain agentd's own files (a checkout, the person's home), secrets, and files that
make the person's programs run something. All engines apply this one rule to each path, before and
regardless of the chat's approval mode.

A person may approve access to most such paths. Two are always refused: the state folder, where a
change could create keys, sign people in or rewrite history, and git's own folder, which only git
commands change (they are approved as commands).

``.vscode``, ``.claude`` and the like are protected because editors and coding agents run what they
name (tasks, hooks, tool servers) without asking; a source file or a ``Makefile`` is not, because it
runs only when somebody builds or tests.
"""

from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from typing import Protocol

from msgspec import Struct, structs

CONFIG_FILES = frozenset(
    (
        *(
            "agentd.yml",
            "models.yml",
            "channels.yml",
            "budgets.yml",
            "proxy.yml",
            "secret-rules.yml",
        ),
        *("skills.yml", "labels.yml", "users.yml", "bots.yml", "builds.yml", "deployments.yml"),
        *("speech.yml", "alerts.yml", "mcp.yml", "hooks.yml", "schedules.yml"),
        *("licence.key", "licence-issuer.pub", "licence-issuer.key"),
    )
)
"""Protected files of the configuration folder when the workspace lies in that folder."""

WORKTREES = "worktrees"
"""The folder of the state that chats' git work trees are in: each is open to its own chat."""

SKILLS = "skills"
"""The folder of the configuration with the skills."""

READABLE_FOLDERS = frozenset((SKILLS, "commands"))
"""The folders of the configuration that agents should read."""

_SECRET_FILES = frozenset(
    ("agentd.env", ".envrc", ".netrc", "_netrc", ".git-credentials", ".pgpass", ".pypirc")
)
_PLAIN_SECRETS = ("agentd.env", "_netrc")
"""Secret file names without a leading dot; in lower case only, unlike the others."""
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
"""Below the home folder: keys, tokens and credentials. Reading and writing need approval."""

_RUN_AT_HOME = (
    *("bin", ".local/bin", ".local/share/applications", ".local/share/systemd"),
    *(".config/autostart", ".config/environment.d", ".config/fish", ".config/git"),
    *(".config/systemd",),
)
"""Below the home folder: run by a shell, desktop or service manager. Writing needs approval."""

_HARMLESS_AT_HOME = frozenset((".cache",))
"""Hidden folders of the home folder that may be written: their content is regenerated."""

_SYSTEM = ("/etc", "/var/spool/cron")

_MAX_NAME = 255
"""Longest possible file name; a longer part of a pattern is not treated as a glob."""

_GIT = ".git"
_GIT_SECRETS = frozenset(("config", "config.worktree", "credentials"))


class Protection(Struct, frozen=True):
    """Why a path is protected, as a sentence for people and agents."""

    why: str
    refused: bool = False
    """True if no approval is possible."""


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


class FileSet(Protocol):
    """Absolute paths of files."""

    def __contains__(self, path: object, /) -> bool:
        """Return whether a file is among them."""
        ...

    def __iter__(self) -> Iterator[str]:
        """Yield their paths."""
        ...


class ProtectedFiles:
    """Files that settings name; ``paths`` is replaced when the settings name others."""

    def __init__(self, paths: Iterable[str] = ()) -> None:
        self.paths = tuple(paths)

    def __contains__(self, path: object, /) -> bool:
        """Return whether a file is among them."""
        return path in self.paths

    def __iter__(self) -> Iterator[str]:
        """Yield their paths."""
        return iter(self.paths)


class _FilesWithCopies:
    """Files, and the copies in ``folder`` of those in ``workspace``."""

    def __init__(self, files: FileSet, workspace: str, folder: str) -> None:
        self._files = files
        self._workspace = workspace
        self._folder = folder

    def __contains__(self, path: object, /) -> bool:
        if path in self._files:
            return True
        if not isinstance(path, str) or not is_beneath(path, self._folder):
            return False
        return f"{self._workspace}{path[len(self._folder) :]}" in self._files

    def __iter__(self) -> Iterator[str]:
        for path in self._files:
            yield path
            if copy := _find_copy(path, self._workspace, self._folder):
                yield copy


class ProtectedPlaces(Struct, frozen=True):
    """The protected paths of one daemon. All paths are absolute, with links resolved."""

    state: str = ""
    """The state folder; empty for none, as with all fields below."""
    config: str = ""
    """The configuration folder."""
    files: FileSet = ()
    """Configuration files outside of that folder."""
    home: str = ""
    config_copy: str = ""
    """What the configuration folder is in a chat's work tree: merged, it becomes the real one."""

    def cover_worktree(self, folder: str, workspace: str) -> "ProtectedPlaces":
        """Return these places for a chat that works in ``folder``, its copy of the workspace."""
        files = _FilesWithCopies(self.files, workspace, folder)
        copy = _find_copy(self.config, workspace, folder)
        return structs.replace(self, files=files, config_copy=copy)

    def check_reading(self, path: str, workspace: str) -> Protection | None:
        """Return the protection of a file against reading by an agent in ``workspace``, if any."""
        if found := self._check_own_files(path, workspace, writing=False):
            return found
        if "/." not in path and not path.endswith(_PLAIN_SECRETS):
            return None  # fast path: a search checks every file
        *folders, name = _split_path(path, workspace)
        if _is_secret_name(name):
            return _SECRETS
        if _GIT in folders and name in _GIT_SECRETS:
            return _GIT_CONFIG
        return self._check_home(path, workspace, writing=False)

    def check_writing(self, path: str, workspace: str) -> Protection | None:
        """Return the protection of a file against creation, change and deletion, if any."""
        if found := self._check_own_files(path, workspace, writing=True):
            return found
        *folders, name = _split_path(path, workspace)
        if name == _GIT or any(step.endswith(_GIT) for step in folders):
            return _GIT_ITSELF
        if _is_secret_name(name):
            return _SECRETS
        if not _RUN_BY_TOOLS.isdisjoint((*folders, name)):
            return _TOOLS
        if any(is_beneath(path, place) for place in _SYSTEM) and not is_beneath(path, workspace):
            return _SYSTEM_FILES
        return self._check_home(path, workspace, writing=True)

    def is_skill_file(self, path: str) -> bool:
        """Return whether this is a file of a skill, or its folder: agents may read it unasked."""
        return bool(self.config) and is_beneath(path, f"{self.config}/{SKILLS}")

    def check_folder(self, folder: str) -> Protection | None:
        """Return a folder's protection against searching, moving and deletion, if any."""
        inner = filter(None, (self.state, self.config, self.home, *self.files))
        return _HOLDS_MORE if any(is_beneath(place, folder) for place in inner) else None

    def iter_matching(self, pattern: str) -> Iterator[str]:
        """Yield the protected paths that a shell pattern, an absolute path, may match.

        Names such as ``.env`` count only where a letter follows the dot: ``.*`` is mostly a
        regular expression for text.
        """
        steps = pattern.split("/")
        folder = "/".join(steps[:-1])
        places = filter(None, (self.state, self.config, *self.files))
        secrets = [f"{self.home}/{one}" for one in _SECRETS_AT_HOME] if self.home else []
        names = (".env", ".env.local", *_SECRET_FILES, "config") if steps[-1][1:2].isalpha() else ()
        for place in (*places, *secrets, *(f"{folder}/{one}" for one in names)):
            wanted = place.split("/")
            if len(wanted) <= len(steps) and all(map(_matches_step, wanted, steps)):
                yield "/".join((place, *steps[len(wanted) :]))

    def _check_own_files(self, path: str, workspace: str, *, writing: bool) -> Protection | None:
        in_state = bool(self.state) and is_beneath(path, self.state)
        if in_state and not self._is_in_own_worktree(path, workspace):
            return _STATE
        if path in self.files:
            return _CONFIG
        for config in filter(None, (self.config, self.config_copy)):
            if is_beneath(path, config):
                return _check_config(path, workspace, config, writing=writing)
        return None

    def _is_in_own_worktree(self, path: str, workspace: str) -> bool:
        """Return whether a path is in the work tree that the workspace is in."""
        trees = f"{self.state}/{WORKTREES}/"
        if not self.state or not workspace.startswith(trees):
            return False
        name = workspace.removeprefix(trees).partition("/")[0]
        return is_beneath(path, f"{trees}{name}")

    def _check_home(self, path: str, workspace: str, *, writing: bool) -> Protection | None:
        at_home = bool(self.home) and is_beneath(path, self.home)
        if not at_home or self._is_in_own_worktree(path, workspace):
            return None
        if any(is_beneath(path, f"{self.home}/{place}") for place in _SECRETS_AT_HOME):
            return _HOME_SECRETS
        run = (f"{self.home}/{place}" for place in _RUN_AT_HOME) if writing else ()
        if any(is_beneath(path, one) and not is_beneath(workspace, one) for one in run):
            return _HOME_PROGRAMS
        first = _split_path(path, self.home)[0]
        if not first.startswith(".") or first in _HARMLESS_AT_HOME:
            return None
        inside = is_beneath(path, workspace)
        if inside and is_beneath(workspace, f"{self.home}/{first}"):
            return None  # a project in a hidden folder
        return _HOME_HIDDEN if writing or inside else None


def _find_copy(path: str, workspace: str, folder: str) -> str:
    """Return what a path in the workspace is in a copy of it; empty for any other path."""
    return folder + path[len(workspace) :] if is_beneath(path, workspace) else ""


def is_beneath(path: str, folder: str) -> bool:
    """Return whether a path is this folder or lies below it."""
    return path == folder or path.startswith(folder if folder == "/" else f"{folder}/")


def explain_unusable_workspace(workspace: str, state: str) -> str:
    """Explain why a folder cannot be a workspace; empty if it can."""
    if workspace == "/":
        return "the workspace is /, the whole system; name the folder of a project"
    if is_beneath(workspace, state):
        return "the workspace lies in the state folder, which agents may not touch; name another"
    return ""


def explain_risky_workspace(workspace: str, home: str) -> str:
    """Return a warning for a workspace that contains the home folder; empty for others."""
    if not home or not is_beneath(home, workspace):
        return ""
    return (
        f"the workspace {workspace} holds the whole home folder: agents read and write its files"
        " unasked, but for hidden ones; name the folder of a project (--workspace)"
    )


def _check_config(path: str, workspace: str, config: str, *, writing: bool) -> Protection | None:
    steps = _split_path(path, config)
    if not is_beneath(workspace, config):
        readable = steps[0] in READABLE_FOLDERS and not writing
    else:  # the workspace is in there: protect only what agentd itself reads
        own = CONFIG_FILES | READABLE_FOLDERS if writing else CONFIG_FILES
        readable = steps[0] not in own
    return None if readable else _CONFIG


def _matches_step(name: str, pattern: str) -> bool:
    """Return whether a glob matches a name; a leading dot must be matched explicitly."""
    if name == pattern or len(pattern) > _MAX_NAME:
        return name == pattern
    hidden = name.startswith(".") and not pattern.startswith(".")
    return not hidden and fnmatchcase(name.lower(), pattern.lower())


def _split_path(path: str, folder: str) -> list[str]:
    """Return a path's components in lower case, relative to ``folder`` or, outside, to ``/``."""
    inside = path.removeprefix(folder) if is_beneath(path, folder) else path
    return inside.strip("/").lower().split("/")


def _is_secret_name(name: str) -> bool:
    if name in _SECRET_FILES or name == ".env":
        return True
    return name.startswith(".env.") and not name.endswith(_EXAMPLES)
