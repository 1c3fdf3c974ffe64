"""Options that many commands share."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated

import typer

from subconscious_pipeline.errors import ConfigError
from subconscious_pipeline.home import resolve_home
from subconscious_pipeline.instants import parse_instant

HomeOption = Annotated[
    Path | None, typer.Option("--home", metavar="DIR", help="Home directory. Default: SUBCONSCIOUS_HOME, else this platform's.", show_default=False)
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON. A failure is printed as an object with the key `error`, too.")]

AsOfOption = Annotated[
    str | None,
    typer.Option("--as-of", metavar="TIME", help="Look from this instant instead of now, as for a home with old data.", show_default=False),
]


def now(as_of: str | None, home: Path | None) -> datetime:
    """The instant of `--as-of`, else the real clock's; aware UTC.

    Raises:
        typer.BadParameter: as `instant`.
    """
    return instant(as_of, "--as-of") or resolve_home(home).now()


def instant(text: str | None, option: str, last: bool = False) -> datetime | None:
    """The aware UTC instant that an option names; a date alone is its first moment, or its last when `last`.

    Raises:
        typer.BadParameter: naming the option.
    """
    if text is None:
        return None
    try:
        at = parse_instant(text)
    except ConfigError as error:
        raise typer.BadParameter(str(error), param_hint=option) from None
    return at + timedelta(days=1, microseconds=-1) if last and len(text.strip()) == 10 else at
