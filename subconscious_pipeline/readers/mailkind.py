"""What sort of mail a mail is, from its headers; the subject only decides that bulk mail is a receipt and not marketing."""

from __future__ import annotations

import re
from collections.abc import Mapping

Headers = Mapping[str, list[str]]  # lowercase name -> raw values in order

_DAEMON = re.compile(r"^(mailer-daemon|mail-daemon|mdaemon|postmaster)@|^(mailer-daemon|postmaster)$")
_AUTO_HEADERS = ("x-autoreply", "x-autorespond", "x-autoresponder", "x-auto-reply", "x-mail-autoreply")
_DISCUSSION_HEADERS = ("list-post", "x-mailman-version", "x-google-group-id", "mailing-list")
# Marks of campaign senders: Mailchimp, Campaign Monitor, HubSpot, Klaviyo, Brevo, Mailgun, and the Certified Senders Alliance.
_CAMPAIGN_HEADERS = (
    "list-unsubscribe", "list-unsubscribe-post", "x-campaign", "x-campaignid", "x-campaign-id", "x-mc-user", "x-mailgun-campaign-id",
    "x-cmail-campaign", "x-hs-campaign", "x-kmail-campaign", "x-mailin-campaign", "x-csa-complaints", "x-mailing-id", "x-newsletter",
)  # fmt: skip
_TRANSACTIONAL = re.compile(
    r"\b(receipt|invoice|your order|order (?:confirm\w*|number|no\.?|shipped|\#?\d+)|order #|booking|reservation|itinerary|e-?ticket|"
    r"boarding pass|has shipped|(?:been|out for|your) (?:shipped|delivered|delivery|package|parcel)|payment (?:received|confirm\w*|failed|due)|"
    r"(?:account|bank) statement|password|verification code|security (?:alert|code)|sign-?in|appointment|confirm(?:ation|ed)|"
    r"recibo|factura|(?:tu|su) pedido|pedido (?:confirmado|n[ºo°.]|#?\d+)|confirmaci[oó]n|reserva|(?:tu|su) env[ií]o|cita|contraseña|"
    r"c[oó]digo de (?:verificaci[oó]n|seguridad)|pago (?:recibido|confirmado)|billete|justificante|"
    r"rechnung|quittung|beleg|(?:ihre|deine) (?:bestellung|buchung|zahlung|sendung|lieferung|reservierung)|bestellung (?:nr\.?|#?\d+)|"
    r"\w*best[äa]e?tigung|buchung|reservierung|versandt|zahlungseingang|passwort|sicherheitscode|termin|kontoauszug)\b",
    re.IGNORECASE,
)  # fmt: skip
_PROMOTION = re.compile(
    r"\d\s?%|\b(sale|deals?|discount|coupon|promo\w*|newsletter|free shipping|(?:order|book|shop|buy) (?:now|today)|save (?:up|big|on|\d)|"
    r"oferta\w*|descuento\w*|rebajas|cup[oó]n|(?:reserva|compra) (?:ya|ahora|hoy)|env[ií]o gratis|"
    r"rabatt\w*|gutschein\w*|angebote?|aktion|jetzt (?:buchen|bestellen|kaufen)|schn[äa]ppchen|gratis)\b",
    re.IGNORECASE,
)  # fmt: skip
# Types of the documented e-mail markup (schema.org) that only transactions carry.
_MARKUP = re.compile(rb'schema\.org[\s\S]{0,400}?"@type"\s*:\s*"(?:Order|Invoice|ParcelDelivery|\w*Reservation)"')


def kind_of(
    headers: Headers, content_type: str, from_addr: str, subject: str, labels: tuple[str, ...], method: str, own: frozenset[str], raw: bytes
) -> str:
    """The `kind` of an EmailRecord: bounce, invite, chat, auto, list, marketing or personal.

    Args:
        headers: raw header values by lowercase name.
        content_type: of the whole mail, lowercase.
        from_addr: lowercase.
        subject: decoded.
        labels: decoded X-Gmail-Labels.
        method: METHOD of a text/calendar part, uppercase, or "".
        own: the user's own addresses, lowercase.
        raw: the mail, only searched for order and booking markup.
    """
    if content_type == "multipart/report" and "disposition-notification" not in headers.get("content-type", [""])[0].lower():
        return "bounce"
    if _DAEMON.search(from_addr) or "x-failed-recipients" in headers:
        return "bounce"
    if method in ("REQUEST", "REPLY", "CANCEL"):
        return "invite"
    if any(label.lower() == "chat" for label in labels):
        return "chat"
    precedence = headers.get("precedence", [""])[0].strip().lower()
    submitted = headers.get("auto-submitted", ["no"])[0].partition(";")[0].strip().lower()
    if content_type == "multipart/report" or submitted not in ("no", "") or precedence == "auto_reply" or any(n in headers for n in _AUTO_HEADERS):
        return "auto"
    replies = "in-reply-to" in headers or "references" in headers
    discussion = precedence == "list" or any(name in headers for name in _DISCUSSION_HEADERS)
    if "list-id" in headers and (discussion or replies):
        return "list"
    bulk = precedence in ("bulk", "junk") or any(name in headers for name in _CAMPAIGN_HEADERS)
    if bulk and not replies and from_addr not in own and not _is_transaction(headers, subject, raw):
        return "marketing"
    return "list" if "list-id" in headers and not bulk else "personal"


def _is_transaction(headers: Headers, subject: str, raw: bytes) -> bool:
    if headers.get("x-pm-message-stream", [""])[0].strip().lower() == "outbound":  # Postmark's documented stream for transactions
        return True
    if _TRANSACTIONAL.search(subject) and not _PROMOTION.search(subject):
        return True
    return b"schema.org" in raw and _MARKUP.search(raw) is not None
