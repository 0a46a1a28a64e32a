"""What may be asked of the offline engine: some tool's work, or one of these."""

from typing import Literal, TypeAlias

from msgspec import Struct

from agentd.agent.tools import (
    ANYWHERE,
    CountFiles,
    FindFiles,
    GitDiff,
    GitLog,
    GitStatus,
    ListFiles,
    OutlineFile,
    ReadFile,
    RunCommand,
    SearchText,
)


class Help(Struct, frozen=True):
    """What can be asked, and who answers."""


class Describe(Struct, frozen=True):
    """What this folder is: its README, its size, its entries, its branch."""

    path: str = ANYWHERE


class Define(Struct, frozen=True):
    """Where a function, class or variable is defined."""

    word: str
    path: str = ANYWHERE


class Count(Struct, frozen=True):
    """How many of something there are."""

    what: Literal["files", "lines", "words"]
    files: CountFiles = CountFiles()


class Changed(Struct, frozen=True):
    """What is changed and not committed: the files, and the difference when it is short."""

    path: str = ANYWHERE


class Refused(Struct, frozen=True):
    """Something that this engine does not do: run what is told in words, or change the folder."""

    what: Literal["run", "change"]
    text: str


class Unknown(Struct, frozen=True):
    """Not understood. ``hint`` is the nearest thing that is, when there is one."""

    text: str
    hint: str = ""


Request: TypeAlias = (
    Help
    | Describe
    | Define
    | Count
    | Changed
    | Refused
    | Unknown
    | ListFiles
    | FindFiles
    | ReadFile
    | SearchText
    | OutlineFile
    | GitStatus
    | GitLog
    | GitDiff
    | RunCommand
)
