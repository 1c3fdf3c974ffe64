from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from subconscious_pipeline.extraction.assemble import observations_from
from subconscious_pipeline.extraction.reply import ReplyConcept
from subconscious_pipeline.extraction.types import Observation, Span

from .windows import START, concept, conversation, line, transcript


def cites(*numbers: int, **more: object) -> ReplyConcept:
    return ReplyConcept.model_validate(concept(list(numbers), **more))


def minute(n: int) -> datetime:
    return START + timedelta(minutes=n)


def chat(count: int, ref: str = "family", first: int = 1):
    return conversation(*(line(n, ref=ref) for n in range(first, first + count)), title=ref)


def test_an_observation_takes_times_and_references_from_the_cited_rows():
    assert observations_from(transcript(chat(3)), [cites(1, 3)]) == (
        Observation(
            words=("boiler", "leak", "plumber"),
            kind="incident",
            ttl_days=5,
            observed_at=datetime(2026, 3, 30, 18, 3, tzinfo=UTC),
            expires=date(2026, 4, 4),
            spans=(Span("messaging", "family", datetime(2026, 3, 30, 18, 1, tzinfo=UTC), datetime(2026, 3, 30, 18, 3, tzinfo=UTC)),),
        ),
    )


def test_up_to_four_uncited_lines_stay_inside_a_span_and_five_divide_it():
    (one,) = observations_from(transcript(chat(12)), [cites(1, 6)])
    assert one.spans == (Span("messaging", "family", minute(1), minute(6)),)
    (two,) = observations_from(transcript(chat(12)), [cites(1, 7)])
    assert two.spans == (Span("messaging", "family", minute(1), minute(1)), Span("messaging", "family", minute(7), minute(7)))


def test_gaps_are_counted_among_the_lines_of_the_same_source():
    thread = conversation(*(line(n, ref=f"mail{n % 2}", source_type="email") for n in range(1, 21)))
    (observation,) = observations_from(transcript(thread), [cites(2, 12)])  # four lines of mail0 between, nine lines in all
    assert observation.spans == (Span("email", "mail0", minute(2), minute(12)),)


def test_each_source_has_its_own_span():
    (observation,) = observations_from(transcript(chat(2), chat(2, "work", 3)), [cites(1, 2, 3)])
    assert [(span.source_ref, span.time_start, span.time_end) for span in observation.spans] == [
        ("family", minute(1), minute(2)),
        ("work", minute(3), minute(3)),
    ]


def test_expiry_counts_from_the_utc_date_of_the_last_cited_line():
    late = line(1, at=datetime(2026, 3, 30, 23, 59, tzinfo=UTC))
    (observation,) = observations_from(transcript(conversation(late)), [cites(1, ttl_days=3)])
    assert observation.expires == date(2026, 4, 2)


def test_an_event_lives_until_its_last_day_in_its_own_zone():
    event = line(
        2,
        source_type="calendar",
        ref="trip",
        at=datetime(2026, 5, 1, 10, tzinfo=UTC),
        ends=datetime(2026, 6, 20, 22, tzinfo=UTC),
        last_date=date(2026, 6, 21),
    )
    (observation,) = observations_from(transcript(chat(1), conversation(event)), [cites(1, 2, kind="appointment", ttl_days=14)])
    assert observation.observed_at == datetime(2026, 5, 1, 10, tzinfo=UTC)
    assert observation.expires == date(2026, 6, 21)
    assert observation.spans[0] == Span("calendar", "trip", event.at, event.ends)


def test_exact_repeats_count_once_and_other_lines_or_words_do_not():
    same = [cites(1), cites(1, kind="ongoing", ttl_days=40), cites(2), cites(1, words="invoice boiler landlord")]
    assert [(o.words[0], o.kind, o.spans[0].time_start) for o in observations_from(transcript(chat(2)), same)] == [
        ("boiler", "incident", minute(1)),
        ("boiler", "incident", minute(2)),
        ("invoice", "incident", minute(1)),
    ]


def test_a_line_outside_the_window_is_refused():
    with pytest.raises(ValueError, match=r"\[9\]"):
        observations_from(transcript(chat(2)), [cites(1, 9)])


def test_dates_at_the_end_of_the_calendar_do_not_break():
    last = line(1, at=datetime(9999, 12, 31, tzinfo=UTC))
    assert observations_from(transcript(conversation(last)), [cites(1)])[0].expires == date.max


rows = st.lists(st.tuples(st.sampled_from(["a", "b", "c"]), st.integers(0, 300), st.integers(0, 90)), min_size=1, max_size=30)


@settings(max_examples=100, deadline=None)
@given(rows=rows, data=st.data())
def test_spans_cover_the_cited_rows_and_nothing_outside_them(rows, data):
    lines = [line(n, ref=ref, minute=at, ends=minute(at + lasts)) for n, (ref, at, lasts) in enumerate(rows, 1)]
    whole = transcript(conversation(*lines))
    cited = data.draw(st.lists(st.integers(1, len(lines)), min_size=1, unique=True))
    (observation,) = observations_from(whole, [cites(*cited)])
    rows_of = {ref: [row for row in lines if row.n in cited and row.source_ref == ref] for ref in "abc"}
    starts = {(row.source_ref, row.at) for row in lines if row.n in cited}
    ends = {(row.source_ref, row.ends) for row in lines if row.n in cited}
    for span in observation.spans:
        assert (span.source_ref, span.time_start) in starts
        assert (span.source_ref, span.time_end) in ends
        assert span.time_start <= span.time_end
    for ref, cited_rows in rows_of.items():
        spans = [span for span in observation.spans if span.source_ref == ref]
        assert bool(spans) == bool(cited_rows)
        assert all(any(span.time_start <= row.at and row.ends <= span.time_end for span in spans) for row in cited_rows)
    assert observation.spans == tuple(sorted(observation.spans))
    assert observation.observed_at == max(row.at for row in lines if row.n in cited)
    assert observation.expires >= observation.observed_at.date() + timedelta(days=observation.ttl_days)
    assert observations_from(whole, [cites(*reversed(cited))]) == (observation,)
