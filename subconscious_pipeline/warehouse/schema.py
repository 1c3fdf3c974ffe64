"""The tables of warehouse.duckdb: raw content lives here, and only here.

The keys of messages, emails and calendar_events are unique because their only writer, `load.py`, compares before it inserts. They have no
index: DuckDB would keep one in step at the price of a fifth of the time of every load, and nothing ever looks a row up by its key.
"""

MIGRATIONS = (
    """
    CREATE TABLE messages (
        message_key UHUGEINT NOT NULL, source_id VARCHAR NOT NULL, source_type VARCHAR NOT NULL, source_ref VARCHAR NOT NULL,
        native_id VARCHAR, thread_id VARCHAR, author VARCHAR, author_id VARCHAR, is_bot BOOLEAN NOT NULL, kind VARCHAR NOT NULL,
        text VARCHAR NOT NULL, sent_at TIMESTAMPTZ NOT NULL, end_at TIMESTAMPTZ, tz_source VARCHAR NOT NULL, edited_at TIMESTAMPTZ,
        ordinal BIGINT NOT NULL, noise VARCHAR[] NOT NULL, content_hash UHUGEINT NOT NULL, file_id VARCHAR NOT NULL);
    CREATE TABLE emails (
        email_key UHUGEINT NOT NULL, source_id VARCHAR NOT NULL, source_type VARCHAR NOT NULL, source_ref VARCHAR NOT NULL,
        thread_id VARCHAR NOT NULL, from_name VARCHAR NOT NULL, from_addr VARCHAR NOT NULL, "to" VARCHAR[] NOT NULL, subject VARCHAR NOT NULL,
        sent_at TIMESTAMPTZ, date_source VARCHAR NOT NULL, body_full VARCHAR NOT NULL, body_new VARCHAR NOT NULL, kind VARCHAR NOT NULL,
        "references" VARCHAR[] NOT NULL, labels VARCHAR[] NOT NULL, zone VARCHAR NOT NULL, noise VARCHAR[] NOT NULL, content_hash UHUGEINT NOT NULL,
        file_id VARCHAR NOT NULL);
    CREATE TABLE calendar_events (
        event_key UHUGEINT NOT NULL, source_id VARCHAR NOT NULL, source_type VARCHAR NOT NULL, source_ref VARCHAR NOT NULL,
        series VARCHAR NOT NULL, summary VARCHAR NOT NULL, description VARCHAR NOT NULL, location VARCHAR NOT NULL, organizer VARCHAR NOT NULL,
        attendees VARCHAR[] NOT NULL, start_at TIMESTAMPTZ NOT NULL, end_at TIMESTAMPTZ NOT NULL, all_day BOOLEAN NOT NULL,
        start_date DATE NOT NULL, end_date DATE NOT NULL, tz_name VARCHAR NOT NULL, tz_source VARCHAR NOT NULL, rrule VARCHAR,
        status VARCHAR NOT NULL, speaks BOOLEAN NOT NULL, noise VARCHAR[] NOT NULL, content_hash UHUGEINT NOT NULL, file_id VARCHAR NOT NULL);
    CREATE TABLE calendar_changes (event_key UHUGEINT NOT NULL, changed_at TIMESTAMPTZ NOT NULL);
    CREATE TABLE conversations (
        window_start TIMESTAMPTZ NOT NULL, source_type VARCHAR NOT NULL, source_ref VARCHAR NOT NULL, title VARCHAR NOT NULL,
        rows BIGINT NOT NULL, noise BIGINT NOT NULL, first_at TIMESTAMPTZ NOT NULL, last_at TIMESTAMPTZ NOT NULL, input_hash VARCHAR NOT NULL);
    CREATE TABLE names (
        source_type VARCHAR NOT NULL, source_ref VARCHAR NOT NULL, title VARCHAR NOT NULL, zone VARCHAR NOT NULL,
        PRIMARY KEY (source_type, source_ref));
    CREATE TABLE ingested_files (
        file_id VARCHAR PRIMARY KEY, source_id VARCHAR NOT NULL, path VARCHAR NOT NULL, fingerprint VARCHAR NOT NULL, reader VARCHAR NOT NULL,
        rows BIGINT NOT NULL, errors BIGINT NOT NULL, ingested_at TIMESTAMPTZ NOT NULL);
    CREATE TABLE ingest_errors (
        file_id VARCHAR NOT NULL, locator VARCHAR NOT NULL, code VARCHAR NOT NULL, message VARCHAR NOT NULL, excerpt VARCHAR NOT NULL,
        warning BOOLEAN NOT NULL);
    """,
)
