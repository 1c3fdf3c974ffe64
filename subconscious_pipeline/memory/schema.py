"""The tables of memory.duckdb: an index of words and pointers. No content, ever."""

MIGRATIONS = (
    """
    CREATE TABLE concepts (id BIGINT PRIMARY KEY, expires DATE NOT NULL);
    CREATE TABLE keywords (id BIGINT PRIMARY KEY, concept_id BIGINT NOT NULL, word VARCHAR NOT NULL);
    CREATE TABLE sources (
        id BIGINT PRIMARY KEY, concept_id BIGINT NOT NULL, source_type VARCHAR NOT NULL,
        source_ref VARCHAR NOT NULL, time_start TIMESTAMPTZ NOT NULL, time_end TIMESTAMPTZ NOT NULL);
    CREATE TABLE observations (
        id BIGINT PRIMARY KEY, origin VARCHAR NOT NULL, window_start TIMESTAMPTZ NOT NULL,
        ordinal INTEGER NOT NULL, session_id VARCHAR, words VARCHAR[] NOT NULL, kind VARCHAR NOT NULL, ttl_days INTEGER NOT NULL,
        observed_at TIMESTAMPTZ NOT NULL, expires DATE NOT NULL, concept_id BIGINT);
    CREATE TABLE observation_spans (
        observation_id BIGINT NOT NULL, source_type VARCHAR NOT NULL, source_ref VARCHAR NOT NULL,
        time_start TIMESTAMPTZ NOT NULL, time_end TIMESTAMPTZ NOT NULL);
    CREATE TABLE concept_state (
        concept_id BIGINT PRIMARY KEY, tier VARCHAR NOT NULL, claimed BOOLEAN NOT NULL, score DOUBLE NOT NULL, scored_at TIMESTAMPTZ NOT NULL);
    CREATE TABLE merges (
        from_id BIGINT NOT NULL, into_id BIGINT NOT NULL, strategy VARCHAR NOT NULL, transaction_id VARCHAR NOT NULL, "at" TIMESTAMPTZ NOT NULL);
    CREATE TABLE accesses (concept_id BIGINT NOT NULL, "at" TIMESTAMPTZ NOT NULL, session_id VARCHAR);
    CREATE TABLE extractions (
        window_start TIMESTAMPTZ PRIMARY KEY, window_end TIMESTAMPTZ NOT NULL, status VARCHAR NOT NULL, lease_until TIMESTAMPTZ,
        tries INTEGER NOT NULL, next_try_at TIMESTAMPTZ, input_hash VARCHAR NOT NULL, model VARCHAR NOT NULL, prompt_version VARCHAR NOT NULL,
        calls INTEGER NOT NULL, prompt_tokens BIGINT NOT NULL, completion_tokens BIGINT NOT NULL, seconds DOUBLE NOT NULL,
        error_code VARCHAR, extracted_at TIMESTAMPTZ NOT NULL);
    CREATE TABLE forgotten (kind VARCHAR NOT NULL, hmac VARCHAR NOT NULL, "at" TIMESTAMPTZ NOT NULL);
    CREATE TABLE tombstones (concept_id BIGINT NOT NULL, reason VARCHAR NOT NULL, "at" TIMESTAMPTZ NOT NULL, transaction_id VARCHAR);
    INSERT INTO meta VALUES ('revision', '0');
    """,
)
