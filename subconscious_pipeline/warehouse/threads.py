"""Which mails belong together: threads by references alone, independent of the order and the number of imports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import duckdb
import polars as pl


def thread_roots(parents: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """The thread of each mail: the root of its connected component of references, whatever the order of arrival.

    Args:
        parents: message id → ids it refers to, oldest first.

    Returns:
        message id → id of its thread: the one id of the component that refers to nothing; the smallest of them when there are several.
    """
    leader: dict[str, str] = {}

    def find(node: str) -> str:
        path = []
        while (up := leader.setdefault(node, node)) != node:
            path.append(node)
            node = up
        for passed in path:
            leader[passed] = node
        return node

    for mail, refs in parents.items():
        previous = mail
        for ref in refs:
            leader[find(previous)] = find(ref)
            previous = ref
        find(mail)
    roots: dict[str, str] = {}
    below = {mail for mail, refs in parents.items() if refs}
    # References lists run oldest first: every id after the first of a list has something above it, known mail or not.
    below |= {ref for refs in parents.values() for ref in refs[1:]}
    for node in leader:
        top = find(node)
        rank = (node in below, node)
        if top not in roots or rank < (roots[top] in below, roots[top]):
            roots[top] = node
    return {mail: roots[find(mail)] for mail in parents}


def rethread(con: duckdb.DuckDBPyConnection) -> None:
    """Give every mail in the warehouse the thread it belongs to, now that others have come."""
    rows = con.execute('SELECT email_key::VARCHAR, source_ref, thread_id, "references" FROM emails').fetchall()
    roots = thread_roots({ref: refs for _, ref, _, refs in rows})
    moved = [(key, roots[ref]) for key, ref, thread, _ in rows if roots[ref] != thread]
    if moved:
        con.register("moved", pl.DataFrame(moved, schema={"email_key": pl.String, "thread_id": pl.String}, orient="row").to_arrow())
        con.execute("UPDATE emails SET thread_id = m.thread_id FROM moved m WHERE m.email_key::UHUGEINT = emails.email_key")
        con.unregister("moved")
