"""Settings from the environment, and what is said about bad ones."""

from __future__ import annotations

from datetime import UTC, date, datetime
from zoneinfo import ZoneInfo

import pytest
import tzlocal
from pydantic import ValidationError

from subconscious_pipeline.errors import ConfigError
from subconscious_pipeline.settings import load_settings


def test_defaults_keep_everything_on_this_machine() -> None:
    settings = load_settings()
    assert (settings.model, settings.window_hours, settings.awareness_tokens, settings.lookback_days) == ("local", 6, 100, 30)
    assert settings.start_at == datetime(2020, 1, 1, tzinfo=UTC)


def test_the_environment_sets_and_arguments_override(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUBCONSCIOUS_WINDOW_HOURS", "24")
    monkeypatch.setenv("SUBCONSCIOUS_MODEL", "openai/some-model")
    monkeypatch.setenv("SUBCONSCIOUS_START", "2024-02-01")
    settings = load_settings(model="replay", window_hours=None)
    assert (settings.window_hours, settings.model, settings.start) == (24, "replay", date(2024, 2, 1))


@pytest.mark.parametrize(("value", "names"), [("Ana, B C ,", ("Ana", "B C")), ("", ()), (" , ", ()), ("ana@example.org", ("ana@example.org",))])
def test_lists_are_comma_separated(monkeypatch: pytest.MonkeyPatch, value: str, names: tuple[str, ...]) -> None:
    monkeypatch.setenv("SUBCONSCIOUS_IGNORED_AUTHORS", value)
    assert load_settings().ignored_authors == names


@pytest.mark.parametrize(
    ("name", "value"),
    [("WINDOW_HOURS", "5"), ("WINDOW_HOURS", "0"), ("WINDOW_HOURS", "48"), ("TIMEZONE", "Mars/Olympus"), ("TIMEZONE", "Europe"), ("TIMEZONE", "../x"),
     ("DATE_ORDER", "ydm"), ("TOKEN_BUDGET", "many"), ("CONCURRENCY", "0")],
)  # fmt: skip
def test_a_bad_value_is_named_by_its_variable(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setenv(f"SUBCONSCIOUS_{name}", value)
    with pytest.raises(ConfigError, match=f"SUBCONSCIOUS_{name}: "):
        load_settings()


def test_all_bad_values_are_named_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        load_settings(window_hours=7, awareness_tokens=1)
    assert "SUBCONSCIOUS_WINDOW_HOURS" in str(caught.value)
    assert "SUBCONSCIOUS_AWARENESS_TOKENS" in str(caught.value)


def test_the_configured_zone_stands_and_else_the_machines(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as elsewhere:
        elsewhere.setenv("TZ", "Asia/Kolkata")
        tzlocal.reload_localzone()  # it remembers the first zone it saw in this process
        assert load_settings(timezone="Europe/Madrid").zone == ZoneInfo("Europe/Madrid")
        assert load_settings().zone == ZoneInfo("Asia/Kolkata")
    tzlocal.reload_localzone()


def test_settings_cannot_be_changed_afterwards() -> None:
    settings = load_settings()
    with pytest.raises(ValidationError):
        settings.model = "openai/x"  # type: ignore[misc]
