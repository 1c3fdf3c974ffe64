"""Reader records as Polars frames with a declared schema. Instants become Datetime[us, UTC] columns without touching each one."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Any

import msgspec
import polars as pl

from subconscious_pipeline.readers.base import EmailRecord, EventRecord, MessageRecord, ReadError

_TEXT = pl.String()
_LIST = pl.List(pl.String())
_FLAG = pl.Boolean()
_MICROS = pl.Int64()
INSTANT = pl.Datetime("us", "UTC")

SCHEMAS: dict[type[msgspec.Struct], dict[str, pl.DataType]] = {
    MessageRecord: dict.fromkeys(
        ("source_ref", "text", "native_id", "thread_id", "author", "author_id", "kind", "tz_source", "title", "source_type"), _TEXT
    )
    | {"is_bot": _FLAG, "sent_at": _MICROS, "edited_at": _MICROS, "end_at": _MICROS},
    EmailRecord: dict.fromkeys(
        ("source_ref", "date_source", "from_name", "from_addr", "subject", "body_full", "body_new", "kind"), _TEXT
    )
    | {"sent_at": _MICROS, "to": _LIST, "references": _LIST, "labels": _LIST},
    EventRecord: dict.fromkeys(
        (
            "source_ref", "series", "summary", "description", "location", "organizer", "tz_name", "tz_source", "rrule", "status",
            "start_date", "end_date",
        ),
        _TEXT,
    )
    | {"start_at": _MICROS, "end_at": _MICROS, "changed_at": _MICROS, "attendees": _LIST, "all_day": _FLAG},
    ReadError: dict.fromkeys(("locator", "code", "message", "excerpt"), _TEXT) | {"warning": _FLAG},
}  # fmt: skip


def frame(kind: type[msgspec.Struct], records: Sequence[Any]) -> pl.DataFrame:
    """A frame of records of one struct type, columns named as its fields, microsecond fields as UTC instants."""
    schema = SCHEMAS[kind]
    columns = {name: pl.Series(name, list(map(attrgetter(name), records)), dtype=schema[name], strict=True) for name in kind.__struct_fields__}
    made = pl.DataFrame(columns)
    return made.with_columns(pl.col(name).cast(INSTANT) for name, dtype in schema.items() if dtype == _MICROS)
