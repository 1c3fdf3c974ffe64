"""Which files a home has to read."""

from __future__ import annotations

from pathlib import Path

import pytest

from subconscious_pipeline.errors import ConfigError
from subconscious_pipeline.home import Home
from subconscious_pipeline.readers.sources import load_sources, source_files
from subconscious_pipeline.settings import load_settings

SETTINGS = load_settings()


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home").create()


def lay(home: Home, *names: str) -> None:
    for name in names:
        path = home.sources / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")


def found(home: Home) -> list[tuple[str, str]]:
    return [(file.config.id, file.shown) for file in source_files(home, SETTINGS)]


def test_everything_under_sources_is_picked_up_with_exports_as_one(home: Home) -> None:
    lay(home, "b.txt", "a.jsonl", "deep/er/c.ics", ".hidden", ".git/x", "~$lock.txt", "slack/users.json", "slack/general/2026-03-30.json")
    lay(home, "bare/general/2026-03-30.json", "Maildir/cur/1", "Maildir/new/2", "Maildir/tmp/3")
    assert found(home) == [
        ("Maildir", "Maildir"), ("a.jsonl", "a.jsonl"), ("b.txt", "b.txt"), ("bare", "bare"), ("deep_er_c.ics", "deep/er/c.ics"), ("slack", "slack"),
    ]  # fmt: skip


def test_a_home_without_sources_has_none(tmp_path: Path) -> None:
    assert source_files(Home(tmp_path / "nowhere"), SETTINGS) == []


def test_a_link_back_to_a_folder_above_is_not_followed_for_ever(home: Home) -> None:
    lay(home, "deep/a.txt")
    (home.sources / "deep" / "loop").symlink_to(home.sources)
    assert [shown for _, shown in found(home)] == ["deep/a.txt"]


def test_a_broken_link_is_still_listed_so_that_somebody_says_so(home: Home) -> None:
    (home.sources / "gone.txt").symlink_to("nowhere")
    assert [shown for _, shown in found(home)] == ["gone.txt"]


def test_the_list_names_files_folders_and_globs(home: Home, tmp_path: Path) -> None:
    lay(home, "chats/a.txt", "chats/b.txt", "notes.jsonl", "unlisted.txt")
    (tmp_path / "elsewhere.ics").write_text("x")
    home.sources_yaml.write_text(
        f"sources:\n- {{id: chats, path: 'chats/*.txt', reader: whatsapp, date_order: dmy}}\n- {{id: cal, path: '{tmp_path}/elsewhere.ics'}}\n"
        "- {id: gone, path: gone.txt}\n- {id: none, path: 'none/*.txt'}\n"
    )
    assert found(home) == [
        ("chats", "chats/a.txt"), ("chats", "chats/b.txt"), ("cal", f"{tmp_path}/elsewhere.ics"), ("gone", "gone.txt"), ("none", "none/*.txt"),
    ]  # fmt: skip


def test_ids_of_files_are_stable_and_differ(home: Home) -> None:
    lay(home, "a.txt", "b.txt")
    first, again = source_files(home, SETTINGS), source_files(home, SETTINGS)
    assert [file.file_id for file in first] == [file.file_id for file in again]
    assert len({file.file_id for file in first}) == 2


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("sources: [", "line 1.*not valid YAML"),
        ("sources: {id: a}", "must be a list"),
        ("source:\n- {id: a, path: x}", "unknown key source"),
        ("sources:\n- {id: a}", "entry 1: path: Field required"),
        ("sources:\n- {id: a, path: x}\n- {id: 'b c', path: x}", "entry 2: id: "),
        ("sources:\n- {id: a, path: x, reader: telepathy}", "entry 1: reader: .*'telepathy'; choose one of slack"),
        ("sources:\n- {id: a, path: x, timezone: Mars/Olympus}", "entry 1: timezone: .*'Mars/Olympus' is not an IANA time zone"),
        ("sources:\n- {id: a, path: x, date_order: ydm}", "entry 1: date_order: "),
        ("sources:\n- {id: a, path: x, color: red}", "entry 1: color: "),
        ("sources:\n- {id: a, path: x}\n- {id: a, path: y}", "stand twice: a"),
        ("sources:\n- just text", "entry 1: "),
    ],
)
def test_a_wrong_list_is_refused_by_entry_and_field_in_one_line(home: Home, text: str, said: str) -> None:
    home.sources_yaml.write_text(text)
    with pytest.raises(ConfigError, match=said) as caught:
        load_sources(home)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["", "sources:\n", "sources: []\n", "# nothing yet\n"])
def test_an_empty_list_means_no_sources(home: Home, text: str) -> None:
    lay(home, "a.txt")
    home.sources_yaml.write_text(text)
    assert source_files(home, SETTINGS) == []
