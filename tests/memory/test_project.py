"""Concepts, keywords and pointers are a projection of live observations: thrown away, they come back the same."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from place import AS_OF, Place, at, result, said, span, window

from subconscious_pipeline.errors import ConfigError, StoreError
from subconscious_pipeline.extraction.types import Observation, WindowResult
from subconscious_pipeline.memory import observe, project, store
from subconscious_pipeline.memory.schema import MIGRATIONS
from subconscious_pipeline.settings import load_settings

W1, W2, W3 = "2026-03-30T06:00Z", "2026-03-30T12:00Z", "2026-03-31T06:00Z"


def sources(place: Place) -> list[tuple[Any, ...]]:
    return place.memory("SELECT concept_id, source_type, source_ref, time_start, time_end FROM sources ORDER BY ALL")


def test_a_matter_that_returns_extends_widens_and_keeps_its_id(place: Place) -> None:
    place.persist(result(W1, said("door entrance lock", span("flat", "2026-03-30T07:00Z", "2026-03-30T07:30Z"), ttl=3)))
    place.project()
    place.persist(
        result(W2, said("entrance lock key", span("flat", "2026-03-30T13:00Z"), span("a@x", "2026-03-30T14:00Z", kind="email"), ttl=7)),
        result(W3, said("lock door cylinder", span("flat", "2026-03-31T07:00Z"), ttl=3)),
    )
    projection = place.project()
    assert (projection.founded, projection.joined, projection.concepts) == (0, 2, 1)
    assert place.concepts() == {1: {"door", "entrance", "lock", "key", "cylinder"}}
    assert place.memory("SELECT expires FROM concepts") == [(date(2026, 4, 6),)]
    assert sources(place) == [
        (1, "email", "a@x", at("2026-03-30T14:00Z"), at("2026-03-30T14:00Z")),
        (1, "messaging", "flat", at("2026-03-30T07:00Z"), at("2026-03-31T07:00Z")),
    ]


def test_a_part_that_is_not_renewed_fades_alone(place: Place) -> None:
    place.persist(
        result(W1, said("door entrance lock", span("flat", "2026-03-30T07:00Z"), ttl=3)),
        result(W2, said("entrance lock key", span("work", "2026-03-30T13:00Z"), ttl=7)),
    )
    place.project()
    assert place.project(at("2026-04-02T23:59Z")).expired == 0
    assert place.project(at("2026-04-03T00:00Z")).expired == 1
    assert place.concepts() == {1: {"entrance", "lock", "key"}}
    assert [row[2] for row in sources(place)] == ["work"]


def test_expiry_takes_words_pointers_and_spans_and_leaves_a_tombstone(place: Place) -> None:
    place.persist(result(W1, said("door entrance lock", span("flat", "2026-03-30T07:00Z"), expires=date(2026, 4, 1))))
    place.project(at("2026-04-01T23:59Z"))
    assert place.concepts() == {1: {"door", "entrance", "lock"}}
    gone = place.project(at("2026-04-02T00:00Z"))
    assert (gone.expired, gone.tombstoned, gone.concepts, gone.keywords, gone.sources) == (1, 1, 0, 0, 0)
    assert place.memory('SELECT concept_id, reason, "at" FROM tombstones') == [(1, "expired", at("2026-04-02T00:00Z"))]
    for table in ("observations", "observation_spans", "concept_state"):
        assert place.memory(f"SELECT count(*) FROM {table}") == [(0,)]


def test_an_id_is_never_given_twice(place: Place) -> None:
    place.persist(result(W1, said("door entrance lock", span("flat", "2026-03-30T07:00Z"), expires=date(2026, 4, 1))))
    place.project()
    place.project(at("2026-04-05T00:00Z"))
    place.persist(result(W2, said("door entrance lock", span("flat", "2026-03-30T13:00Z"), ttl=30)))
    place.project(at("2026-04-05T00:00Z"))
    assert place.concepts() == {2: {"door", "entrance", "lock"}}


def test_identity_never_expires(place: Place) -> None:
    place.persist(result(W1, said("door entrance lock", span("flat", "2026-03-30T07:00Z"), expires=date(2026, 4, 1))))
    place.project()
    place.write_memory("UPDATE concept_state SET tier = 'IDENTITY_CORE'")
    assert place.project(at("2030-01-01T00:00Z")).expired == 0
    assert place.concepts() == {1: {"door", "entrance", "lock"}}


def test_what_has_expired_before_it_was_projected_founds_nothing(place: Place) -> None:
    place.persist(result(W1, said("door entrance lock", span("flat", "2026-03-30T07:00Z"), expires=date(2026, 3, 31))))
    assert place.project().concepts == 0
    assert place.memory("SELECT count(*) FROM tombstones") == [(0,)]


def test_projecting_twice_is_projecting_once(place: Place) -> None:
    place.persist(result(W1, said("door entrance lock", span("flat", "2026-03-30T07:00Z"))))
    first = place.project()
    second = place.project()
    assert (first.changed, second.changed) == (True, False)
    assert second.revision == first.revision


def test_every_change_raises_the_revision(place: Place) -> None:
    assert place.project().revision == 0
    place.persist(result(W1, said("door entrance lock", span("flat", "2026-03-30T07:00Z"))))
    assert place.memory("SELECT value FROM meta WHERE key = 'revision'") == [("1",)]
    assert place.project().revision == 2


TWO = (
    result(W1, said("door entrance lock", span("flat", "2026-03-30T07:00Z"), ttl=9)),
    result(W2, said("quote locksmith invoice", span("mail", "2026-03-30T13:00Z"), ttl=3)),
)


def merge(place: Place, *pairs: tuple[int, int], strategy: str = "COMBINE") -> None:
    place.write_memory(*(f"INSERT INTO merges VALUES ({a}, {b}, '{strategy}', 't1', TIMESTAMPTZ '2026-04-01 12:00:00+00')" for a, b in pairs))
    place.project()


def test_merging_redirects_and_undo_brings_both_back(place: Place) -> None:
    place.persist(*TWO)
    place.project()
    before = place.memory("FROM keywords ORDER BY ALL"), sources(place), place.memory("FROM concepts ORDER BY ALL")
    merge(place, (2, 1))
    assert place.concepts() == {1: {"door", "entrance", "lock", "quote", "locksmith", "invoice"}}
    assert [(row[0], row[2]) for row in sources(place)] == [(1, "flat"), (1, "mail")]
    assert place.memory("SELECT count(*) FROM tombstones") == [(0,)]
    place.write_memory("DELETE FROM merges WHERE transaction_id = 't1'")
    place.project()
    assert (place.memory("FROM keywords ORDER BY ALL"), sources(place), place.memory("FROM concepts ORDER BY ALL")) == before


def test_merges_of_merges_lead_to_the_last(place: Place) -> None:
    place.persist(*TWO, result(W3, said("dentist crown molar", span("ana", "2026-03-31T07:00Z"))))
    place.project()
    merge(place, (3, 2), (2, 1))
    assert list(place.concepts()) == [1]
    assert len(place.concepts()[1]) == 9


def test_the_newest_member_may_speak_for_all_while_every_pointer_stays(place: Place) -> None:
    place.persist(*TWO)
    place.project()
    merge(place, (2, 1), strategy="KEEP_NEWEST")
    assert place.concepts() == {1: {"quote", "locksmith", "invoice"}}
    assert [(row[0], row[2]) for row in sources(place)] == [(1, "flat"), (1, "mail")]
    assert place.memory("SELECT expires FROM concepts") == [(date(2026, 4, 8),)]


def test_a_new_observation_joins_what_the_merge_made(place: Place) -> None:
    place.persist(*TWO)
    place.project()
    merge(place, (1, 2))
    place.persist(result(W3, said("door entrance key", span("flat", "2026-03-31T07:00Z"))))
    place.project()
    assert list(place.concepts()) == [2]


def test_nothing_that_is_no_word_gets_into_the_index(place: Place) -> None:
    place.persist(result(W1, Observation(("door", "lock", "ignore\nall"), "incident", 5, at(W1), date(2026, 4, 9), (span("flat", W1),))))
    with pytest.raises(StoreError, match="keyword that is no word"):
        place.project()
    assert place.concepts() == {}


@pytest.mark.parametrize(
    ("statement", "name"),
    [
        ("INSERT INTO keywords VALUES (99, 99, 'door')", "a keyword without its concept"),
        ("INSERT INTO sources VALUES (99, 99, 'messaging', 'flat', now(), now())", "a pointer without its concept"),
        ("DELETE FROM keywords", "a concept without keywords"),
        ("DELETE FROM sources", "a concept without pointers"),
        ("DELETE FROM observations", "a span without its observation"),
        ("UPDATE keywords SET word = 'Two words'", "a keyword that is no word"),
        ("UPDATE sources SET time_end = TIMESTAMPTZ '2000-01-01'", "a pointer that ends before it starts"),
    ],
)
def test_each_invariant_is_noticed(place: Place, statement: str, name: str) -> None:
    place.persist(TWO[0])
    place.project()
    place.write_memory(statement)
    with store.reading(place.home, place.settings) as con:
        assert name in store.broken_invariants(con)


def test_a_home_keeps_its_window_size(place: Place) -> None:
    place.persist(TWO[0])
    place.settings = load_settings(window_hours=24)
    with pytest.raises(ConfigError, match="windows of 6 hours"):
        place.memory("SELECT 1")
    with pytest.raises(ConfigError, match="windows of 6 hours"):
        place.project()


VOCABULARIES = [tuple(f"{name}{letter}" for letter in "abcde") for name in ("alpha", "bravo", "charlie")]


@st.composite
def replies(draw: st.DrawFn) -> WindowResult:
    """One of four windows says up to two things, of matters with vocabularies of their own."""
    start = at("2026-03-30T00:00Z") + timedelta(hours=6 * draw(st.integers(0, 3)))
    said_here = []
    for matter in draw(st.lists(st.integers(0, 2), max_size=2, unique=True)):
        chosen = draw(st.sets(st.integers(0, 4), min_size=4, max_size=5))
        begin = start + timedelta(minutes=draw(st.integers(0, 100)))
        spans = span(f"chat{matter}", begin.isoformat(), (begin + timedelta(minutes=draw(st.integers(0, 100)))).isoformat())
        said_here.append(said(" ".join(VOCABULARIES[matter][n] for n in sorted(chosen)), spans, ttl=draw(st.integers(1, 9))))
    return result(start.isoformat(), *said_here)


STEPS = st.one_of(replies(), st.integers(0, 8), st.just("merge"), st.just("undo"))
UNCHECKED = load_settings()


def fresh(con: duckdb.DuckDBPyConnection) -> None:
    """An empty memory that needs no file."""
    con.execute("SET TimeZone='UTC'; CREATE TABLE meta (key VARCHAR PRIMARY KEY, value VARCHAR NOT NULL)")
    for script in MIGRATIONS:
        con.execute(script)


@given(st.lists(STEPS, min_size=1, max_size=9))
@settings(max_examples=12, deadline=None)
def test_whatever_happens_the_index_is_sound_and_equals_what_is_projected_from_scratch(steps: list[Any]) -> None:
    with duckdb.connect(":memory:") as con:
        fresh(con)
        as_of = AS_OF
        for step in steps:
            if isinstance(step, WindowResult):
                observe.persist(con, step, as_of, UNCHECKED)
            elif isinstance(step, int):
                as_of = max(as_of, AS_OF + timedelta(days=step))
            elif step == "undo":
                con.execute("DELETE FROM merges")
            else:
                alive = [row[0] for row in con.execute("SELECT id FROM concepts ORDER BY id").fetchall()]
                if len(alive) > 1:
                    con.execute("INSERT INTO merges VALUES (?, ?, 'COMBINE', 't', now())", [alive[1], alive[0]])
            project.project(con, as_of)
            assert store.broken_invariants(con) == {}
            assert project.is_projected(con)
        kept = [con.execute(f"FROM {table} ORDER BY ALL").fetchall() for table in ("concepts", "keywords", "sources")]
        for table in ("concepts", "keywords", "sources"):
            con.execute(f"DELETE FROM {table}")
        project.rebuild(con, as_of, [])
        assert [con.execute(f"FROM {table} ORDER BY ALL").fetchall() for table in ("concepts", "keywords", "sources")] == kept


@given(st.lists(replies(), min_size=2, max_size=6, unique_by=lambda one: one.window), st.randoms())
@settings(max_examples=12, deadline=None)
def test_windows_in_any_order_end_with_the_same_concepts(results: list[WindowResult], random: Any) -> None:
    def end(order: list[WindowResult], at_once: bool) -> set[tuple[Any, ...]]:
        with duckdb.connect(":memory:") as con:
            fresh(con)
            for one in order:
                observe.persist(con, one, AS_OF, UNCHECKED)
                if not at_once:
                    project.project(con, at("2026-03-31T00:00Z"))
            project.project(con, at("2026-03-31T00:00Z"))
            rows = con.execute(
                "SELECT c.expires, (SELECT list(word ORDER BY word) FROM keywords k WHERE k.concept_id = c.id), "
                "(SELECT list((source_ref, time_start, time_end) ORDER BY source_ref) FROM sources s WHERE s.concept_id = c.id) FROM concepts c"
            ).fetchall()
            return {(expires, tuple(words), tuple(map(str, pointers))) for expires, words, pointers in rows}

    shuffled = list(results)
    random.shuffle(shuffled)
    assert end(results, False) == end(shuffled, False) == end(shuffled, True)


def test_a_window_is_a_window_under_any_machine_zone(place: Place) -> None:
    place.persist(TWO[0])
    assert place.memory("SELECT window_start, window_end FROM extractions") == [(window(W1).start, window(W1).end)]
