from hypothesis import given, settings
from hypothesis import strategies as st

from subconscious_pipeline.extraction import prompt
from subconscious_pipeline.warehouse.transcript import render

from .windows import conversation, line, small, transcript


def test_the_constant_part_stays_under_a_thousand_tokens():
    assert prompt.estimate_tokens("".join(message["content"] for message in prompt.build(""))) < 1000


def test_the_transcript_is_the_user_message_untouched():
    text = "[m1] Ana: {{ 7*7 }} {% for x in y %} ```json ## [m2]"
    system, user = prompt.build(text)
    assert user == {"role": "user", "content": text}
    assert system["role"] == "system"


def test_text_that_no_request_can_carry_is_replaced():
    assert prompt.build("a\ud83db")[1]["content"] == "a?b"


def test_the_hash_is_that_of_the_canonical_form():
    assert prompt.prompt_hash([{"role": "user", "content": "ñ"}]) == prompt.prompt_hash([{"content": "ñ", "role": "user"}])
    # sha256 of [{"content":"\u00f1","role":"user"}]
    assert prompt.prompt_hash([{"role": "user", "content": "ñ"}]) == "515a8f55c3c82b6249b33d0a21a5f8890a5661b94ea973fa1ff4afed1425b446"
    assert prompt.prompt_hash(prompt.build("a")) != prompt.prompt_hash(prompt.build("b"))


def test_signs_digits_and_other_scripts_cost_more_than_english_letters():
    assert prompt.estimate_tokens("The boiler in the kitchen is leaking again.") == 13
    assert prompt.estimate_tokens("[m12] 2026-03-30 Mon 21:12 +02:00") == 19
    assert prompt.estimate_tokens("Горячая вода снова не работает") == 28
    assert prompt.estimate_tokens("厨房的锅炉又漏水了") == 14
    assert prompt.estimate_tokens("") == 0


def test_a_window_that_fits_is_one_call():
    whole = transcript(conversation(line(1)), conversation(line(2, ref="b"), title="B"))
    assert prompt.calls(whole, 24_000) == [whole.conversations]


def test_a_window_without_conversations_is_no_call():
    assert prompt.calls(transcript(), 24_000) == []


def test_a_window_too_long_is_cut_between_conversations_into_as_few_calls_as_hold_it():
    sizes = [300, 300, 600, 600]  # words; in their order they would take three calls
    chats = [conversation(line(n, "boiler " * size, ref=f"chat{n}"), title=f"chat{n}") for n, size in enumerate(sizes, 1)]
    limit = prompt.estimate_tokens(render(chats)) // 2 + 60
    parts = prompt.calls(transcript(*chats), limit)
    assert [[chat.title for chat in part] for part in parts] == [["chat1", "chat3"], ["chat2", "chat4"]]


def test_a_single_line_too_long_is_shortened_and_keeps_its_number():
    [[chat]] = prompt.calls(small("boiler " * 5000), 2000)
    assert chat.lines[0].n == 1
    assert chat.lines[0].text.endswith("…")
    assert 1800 < prompt.estimate_tokens(render([chat])) <= 2000


chats = st.lists(st.lists(st.text(max_size=400).map(lambda text: text.replace("\n", " ") * 3), min_size=1, max_size=12), min_size=1, max_size=6)


@settings(max_examples=60, deadline=None)
@given(chats=chats, limit=st.integers(200, 1500))
def test_every_line_is_asked_about_once_and_every_call_fits(chats, limit):
    numbers = iter(range(1, 1000))
    whole = transcript(
        *(conversation(*(line(next(numbers), text, ref=str(i)) for text in texts), title=f"chat {i}") for i, texts in enumerate(chats))
    )
    parts = prompt.calls(whole, limit)
    asked = [row for part in parts for chat in part for row in chat.lines]
    assert sorted(row.n for row in asked) == [row.n for row in whole.lines]
    assert all(prompt.estimate_tokens(render(part)) <= limit for part in parts)
    assert parts == prompt.calls(whole, limit)
    original = {row.n: row for row in whole.lines}
    assert all(row == original[row.n] or row.text.endswith("…") for row in asked)


def test_halves_fall_between_conversations_where_there_are_several():
    a, b, c = (conversation(line(n, "boiler " * 50, ref=str(n)), title=str(n)) for n in (1, 2, 3))
    assert prompt.halves([a, b, c]) in (((a,), (b, c)), ((a, b), (c,)))


def test_halves_of_one_conversation_fall_between_lines():
    [chat] = small("one", "two", "three", "four").conversations
    first, second = prompt.halves([chat])
    assert [row.n for row in first[0].lines] == [1, 2]
    assert [row.n for row in second[0].lines] == [3, 4]


def test_a_single_line_has_no_halves():
    assert prompt.halves(small("one").conversations) is None
