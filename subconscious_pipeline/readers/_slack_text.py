"""Slack markup to plain text: mentions, links, blocks and attachments. Secrets in URLs do not get past this module."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

_TOKEN = re.compile(r"xox[a-z](?:\.xox[a-z])?-[\w%-]+")
_TAG = re.compile(r"<([^<>|\n][^<>\n]*)>")
_SKIPPED_BLOCKS = frozenset({"actions", "input", "divider"})


def redacted(text: str) -> str:
    """The text without Slack tokens, which exports carry in file URLs (``?t=xoxe-…``)."""
    return _TOKEN.sub("[redacted]", text) if "xox" in text else text


def plain(text: str, users: Mapping[str, str], channels: Mapping[str, str]) -> str:
    """Slack's mrkdwn as plain text: ``<@U1>`` becomes @name, ``<#C1|x>`` #x, ``<url|label>`` "label (url)", entities characters."""
    if "<" in text:
        text = _TAG.sub(lambda found: _tag(found.group(1), users, channels), text)
    if "&" in text:
        text = text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
    return redacted(text)


def _tag(inside: str, users: Mapping[str, str], channels: Mapping[str, str]) -> str:
    target, _, label = inside.partition("|")
    sign, name = target[0], target[1:]
    if sign == "@":
        return "@" + (users.get(name) or label or name)
    if sign == "#":
        return "#" + (label or channels.get(name) or name)
    if sign == "!":
        if label:
            return label if label.startswith("@") or name.startswith("date^") else "@" + label
        return "@" + name.partition("^")[2] if name.startswith("subteam^") else "@" + name
    bare = target.removeprefix("mailto:").removeprefix("tel:")
    if not label or label in target:
        return label if label and bare == label else bare
    return label if bare != target else f"{label} ({target})"


def rich(blocks: msgspec.Raw, attachments: msgspec.Raw) -> str:
    """The mrkdwn text of blocks, else of attachments; "" when they hold none or are of an unknown shape."""
    for raw, walk in ((blocks, _blocks), (attachments, _attachments)):
        if not bytes(raw):
            continue
        try:
            value = msgspec.json.decode(raw)
        except (msgspec.DecodeError, RecursionError):
            continue  # the row itself was valid: such blocks only nest deeper than anything a person wrote
        if isinstance(value, list) and (text := "\n".join(filter(None, walk(value)))):
            return text
    return ""


def _blocks(blocks: list[Any]) -> Iterator[str]:
    for block in blocks:
        if not isinstance(block, dict) or block.get("type") in _SKIPPED_BLOCKS:
            continue
        if block.get("type") == "rich_text":
            yield from _sections(block)
            continue
        yield _text_of(block.get("text"))
        for part in (*_list(block.get("fields")), *_list(block.get("elements"))):
            yield _text_of(part)


def _sections(block: dict[str, Any]) -> Iterator[str]:
    for section in _list(block.get("elements")):
        if not isinstance(section, dict):
            continue
        if section.get("type") == "rich_text_list":
            yield from _sections(section)
        else:
            yield "".join(_inline(part) for part in _list(section.get("elements")))


_INLINE: dict[str, Callable[[dict[str, Any]], str]] = {
    "text": lambda part: _escaped(part.get("text")),
    "link": lambda part: f"<{part.get('url')}|{_escaped(part['text'])}>" if part.get("text") else f"<{part.get('url')}>",
    "user": lambda part: f"<@{part.get('user_id')}>",
    "channel": lambda part: f"<#{part.get('channel_id')}>",
    "usergroup": lambda part: f"<!subteam^{part.get('usergroup_id')}>",
    "broadcast": lambda part: f"<!{part.get('range')}>",
    "emoji": lambda part: f":{part.get('name')}:",
}


def _inline(part: object) -> str:
    if not isinstance(part, dict):
        return ""
    render = _INLINE.get(str(part.get("type")))
    return render(part) if render else ""


def _attachments(attachments: list[Any]) -> Iterator[str]:
    for attachment in attachments:
        if not isinstance(attachment, dict):
            continue
        parts = [_string(attachment.get(key)) for key in ("pretext", "title", "text")]
        for field in _list(attachment.get("fields")):
            if isinstance(field, dict):
                parts.append(" ".join(filter(None, (_string(field.get("title")), _string(field.get("value"))))))
        parts.extend(_blocks(_list(attachment.get("blocks"))))
        yield "\n".join(filter(None, parts)) or _string(attachment.get("fallback"))


def _text_of(value: object) -> str:
    """The text of a text object; plain_text is not markup, so it is escaped the way markup is."""
    if not isinstance(value, dict) or value.get("type") not in ("mrkdwn", "plain_text"):
        return ""
    return _escaped(value.get("text")) if value["type"] == "plain_text" else _string(value.get("text"))


def _escaped(value: object) -> str:
    return _string(value).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _string(value: object) -> str:
    return value if isinstance(value, str) else ""


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []
