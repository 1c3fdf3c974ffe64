"""The JSON Schema of every event, for the documentation and for writers in other languages."""

from __future__ import annotations

from typing import Any

from subconscious_pipeline.caretaker.events import KINDS, TransactionContext


def event_schemas() -> dict[str, dict[str, Any]]:
    """JSON Schema (2020-12) of each payload by kind; ``x-version`` and ``x-written-by`` say which version and whose it is."""
    schemas: dict[str, dict[str, Any]] = {}
    for kind, model in KINDS.items():
        schema = model.model_json_schema()
        schema["x-version"] = model.version
        schema["x-written-by"] = "agent" if model.incoming else "caretaker"
        schema["x-notification"] = model.notification
        schemas[kind] = schema
    return schemas


def transaction_schema() -> dict[str, Any]:
    """JSON Schema of the transaction every event carries."""
    return TransactionContext.model_json_schema()
