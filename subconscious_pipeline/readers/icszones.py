"""Time zones as calendars name them: IANA, Windows, display names, bare offsets, VTIMEZONE. An unknown name is said, never guessed."""

from __future__ import annotations

import re
from datetime import UTC, timedelta, timezone, tzinfo
from functools import cache
from typing import NamedTuple
from zoneinfo import ZoneInfo, available_timezones

from icalendar.cal import Timezone
from icalendar.timezone.windows_to_olson import WINDOWS_TO_OLSON

# Display names of Windows and of calendar services; keys without "(UTC+01:00)", lowercase, "&" for "and".
_DISPLAY = {
    "eastern time (us & canada)": "America/New_York", "eastern time": "America/New_York", "us eastern": "America/New_York",
    "eastern": "America/New_York", "indiana (east)": "America/Indiana/Indianapolis", "atlantic time (canada)": "America/Halifax",
    "atlantic time": "America/Halifax", "newfoundland": "America/St_Johns", "central time (us & canada)": "America/Chicago",
    "central time": "America/Chicago", "central": "America/Chicago", "mountain time (us & canada)": "America/Denver",
    "mountain time": "America/Denver", "mountain": "America/Denver", "arizona": "America/Phoenix",
    "pacific time (us & canada)": "America/Los_Angeles", "pacific time": "America/Los_Angeles", "pacific": "America/Los_Angeles",
    "baja california": "America/Tijuana", "alaska": "America/Anchorage", "hawaii": "Pacific/Honolulu", "saskatchewan": "America/Regina",
    "central america": "America/Guatemala", "guadalajara, mexico city, monterrey": "America/Mexico_City",
    "bogota, lima, quito, rio branco": "America/Bogota", "bogota, lima, quito": "America/Bogota", "caracas": "America/Caracas",
    "santiago": "America/Santiago", "brasilia": "America/Sao_Paulo", "city of buenos aires": "America/Argentina/Buenos_Aires",
    "buenos aires": "America/Argentina/Buenos_Aires", "montevideo": "America/Montevideo", "azores": "Atlantic/Azores",
    "coordinated universal time": "UTC", "greenwich mean time": "UTC", "dublin, edinburgh, lisbon, london": "Europe/London",
    "greenwich mean time : dublin, edinburgh, lisbon, london": "Europe/London", "london": "Europe/London", "casablanca": "Africa/Casablanca",
    "monrovia, reykjavik": "Atlantic/Reykjavik", "amsterdam, berlin, bern, rome, stockholm, vienna": "Europe/Berlin",
    "belgrade, bratislava, budapest, ljubljana, prague": "Europe/Budapest", "brussels, copenhagen, madrid, paris": "Europe/Paris",
    "sarajevo, skopje, warsaw, zagreb": "Europe/Warsaw", "west central africa": "Africa/Lagos", "central european time": "Europe/Berlin",
    "eastern european time": "Europe/Bucharest", "athens, bucharest": "Europe/Bucharest", "athens, bucharest, istanbul": "Europe/Bucharest",
    "helsinki, kyiv, riga, sofia, tallinn, vilnius": "Europe/Kiev", "istanbul": "Europe/Istanbul", "jerusalem": "Asia/Jerusalem",
    "cairo": "Africa/Cairo", "harare, pretoria": "Africa/Johannesburg", "nairobi": "Africa/Nairobi", "minsk": "Europe/Minsk",
    "moscow, st. petersburg": "Europe/Moscow", "moscow, st. petersburg, volgograd": "Europe/Moscow", "kuwait, riyadh": "Asia/Riyadh",
    "baghdad": "Asia/Baghdad", "tehran": "Asia/Tehran", "abu dhabi, muscat": "Asia/Dubai", "baku": "Asia/Baku", "kabul": "Asia/Kabul",
    "islamabad, karachi": "Asia/Karachi", "chennai, kolkata, mumbai, new delhi": "Asia/Kolkata", "india standard time": "Asia/Kolkata",
    "sri jayawardenepura": "Asia/Colombo", "kathmandu": "Asia/Kathmandu", "dhaka": "Asia/Dhaka", "bangkok, hanoi, jakarta": "Asia/Bangkok",
    "beijing, chongqing, hong kong, urumqi": "Asia/Shanghai", "kuala lumpur, singapore": "Asia/Singapore", "taipei": "Asia/Taipei",
    "perth": "Australia/Perth", "osaka, sapporo, tokyo": "Asia/Tokyo", "seoul": "Asia/Seoul", "adelaide": "Australia/Adelaide",
    "darwin": "Australia/Darwin", "brisbane": "Australia/Brisbane", "canberra, melbourne, sydney": "Australia/Sydney",
    "hobart": "Australia/Hobart", "auckland, wellington": "Pacific/Auckland", "fiji": "Pacific/Fiji",
}  # fmt: skip
_PREFIX = re.compile(r"^\((?:UTC|GMT)(?:[+-]\d{1,2}:?\d{2})?\)\s*", re.IGNORECASE)
_OFFSET = re.compile(r"^(?:UTC|GMT)?\s*([+-])(\d{1,2})(?::?(\d{2}))?$", re.IGNORECASE)
_ZONE_FAULTS = (ValueError, LookupError, TypeError, AttributeError, OverflowError)


class Zone(NamedTuple):
    """A zone that was found. `name` is its IANA name, "" when it has none."""

    info: tzinfo
    name: str


@cache
def _iana_names() -> dict[str, str]:
    return {name.lower(): name for name in available_timezones()}


@cache
def named_zone(tzid: str) -> Zone | None:
    """The zone of a TZID that stands for itself, whatever the file defines; None when the name says too little."""
    name = tzid.strip().strip('"').strip("/").strip()
    if name.lower() in ("utc", "z", "gmt", "etc/utc"):
        return Zone(UTC, "UTC")
    parts = name.split("/")
    candidates = [name, WINDOWS_TO_OLSON.get(name, "")]
    if tzid.strip().strip('"').startswith("/"):  # "/vendor.example/2024/Europe/Berlin"
        candidates += ["/".join(parts[at:]) for at in range(1, len(parts))]
    display = " ".join(_PREFIX.sub("", name).lower().replace(" and ", " & ").split())
    candidates += [_DISPLAY.get(display, ""), WINDOWS_TO_OLSON.get(_PREFIX.sub("", name), "")]
    for candidate in candidates:
        if known := _iana_names().get(candidate.lower()):
            return Zone(ZoneInfo(known), known)
    if match := _OFFSET.match(name):
        sign, hours, minutes = match.groups()
        offset = timedelta(hours=int(hours), minutes=int(minutes or 0))
        if offset <= timedelta(hours=14):
            return Zone(timezone(-offset if sign == "-" else offset), "")
    return None


def defined_zone(source: str) -> Zone | None:
    """The zone a VTIMEZONE describes, from its source text; None when it is broken."""
    try:
        component = Timezone.from_ical(source)
        if not isinstance(component, Timezone):
            return None
        return Zone(component.to_tz(lookup_tzid=False), "")
    except _ZONE_FAULTS:
        return None
