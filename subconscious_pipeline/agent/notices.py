"""How notifications are printed: for people, and as JSON."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Any

from subconscious_pipeline.agent import show
from subconscious_pipeline.agent.client import command
from subconscious_pipeline.caretaker.commands import SESSION_SOURCE
from subconscious_pipeline.caretaker.events import BreakNotification, Recollection, SessionAuditPrompt
from subconscious_pipeline.caretaker.notifications import Notice
from subconscious_pipeline.home import Home
from subconscious_pipeline.instants import iso_z

SHOWN_POINTERS = 2  # of one concept
_TITLES = {"BreakNotification": "time for a break", "SessionAuditPrompt": "before the session closes", "Recollection": "recollection"}


def as_json(notice: Notice) -> dict[str, Any]:
    """One entry of `notifications` of `subconscious notifications --json`, and one line of `--follow --json`."""
    return {
        "id": notice.id, "at": iso_z(notice.at), "kind": notice.kind, "session_id": notice.session_id,
        "acknowledged": notice.acknowledged, "content": notice.content.model_dump(mode="json"),
    }  # fmt: skip


def show_all(notices: Sequence[Notice], home: Home) -> None:
    """Print a list of notifications."""
    if not notices:
        show.line("Nothing new.")
        return
    for notice in notices:
        show_notice(notice, home)
    show.line(show.style(f"Seen? {command(home, 'notifications')} {' '.join(f'--ack {notice.id}' for notice in notices)}", dim=True))


def show_notice(notice: Notice, home: Home) -> None:
    """Print one notification and an empty line."""
    seen = "  (seen)" if notice.acknowledged else ""
    show.line(
        f"{show.style(f'#{notice.id}', bold=True)}  {show.minute(notice.at)} UTC  {show.style(_TITLES[notice.kind], 'cyan', bold=True)}"
        f"  {notice.session_id}{seen}"
    )
    match notice.content:
        case BreakNotification() as nudge:
            show.paragraph(nudge.message, "    ")
        case SessionAuditPrompt() as prompt:
            for question in prompt.questions:
                show.line(f"    {question}")
            if prompt.unsaved_contexts:
                show.line(show.style(f"    {show.counted(prompt.unsaved_contexts, 'note')} of this session will be saved.", dim=True))
        case Recollection() as recollection:
            _show_recollection(recollection, home)
    show.line()


def _show_recollection(found: Recollection, home: Home) -> None:
    reach = f"down to depth {found.depth_reached}" if found.depth_reached >= 0 else "before it began"
    ending = "complete" if found.outcome.value == "completed" else f"ended early ({found.outcome.value.replace('_', ' ')})"
    show.line(f"    {show.counted(len(found.concepts), 'concept')}, {ending}, {reach}; request {found.request_id}")
    if not found.concepts:
        return
    rows = [
        [f"#{c.concept_id}", ", ".join(c.words), f"{c.score:.2f}", c.depth, c.tier.lower().replace("_", " "), len(c.pointers)] for c in found.concepts
    ]
    show.table(["concept", "words", "score", "depth", "tier", "pointers"], rows, right=["concept", "score", "depth", "pointers"])
    for concept in found.concepts:
        newest_first = sorted(concept.pointers, key=lambda p: p.time_end, reverse=True)
        for p in newest_first[:SHOWN_POINTERS]:
            if p.source_type == SESSION_SOURCE:
                show.line(
                    show.style(f"    #{concept.concept_id}  noted in session {show.safe(p.source_ref)}, {show.minute(p.time_start)} UTC", dim=True)
                )
                continue
            arguments = f"{shlex.quote(p.source_type)} {shlex.quote(show.safe(p.source_ref))} --from {iso_z(p.time_start)} --to {iso_z(p.time_end)}"
            show.line(show.style(f"    #{concept.concept_id}  {command(home, 'read')} {arguments}", dim=True))
        if len(newest_first) > SHOWN_POINTERS:
            more = show.counted(len(newest_first) - SHOWN_POINTERS, "more pointer")
            show.line(show.style(f"    #{concept.concept_id}  and {more}; --json shows all", dim=True))
