"""Requests that the offline engine understands: tool uses, or one of these."""

from typing import Literal, TypeAlias

from msgspec import Struct

from agentd.agent.tools.model import (
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
    """A request for the possible requests, and for the engine that answers."""


class ExplainModels(Struct, frozen=True):
    """A request for how a language model is added."""


class Describe(Struct, frozen=True):
    """A request to describe this folder: its README, size, entries and branch."""

    path: str = ANYWHERE


class Define(Struct, frozen=True):
    """A request for the definition of a function, class or variable."""

    word: str
    path: str = ANYWHERE


class Count(Struct, frozen=True):
    """A request to count something."""

    what: Literal["files", "lines", "words"]
    files: CountFiles = CountFiles()


class DescribeChanges(Struct, frozen=True):
    """Uncommitted changes: the files, and the diff when it is short."""

    path: str = ANYWHERE


class DeclinedRequest(Struct, frozen=True):
    """Something that this engine does not do: run prose, or change files."""

    what: Literal["run", "change"]
    text: str


class NotUnderstood(Struct, frozen=True):
    """A prompt that was not understood; ``hint`` is the nearest known request, if there is one."""

    text: str
    hint: str = ""


Request: TypeAlias = (
    Help
    | ExplainModels
    | Describe
    | Define
    | Count
    | DescribeChanges
    | DeclinedRequest
    | NotUnderstood
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
