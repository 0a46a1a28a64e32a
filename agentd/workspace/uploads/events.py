"""The events of uploads."""

from typing import ClassVar

from agentd.core.events import Event
from agentd.workspace.uploads.rules import Upload
from agentd.workspace.views import FilesChangeView, make_file_view


class FilesUpdate(Event, frozen=True):
    """Files are new in the upload folder, or gone from it: ``{added, removed}``."""

    name: ClassVar[str] = "filesUpdate"
    added: tuple[Upload, ...]
    removed: tuple[str, ...]
    """Their names."""

    def build_arguments(self, run: str) -> list[object]:
        """Return its arguments on the wire."""
        return [FilesChangeView([make_file_view(one) for one in self.added], list(self.removed))]
