"""The exceptions a caller can catch. Messages name the thing, the place and the next step, and never quote message content."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class SubconsciousError(Exception):
    """Base of everything this package raises on purpose; its text is fit to be shown to a person."""


class ConfigError(SubconsciousError):
    """A setting, a sources.yaml or a home cannot be used as it is."""


class SourceError(SubconsciousError):
    """A source file cannot be read at all (single bad items are quarantined instead).

    Args:
        path: the file, as the user knows it.
        code: a short fixed identifier, such as ``"empty_file"`` or ``"ambiguous_date_order"``.
        message: what is wrong and what to do next.
        locator: the place inside the file (line, index, member), if one is known.
    """

    def __init__(self, path: Path | str, code: str, message: str, locator: str = "file") -> None:
        self.path = str(path)
        self.code = code
        self.locator = locator
        self.message = message
        super().__init__(f"{self.path} ({locator}): {message}")


class StoreError(SubconsciousError):
    """A database is damaged, of an unknown version, or breaks an invariant."""


class StoreLocked(StoreError):
    """Another process holds a database and did not let go within the waiting time."""


class ExtractionError(SubconsciousError):
    """A model could not be asked at all (missing file, unknown provider). Failed windows are results, not exceptions."""


class InternalError(SubconsciousError):
    """A defect of this program. Says where, never what: messages of foreign exceptions may quote content."""


@contextmanager
def without_content() -> Iterator[None]:
    """Let our own exceptions pass; replace any other by an InternalError that names its type and place only."""
    try:
        yield
    except SubconsciousError:
        raise
    except Exception as error:  # noqa: BLE001 - whatever it is, its message must not get out
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "subconscious_pipeline" in frame.filename]
        place = f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else "an unknown place"
        raise InternalError(f"{type(error).__name__} at {place}; please report this with these two names") from None
