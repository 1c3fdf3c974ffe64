"""The published `index.sqlite`: the one file that client and commands read. Any language can; no lock is needed."""

SCHEMA_VERSION = 1

# meta keys: schema, revision, status (ok | degraded), reasons (JSON list of strings), as_of, watermark (ISO 8601 Z or ""), tokens,
# window_hours, stale_hours. Times are ISO 8601 UTC with Z, dates YYYY-MM-DD; text order is time order.
DDL = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE words (word TEXT PRIMARY KEY, stem TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE concepts (id INTEGER PRIMARY KEY, expires TEXT NOT NULL, tier TEXT NOT NULL, score REAL NOT NULL);
CREATE TABLE keywords (concept_id INTEGER NOT NULL, word TEXT NOT NULL, stem TEXT NOT NULL, rarity REAL NOT NULL,
                       PRIMARY KEY (concept_id, word)) WITHOUT ROWID;
CREATE TABLE sources (concept_id INTEGER NOT NULL, source_type TEXT NOT NULL, source_ref TEXT NOT NULL,
                      time_start TEXT NOT NULL, time_end TEXT NOT NULL,
                      PRIMARY KEY (concept_id, source_type, source_ref)) WITHOUT ROWID;
CREATE TABLE spans (concept_id INTEGER NOT NULL, source_type TEXT NOT NULL, source_ref TEXT NOT NULL,
                    time_start TEXT NOT NULL, time_end TEXT NOT NULL,
                    PRIMARY KEY (concept_id, source_type, source_ref, time_start, time_end)) WITHOUT ROWID;
CREATE TABLE redirects (from_id INTEGER PRIMARY KEY, into_id INTEGER NOT NULL) WITHOUT ROWID;
CREATE INDEX keywords_by_stem ON keywords (stem);
"""
