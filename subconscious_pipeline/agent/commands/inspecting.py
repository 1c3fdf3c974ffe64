"""`inspect`: look at a file before it is taken in."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from subconscious_pipeline.agent import show
from subconscious_pipeline.agent.options import HomeOption, JsonOption, now
from subconscious_pipeline.home import resolve_home

if TYPE_CHECKING:
    from subconscious_pipeline.agent.inspection import Inspection

SHOWN_RECORDS = 20
SHOWN_ERRORS = 20


def register(app: typer.Typer) -> None:
    """Add the command of this module."""
    app.command("inspect", rich_help_panel="The pipeline")(inspect)


def inspect(
    path: Annotated[Path, typer.Argument(metavar="PATH", help="A file or an export folder.", show_default=False)],
    timezone: Annotated[
        str | None, typer.Option(metavar="TZ", help="IANA zone of times that name none, such as Europe/Madrid.", show_default=False)
    ] = None,
    date_order: Annotated[
        Literal["dmy", "mdy", "ymd"] | None, typer.Option(help="Order of numeric dates that the file does not decide.", show_default=False)
    ] = None,
    reader: Annotated[
        str | None, typer.Option(metavar="NAME", help="Read it as this format instead of the one it looks like.", show_default=False)
    ] = None,
    home: HomeOption = None,
    json: JsonOption = False,
) -> None:
    """What a reader makes of a file: records, errors, the reader chosen. Nothing is stored."""
    from subconscious_pipeline.agent import inspection
    from subconscious_pipeline.errors import ConfigError
    from subconscious_pipeline.readers import registry
    from subconscious_pipeline.settings import load_settings

    try:
        if reader:
            registry.reader(reader)
    except ConfigError as error:
        raise typer.BadParameter(str(error), param_hint="--reader") from None
    settings = load_settings(timezone=timezone)
    file = inspection.source_file(resolve_home(home), settings, path, reader, timezone, date_order)
    found = inspection.inspect(file, settings, now(None, home))
    if json:
        show.as_json(found.as_json())
    else:
        _show(path, found)
    if found.unreadable:
        raise typer.Exit(1)


def _show(path: Path, found: Inspection) -> None:
    lost = sum(not error.warning for error in found.errors)
    title = f"{path}: {found.reader or 'no reader'}, {show.counted(len(found.records), 'record')}, {lost:,} set aside"
    show.line(show.style(title, bold=True))
    noisy = sum(bool(record["noise"]) for record in found.records)
    if noisy:
        reasons = ", ".join(f"{reason} {count}" for reason, count in found.noise.most_common())
        show.line(f"{show.counted(noisy, 'record')} would be noise: {reasons}")
    if found.records:
        _records(found.records[:SHOWN_RECORDS])
        if len(found.records) > SHOWN_RECORDS:
            show.line(f"… and {show.counted(len(found.records) - SHOWN_RECORDS, 'more record')}; --json prints all")
    if found.errors:
        errors = [["warning" if error.warning else "set aside", error.locator, error.code, error.message] for error in found.errors[:SHOWN_ERRORS]]
        show.table(["", "place", "code", "what"], errors)
        if len(found.errors) > SHOWN_ERRORS:
            show.line(f"… and {len(found.errors) - SHOWN_ERRORS:,} more; --json prints all")


def _records(records: tuple[dict[str, Any], ...]) -> None:
    rows = [
        [_at(record), _cut(record["source_ref"], 24), _author(record), record["kind"], _text(record), ", ".join(record["noise"])]
        for record in records
    ]
    columns = ["at (UTC)", "ref", "author", "kind", "text", "noise"]
    refs = {record["source_ref"] for record in records}
    if len(refs) in (1, len(records)):  # the ref says nothing that tells the rows apart, or is different in each
        columns, rows = [columns[0], *columns[2:]], [[row[0], *row[2:]] for row in rows]
        if len(refs) == 1:
            show.line(f"all in {show.safe(refs.pop())}")
    show.table(columns, rows, right=["at (UTC)"])


def _text(record: dict[str, Any]) -> str:
    subject = record.get("subject")
    return _cut(f"{subject}: {record['text']}" if subject else record["text"], 120)


def _at(record: dict[str, Any]) -> str:
    return str(record["at"] or "undated")[:19].replace("T", " ").removesuffix("Z")


def _author(record: dict[str, Any]) -> str:
    return _cut(str(record["author"] or "").partition(" <")[0], 20)


def _cut(text: str, characters: int) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= characters else flat[: characters - 1] + "…"
