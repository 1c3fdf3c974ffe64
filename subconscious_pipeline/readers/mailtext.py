"""Readable text of a mail body: HTML to text, format=flowed, and what its author newly wrote (no quotes, no signature).

Own rules instead of a library: email-reply-parser is English only and unmaintained since 2020; mail-parser-reply (MIT) missed
Gmail's Spanish attribution, signatures at the end of the file and answers between quotes, and costs more than parsing the mail.
"""

from __future__ import annotations

import re

_BLANK_RUN = re.compile(r"\n{3,}")

# "On … wrote:" in the languages of common clients; the verb ends the attribution, which may run over three lines.
_ATTRIBUTION_START = re.compile(r"^\s*(?:On|El|Am|Le|Il|Em|No dia|Op|Den|W dniu)\s\S", re.IGNORECASE)
_ATTRIBUTION = re.compile(
    r"^\s*(?:On\s.{4,300}\bwrote|El\s.{4,300}\bescribi[oó]|Am\s.{4,300}\bschrieb\b.{0,150}?|Le\s.{4,300}\ba [ée]crit|Il\s.{4,300}\bha scritto|"
    r"(?:Em|No dia)\s.{4,300}\bescreveu|Op\s.{4,300}\bschreef\b.{0,150}?|Den\s.{4,300}\bskrev\b.{0,150}?|W dniu\s.{4,300}\bnapisał\(?a?\)?)\s?:\s*$",
    re.IGNORECASE,
)
_ATTRIBUTION_DATE = re.compile(r"\d|@")
_VERB_FIRST = re.compile(r"^\s*[^\s>].{2,120}?(?:\s<[^<>\s]+@[^<>\s]+>)?\s(?:wrote|escribió|schrieb|a écrit)\s?:\s*$", re.IGNORECASE)
_SEPARATOR = re.compile(
    r"^\s*(?:-{2,}\s?(?:Original Message|Forwarded message|Original-?Nachricht|Urspr[üu]e?ngliche Nachricht|Weitergeleitete Nachricht|"
    r"Mensaje original|Mensaje reenviado|Message d'origine|Message transféré|Messaggio originale|Mensagem original)\s?-{2,}|"
    r"_{20,}|Begin forwarded message:|Anfang der weitergeleiteten Nachricht:|Inicio del mensaje reenviado:)\s*$",
    re.IGNORECASE,
)
_BLOCK_FROM = re.compile(r"^\s*\*?(?:From|Von|De|Da|Van|Från|Fra|Od)\s?:\*?\s?\S", re.IGNORECASE)
_BLOCK_FIELDS = re.compile(
    r"^\s*\*?(Sent|Date|To|Cc|Subject|Gesendet|Datum|An|Betreff|Enviado(?: el)?|Fecha|Para|Asunto|Envoyé|À|Objet|Inviato|A|Data|Oggetto|"
    r"Enviada(?: em)?|Assunto|Verzonden|Aan|Onderwerp|Skickat|Till|Ämne)\s?:\*?\s?",
    re.IGNORECASE,
)
_LIST_FOOTER = re.compile(r"mailing list|unsubscribe|listinfo|abmelden|lista de correo", re.IGNORECASE)
_SENT_FROM = re.compile(
    r"^\s*(?:Sent from (?:my|Mail for|Outlook|Yahoo|Proton|Gmail|Samsung)\b.{0,80}|Get Outlook for .{1,60}|Sent (?:with|via) .{1,60} (?:mail|app)|"
    r"Enviado desde (?:mi|Correo|Outlook)\b.{0,80}|Gesendet (?:von|mit) (?:meinem|meiner|Mail|Outlook|der)\b.{0,80}|"
    r"Von meinem .{2,40} gesendet|Envoyé (?:de|depuis) mon\b.{0,80}|Obtener Outlook para .{1,60}|Inviato da(?:l mio)?\b.{0,60})\s*$",
    re.IGNORECASE,
)


def html_text(html: str) -> str:
    """The visible text of an HTML body. Style, script, head and comments never leak."""
    from inscriptis import get_text

    text: str = get_text(html)
    return _BLANK_RUN.sub("\n\n", "\n".join(line.rstrip() for line in text.replace("\xa0", " ").splitlines())).strip()


def unflow(text: str, delsp: bool = False) -> str:
    """Text of a format=flowed part with its soft line breaks undone (RFC 3676); `delsp` drops the space at a soft break."""
    lines: list[str] = []
    soft_depth: int | None = None  # quote depth of a paragraph that goes on
    for line in text.split("\n"):
        depth = len(line) - len(line.lstrip(">"))
        content = line[depth:].removeprefix(" ")
        signature = content == "-- "
        soft = content.endswith(" ") and not signature
        body = content[:-1] if soft and delsp else content
        if soft_depth == depth and lines and not signature:
            lines[-1] += body
        else:
            lines.append(">" * depth + (" " if depth else "") + body)
        soft_depth = depth if soft else None
    return "\n".join(line if line.endswith("-- ") else line.rstrip() for line in lines)


def new_text(body: str) -> str:
    """What the author of a mail newly wrote: quoted replies, forwarded header blocks and signatures are cut.

    A body without quotes is never emptied. When the answers stand below or between quotes, the unquoted lines are kept.
    """
    lines = body.split("\n")
    top = _strip(_cut(lines))
    if top:
        return top
    unquoted = _strip(_without_signature(_unquoted(lines)))
    if unquoted:
        return unquoted
    return "" if any(line.lstrip().startswith(">") for line in lines) else body.strip()


def _strip(lines: list[str]) -> str:
    return "\n".join(lines).strip()


def _cut(lines: list[str]) -> list[str]:
    """The lines above the quoted message and the signature; quoted lines with answers below them are taken out singly."""
    kept: list[str] = []
    for at, line in enumerate(lines):
        if not line:
            kept.append(line)
            continue
        if line[0] in "> " and line.lstrip().startswith(">"):
            continue
        if _is_signature(line, lines, at) or _is_quote_start(lines, at):
            rest = lines[at:]
            if _SEPARATOR.match(line) or _BLOCK_FROM.match(line) or not _answers_below(rest):
                return kept
            return kept + _without_signature(_unquoted(rest))
        kept.append(line)
    return kept


def _is_signature(line: str, lines: list[str], at: int) -> bool:
    """A ``-- `` line (its space may be lost), a list's footer, or a client's own advertising with nothing of the author below it."""
    if line in ("-- ", "--"):
        return True
    if line.startswith("_" * 20):
        return any(_LIST_FOOTER.search(one) for one in lines[at + 1 : at + 4])
    if line.lstrip()[:1].upper() in "SGEVOI" and _SENT_FROM.match(line):
        below = next((one for one in lines[at + 1 :] if one.strip()), "")
        return not below or below.lstrip().startswith(">") or _is_quote_start(lines, lines.index(below, at + 1))
    return False


def _is_quote_start(lines: list[str], at: int) -> bool:
    line = lines[at]
    if _SEPARATOR.match(line):
        return not line.lstrip().startswith("_") or _is_header_block(lines, at + 1)
    return _attribution_length(lines, at) > 0 or _is_header_block(lines, at)


def _attribution_length(lines: list[str], at: int) -> int:
    """How many lines an "On … wrote:" that begins here takes; 0: none begins here."""
    if _ATTRIBUTION_START.match(lines[at]):
        for count in (1, 2, 3, 4):
            joined = " ".join(one.strip() for one in lines[at : at + count])
            if _ATTRIBUTION.match(joined) and _ATTRIBUTION_DATE.search(joined):
                return count
    if lines[at].rstrip().endswith(":") and _VERB_FIRST.match(lines[at]):
        below = next((one for one in lines[at + 1 : at + 3] if one.strip()), "")
        return 1 if below.lstrip().startswith(">") else 0
    return 0


def _is_header_block(lines: list[str], at: int) -> bool:
    """Whether the From/Sent/To/Subject block of a quoted message begins at the next non-blank line: From and two other fields."""
    while at < len(lines) and not lines[at].strip():
        at += 1
    if at >= len(lines) or ":" not in lines[at] or not _BLOCK_FROM.match(lines[at]):
        return False
    fields = {match.group(1).lower() for one in lines[at + 1 : at + 8] if (match := _BLOCK_FIELDS.match(one))}
    return len(fields) >= 2


def _answers_below(lines: list[str]) -> bool:
    """Whether unquoted text follows quoted lines: answers below or between the quotes of an attribution."""
    quoted = False
    for line in _without_signature(lines):
        if line.lstrip().startswith(">"):
            quoted = True
        elif quoted and line.strip():
            return True
    return False


def _unquoted(lines: list[str]) -> list[str]:
    """Every line that is neither quoted nor part of an attribution."""
    kept: list[str] = []
    at = 0
    while at < len(lines):
        if lines[at].strip() and (count := _attribution_length(lines, at)):
            at += count
            continue
        if not lines[at].lstrip().startswith(">"):
            kept.append(lines[at])
        at += 1
    return kept


def _without_signature(lines: list[str]) -> list[str]:
    for at, line in enumerate(lines):
        if line and _is_signature(line, lines, at):
            return lines[:at]
    return lines
