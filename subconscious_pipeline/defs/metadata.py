"""What the UI shows: tables and numbers about rows, never the rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import dagster as dg

from subconscious_pipeline.publish.snapshot import Snapshot
from subconscious_pipeline.warehouse.ingest import FileReport

_COLUMN_TYPES = {int: "int", float: "float", str: "string", bool: "bool"}


def table(rows: Iterable[Mapping[str, Any]], limit: int = 200) -> dg.TableMetadataValue:
    """Rows as a metadata table (the first `limit`)."""
    records = [dg.TableRecord(dict(row)) for row, _ in zip(rows, range(limit), strict=False)]
    if not records:
        return dg.MetadataValue.table(records=[], schema=dg.TableSchema(columns=[dg.TableColumn("nothing", "string")]))
    return dg.MetadataValue.table(records=records)


def columns(**types: str) -> dict[str, dg.TableSchema]:
    """The `dagster/column_schema` entry of an asset."""
    return {"dagster/column_schema": dg.TableSchema(columns=[dg.TableColumn(name, kind) for name, kind in types.items()])}


def files_table(files: Iterable[FileReport]) -> dg.TableMetadataValue:
    """One row a file: reader, records, quarantined items."""
    return table(
        {"source": file.source_id, "path": file.path, "reader": file.reader, "records": file.records, "errors": file.lost}
        for file in files
        if not file.skipped
    )


def errors_table(files: Iterable[FileReport]) -> dg.TableMetadataValue:
    """One row a quarantined item or warning: place and reason, no excerpt."""
    return table(
        {"path": file.path, "place": error.locator, "code": error.code, "message": error.message, "warning": error.warning}
        for file in files
        for error in file.errors
    )


_TIER_MARKS = {"IDENTITY_CORE": "◆", "ACTIVE_CONTEXT": "█", "LONG_TERM": "▓", "ARCHIVE": "░"}
_PICTURE_WIDTH = 60


def salience_picture(distribution: Iterable[tuple[float, str, int]]) -> str:
    """A bar chart of scores by tier, as Markdown: ten bars, one mark a tier."""
    bars: dict[float, dict[str, int]] = {edge / 10: {} for edge in range(9, -1, -1)}
    for edge, tier, count in distribution:
        bars[round(edge, 1)][tier] = count
    largest = max((sum(tiers.values()) for tiers in bars.values()), default=0) or 1
    lines = []
    for edge, tiers in bars.items():
        drawn = "".join(mark * -(-tiers.get(tier, 0) * _PICTURE_WIDTH // largest) for tier, mark in _TIER_MARKS.items())
        lines.append(f"{edge:.1f} {drawn} {sum(tiers.values()) or ''}".rstrip())
    legend = "  ".join(f"{mark} {tier}" for tier, mark in _TIER_MARKS.items())
    return "\n".join(["```", *lines, "", legend, "```"])


def snapshot_preview(snapshot: Snapshot) -> str:
    """The snapshot as Markdown: the list agents carry, then the concepts behind it."""
    words: dict[int, list[str]] = {}
    for keyword in snapshot.keywords:
        words.setdefault(keyword.concept_id, []).append(keyword.word)
    pointers: dict[int, int] = {}
    for pointer in snapshot.sources:
        pointers[pointer.concept_id] = pointers.get(pointer.concept_id, 0) + 1
    listed = set(snapshot.words)
    lines = [
        f"**{len(snapshot.words)} words, {snapshot.tokens} tokens, {snapshot.status}**, complete up to {snapshot.watermark:%Y-%m-%d %H:%M} UTC",
        "",
        "> " + (", ".join(snapshot.words) or "(nothing at the moment)"),
        "",
        "| concept | tier | score | expires | pointers | words (published in bold) |",
        "|---|---|---|---|---|---|",
    ]
    for concept in sorted(snapshot.concepts, key=lambda c: (-c.score, c.id))[:50]:
        shown = ", ".join(f"**{word}**" if word in listed else word for word in words.get(concept.id, []))
        lines.append(f"| {concept.id} | {concept.tier} | {concept.score:.2f} | {concept.expires} | {pointers.get(concept.id, 0)} | {shown} |")
    return "\n".join([*lines, *(f"\n- {reason}" for reason in snapshot.reasons)])
