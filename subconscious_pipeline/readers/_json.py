"""A second look at JSON that a strict decoder refuses, and words for what was wrong with it. Never quotes content."""

from __future__ import annotations

import json
from collections.abc import Iterator

import msgspec

from subconscious_pipeline.readers.base import EXCERPT_CHARS

_SPACE = " \t\r\n"


def repaired(raw: bytes) -> bytes | None:
    """The same JSON value in strict form: raw NUL bytes dropped, halves of surrogate pairs replaced. None: it is no JSON."""
    try:
        value = json.loads(raw.replace(b"\0", b"").decode("utf-8"), strict=False)
        return json.dumps(value, ensure_ascii=False, allow_nan=False).encode("utf-8", "replace")
    except (ValueError, RecursionError):
        return None


def elements(text: str) -> Iterator[tuple[int, bytes | None]]:
    """The elements of a JSON array, each as strict JSON, as far as they can be told apart; then (index, None) where it breaks off.

    Raises:
        ValueError: when the text does not begin like an array.
    """
    decoder = json.JSONDecoder(strict=False)
    at = _skip(text, 0)
    if at >= len(text) or text[at] != "[":
        raise ValueError("not an array")
    at, index = _skip(text, at + 1), 0
    if text[at : at + 1] == "]":
        return
    while True:
        try:
            value, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            yield index, None
            return
        yield index, json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")
        index, at = index + 1, _skip(text, at)
        if text[at : at + 1] == "]":
            return
        if text[at : at + 1] != ",":
            yield index, None
            return
        at = _skip(text, at + 1)


def _skip(text: str, at: int) -> int:
    while at < len(text) and text[at] in _SPACE:
        at += 1
    return at


def fault(error: msgspec.ValidationError) -> tuple[str, str]:
    """Code and message of a value of the wrong shape: ``missing_field``, ``not_an_object`` or ``wrong_type``.

    msgspec names fields and types, never values.
    """
    said = str(error)
    if "missing required field" in said:
        return "missing_field", said.removeprefix("Object ").replace("missing", "lacks the", 1)
    if said.startswith("Expected `object`, got") and " - at " not in said:
        return "not_an_object", "is not a JSON object"
    return "wrong_type", said[0].lower() + said[1:]


def excerpt(raw: bytes | str) -> str:
    """The first characters of an item, one line."""
    text = raw[: EXCERPT_CHARS * 4].decode("utf-8", "replace") if isinstance(raw, bytes) else raw
    return " ".join(text[: EXCERPT_CHARS * 2].replace("\0", "").split())[:EXCERPT_CHARS]
