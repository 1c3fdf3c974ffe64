"""What kind of row a WhatsApp text is, told by the fixed phrases the app prints in the phone's language."""

from __future__ import annotations

import re

from subconscious_pipeline.readers._whatsapp_dates import MARKS

_MARK = re.compile(f"[{MARKS}]")
_EDGES = f" \t\r\n\u00a0\u202f{MARKS}"
_PHRASE_CHARS = 80

_DELETED = """
This message was deleted|You deleted this message|This message was deleted by admin|
Diese Nachricht wurde gelöscht|Du hast diese Nachricht gelöscht|Se eliminó este mensaje|Este mensaje fue eliminado|Eliminaste este mensaje|
Ce message a été supprimé|Vous avez supprimé ce message|Mensagem apagada|Esta mensagem foi apagada|Você apagou esta mensagem|
Apagou esta mensagem|Esta mensagem foi eliminada|Questo messaggio è stato eliminato|Hai eliminato questo messaggio|
Dit bericht is verwijderd|Dit bericht werd verwijderd|U hebt dit bericht verwijderd|Je hebt dit bericht verwijderd|
Ta wiadomość została usunięta|Usunięto tę wiadomość|Ta wiadomość została skasowana|Данное сообщение удалено|Это сообщение удалено|
Вы удалили данное сообщение|Bu mesaj silindi|Bu mesajı sildiniz|Pesan ini telah dihapus|Anda menghapus pesan ini|
Det här meddelandet togs bort|Du tog bort det här meddelandet|S'ha eliminat aquest missatge|このメッセージは削除されました|此消息已删除|此訊息已刪除
"""
_OMITTED = """
Media omitted|Medien ausgeschlossen|Medien weggelassen|Multimedia omitido|Archivo omitido|Médias omis|Fichier omis|Média omis|
Media omessi|Media esclusi|Mídia oculta|Mídia omitida|Arquivo de mídia oculto|Ficheiro não revelado|Ficheiro omitido|Media weggelaten|
Pominięto multimedia|Multimedia pominięto|Plik pominięty|Без медиафайлов|Файл пропущен|Medya dahil edilmedi|Media tidak disertakan|
Mediaa ei otettu mukaan|Media utelämnat|Media utelatt|Mèdia omès|メディアは含まれていません|
省略多媒体文件|忽略多媒體檔|미디어 파일을 생략한 메시지입니다
"""
_MISSED = """
Missed voice call|Missed video call|Missed group voice call|Missed group video call|Missed call|Silenced voice call|Silenced video call|
Verpasster Sprachanruf|Verpasster Videoanruf|Verpasster Gruppenanruf|Llamada perdida|Llamada de voz perdida|Videollamada perdida|
Llamada grupal perdida|Appel vocal manqué|Appel vidéo manqué|Appel manqué|Chamada de voz perdida|Chamada de vídeo perdida|Ligação perdida|
Ligação de voz perdida|Ligação de vídeo perdida|Chamada perdida|Chiamata persa|Chiamata vocale persa|Videochiamata persa|
Gemiste spraakoproep|Gemiste video-oproep|Gemiste oproep|Nieodebrane połączenie głosowe|Nieodebrane połączenie wideo|
Пропущенный аудиозвонок|Пропущенный видеозвонок|Cevapsız sesli arama|Cevapsız görüntülü arama
"""
_CALLS = """
Voice call|Video call|Group call|Sprachanruf|Videoanruf|Llamada de voz|Videollamada|Appel vocal|Appel vidéo|Chamada de voz|Chamada de vídeo|
Ligação de voz|Ligação de vídeo|Chiamata vocale|Videochiamata|Spraakoproep|Video-oproep|Аудиозвонок|Видеозвонок|Sesli arama|Görüntülü arama
"""
_EDITED = """
This message was edited|Diese Nachricht wurde bearbeitet|Se editó este mensaje|Este mensaje fue editado|Ce message a été modifié|
Esta mensagem foi editada|Mensagem editada|Questo messaggio è stato modificato|Dit bericht is bewerkt|Dit bericht is gewijzigd|
Ta wiadomość została edytowana|Сообщение изменено|Данное сообщение изменено|Bu mesaj düzenlendi|S'ha editat aquest missatge
"""
_LIVE_LOCATION = """
live location shared|Live location shared|Live-Standort wird geteilt|Live-Standort geteilt|Ubicación en tiempo real compartida|
Localisation en direct partagée|Localização em tempo real compartilhada|Localização atual partilhada|Posizione in tempo reale condivisa|
Live locatie gedeeld
"""

# Nouns of "image omitted" and its like, and the participles that follow them.
_NOUNS = {
    "media": "image|picture|photo|video|audio|gif|document|video note|voice message|bild|foto|dokument|videonachricht|imagen|vídeo|documento|"
    "vidéo|imagem|áudio|immagine|afbeelding|görüntü|ses|belge|изображение|видео|аудио|документ|imatge|àudio|nota de video|nota de vídeo",
    "sticker": "sticker|figurinha|autocolante|çıkartma|стикер|adhesiu",
    "contact": "contact card|kontaktkarte|tarjeta de contacto|fiche contact|carte de contact|cartão de contato|cartão de contacto|"
    "scheda contatto|contactkaart|kişi kartı",
}
_PARTICIPLES = (
    "omitted|weggelassen|ausgelassen|omitido|omitida|omis|omise|absent|absente|manquant|manquante|oculto|oculta|ocultado|ocultada|omesso|omessa|"
    "non incluso|weggelaten|dahil edilmedi|пропущено|пропущен|опущено|отсутствует|omès|omesa"
)
_FILE_ATTACHED = (
    "file attached|Datei angehängt|archivo adjunto|fichier joint|arquivo anexado|ficheiro anexado|file allegato|bestand bijgevoegd|"
    "plik załączony|załączono plik|файл добавлен|файл прикреплён|dosya ekli|fitxer adjunt|tiedosto liitetty|bifogad fil|fil vedhæftet|file terlampir"
)
_ATTACHED = "attached|Anhang|adjunto|pièce jointe|anexado|anexo|allegato|bijgevoegd|załączono|прикреплено|вложение|ekli|ek|adjunt|bifogad"
_POLL = "POLL|UMFRAGE|ENCUESTA|SONDAGE|ENQUETE|SONDAGEM|SONDAGGIO|PEILING|ANKIETA|ОПРОС|ANKET"


def _phrases(text: str) -> list[str]:
    return [phrase.strip().casefold() for phrase in text.split("|")]


_EXACT = {
    **dict.fromkeys(_phrases(_DELETED), "deleted"),
    **dict.fromkeys(_phrases(_MISSED), "call"),
    **dict.fromkeys(_phrases(_CALLS), "call"),
    **dict.fromkeys(_phrases(_LIVE_LOCATION), "location"),
    **dict.fromkeys((f"<{phrase}>" for phrase in _phrases(_OMITTED)), "media"),
    "null": "media",  # what older Android versions print for view-once media
}
_KIND_OF_NOUN = {noun: kind for kind, nouns in _NOUNS.items() for noun in nouns.split("|")}
_NOUN_OMITTED = re.compile(rf"(?:^|[{MARKS}])({'|'.join(_KIND_OF_NOUN)}) (?:{_PARTICIPLES})\.?$", re.IGNORECASE)
_CALL_DETAIL = re.compile(
    rf"({'|'.join(map(re.escape, _phrases(_MISSED)))})\b.{{0,60}}$|({'|'.join(map(re.escape, _phrases(_CALLS)))})[,.] ?[{MARKS}]*"
    r"(?:\d+ ?\w{1,8}\b.{0,20}|no answer|keine antwort|sin respuesta|sans réponse|sem resposta|nessuna risposta|geen antwoord)$",
    re.IGNORECASE | re.DOTALL,
)
_EDIT_MARK = re.compile(rf"<(?:{'|'.join(_phrases(_EDITED))})\.?>$", re.IGNORECASE)
_ATTACHMENT = re.compile(rf"<(?:{_ATTACHED})\s?: ?([^<>\n]+)>$", re.IGNORECASE)
_FILE = re.compile(rf"([^\n]{{1,200}}?\.\w{{1,5}}) \((?:{_FILE_ATTACHED})\)(?:\n|$)", re.IGNORECASE)
_POLL_START = re.compile(rf"(?:{_POLL})\s?:\s*\n", re.IGNORECASE)
_PLACE = re.compile(r"(?:[^\W\d][^:\n]{2,30}: )?https?://(?:maps\.google\.|(?:www\.)?google\.\w+/maps|maps\.app\.goo\.gl/|foursquare\.com/v/)\S*$")
_ENCRYPTION = re.compile(
    r"(?:messages|nachrichten|los mensajes|les messages|as mensagens|i messaggi|berichten)\b.{0,60}"
    r"(?:end-to-end|ende-zu-ende|extremo a extremo|bout en bout|ponta a ponta)",
    re.IGNORECASE,
)

# The first or last words of phrases that need a regular expression: most texts are ruled out by one look-up.
_CALL_STARTS = frozenset(phrase.split()[0] for phrase in _phrases(_MISSED) + _phrases(_CALLS))
_ENCRYPTION_STARTS = frozenset({"messages", "nachrichten", "los", "les", "as", "i", "berichten"})
_PARTICIPLE_ENDS = frozenset(word.split()[-1] for word in _PARTICIPLES.split("|"))


def unmarked(text: str) -> str:
    """The text without invisible direction marks and without space around it."""
    if not text.isascii():
        text = _MARK.sub("", text)
    return text.strip(_EDGES)


def classify(raw: str, bracketed: bool) -> tuple[str, str]:
    """Kind and text of what stands after ``author: ``.

    Captions of media are text: they say something. Bare media, stickers, deleted messages have no text.

    Args:
        raw: the text with its invisible marks; on iOS a mark in front tells the app's own words from a person's.
        bracketed: whether the file is of the iOS form ``[date, time]``.
    """
    raw = raw.strip(" \t\r\n\u00a0\u202f")
    if raw.endswith(">"):
        raw = _EDIT_MARK.sub("", raw).rstrip(_EDGES)
        if found := _ATTACHMENT.search(raw):
            return _with_caption(_kind_of_file(found.group(1)), unmarked(raw[: found.start()]))
    text = unmarked(raw)
    first, last = text.partition(" ")[0].casefold(), text[text.rfind(" ") + 1 :].rstrip(".").casefold()
    if len(text) <= _PHRASE_CHARS:
        if kind := _EXACT.get(text.rstrip(" .").casefold()):
            return kind, text if kind == "call" else ""
        if first.rstrip(",.") in _CALL_STARTS and _CALL_DETAIL.match(text):
            return "call", text
    if text.startswith("<") and (kind := _EXACT.get(text.partition("\n")[0].rstrip(" .").casefold())):
        return _with_caption(kind, text.partition("\n")[2])
    if last in _PARTICIPLE_ENDS and (found := _NOUN_OMITTED.search(raw)):
        before = unmarked(raw[: found.start()])
        return _with_caption(_KIND_OF_NOUN[found.group(1).casefold()], "" if "•" in before or _is_file_name(before) else before)
    if ")" in text and (found := _FILE.match(text)):
        return _with_caption(_kind_of_file(found.group(1)), unmarked(text[found.end() :]))
    if "\n" in text and _POLL_START.match(text):
        return "poll", text
    if "://" in text and _PLACE.match(text):
        return "location", text
    if (bracketed and raw.startswith("\u200e")) or (first in _ENCRYPTION_STARTS and _ENCRYPTION.match(text)):
        return "system", text
    return "text", text


def classify_unsigned(raw: str) -> tuple[str, str]:
    """Kind and text of a line without an author: a system line, or a call."""
    text = unmarked(raw)
    called = _EXACT.get(text.rstrip(" .").casefold()) == "call" or _CALL_DETAIL.match(text)
    return "call" if called else "system", text


def _with_caption(kind: str, caption: str) -> tuple[str, str]:
    return ("text", caption) if caption else (kind, "")


def _is_file_name(text: str) -> bool:
    return re.fullmatch(r"[^\n]{1,200}\.\w{1,5}", text) is not None


def _kind_of_file(name: str) -> str:
    lowered = name.casefold()
    if lowered.endswith(".vcf"):
        return "contact"
    return "sticker" if lowered.endswith(".webp") or "stk-" in lowered or "-sticker-" in lowered else "media"
