"""Measures of a text: values worked out by hand."""

from __future__ import annotations

import math
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lib.data import measures


def test_words_keep_apostrophes_and_leave_digits():
    assert measures.words("Don't stop, it’s 3 cats' turn.") == [
        "Don't",
        "stop",
        "it’s",
        "cats",
        "turn",
    ]


@pytest.mark.parametrize(
    ("text", "count"), [("", 0), ("Hi!", 2), ("Don't go.", 5), ("3.5 kg", 4), ("a_b c", 2)]
)
def test_tokens_are_words_numbers_and_marks(text, count):
    assert measures.n_tokens(text) == count


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("One. Two! Three?", 3),
        ("No end", 1),
        ('He said "Stop." Then he left.', 2),
        ("a line\nanother\n\nand a third", 3),
        ("It weighs 3.5 kg", 1),
        ("Wait... what?!", 2),
        ("...", 1),
        ("", 1),
    ],
)
def test_sentences_end_at_marks_and_lines(text, count):
    assert measures.n_sentences(text) == count


@pytest.mark.parametrize(
    ("word", "count"),
    [
        ("cat", 1),
        ("the", 1),
        ("make", 1),
        ("whole", 1),
        ("table", 2),
        ("agree", 2),
        ("walked", 1),
        ("wanted", 2),
        ("Banana", 3),
        ("hmm", 1),
    ],
)
def test_syllables(word, count):
    assert measures.n_syllables(word) == count


def test_reading_ease_of_a_known_sentence():
    # 6 words, 1 sentence, 6 syllables: 206.835 − 1.015·6 − 84.6·1.
    assert measures.flesch("The cat sat on the mat.") == pytest.approx(116.145)
    # 4 words, 2 sentences, 8 syllables (a-gree 2, ta-ble 2, ba-na-na 3, cat 1).
    assert measures.flesch("Agree, table. Banana cat!") == pytest.approx(206.835 - 2.03 - 169.2)


def test_without_words_there_is_no_reading_ease_and_no_word_length():
    assert math.isnan(measures.flesch("1 + 1 = 2"))
    assert math.isnan(measures.lexical_complexity("42"))


def test_mean_word_length():
    assert measures.lexical_complexity("A bird sang, 1 time") == (1 + 4 + 4 + 4) / 4


@pytest.mark.parametrize(
    ("text", "marks"),
    [
        ("# Title\n- one\n* two\n1. three\n> four", 5),
        ("**bold** and `code` and **more**", 3),
        ("```\nx\n```", 2),
        ("| a | b |\n| 1 | 2 |", 2),
        ("2 * 3 - 1, #1 of a-b. 1.5 **", 0),
        ("plain", 0),
    ],
)
def test_formatting_marks(text, marks):
    assert measures.formatting(text) == marks


@pytest.mark.parametrize(
    "text",
    [
        "I'm sorry, but I can't help with that.",
        "I’m sorry, but that is off limits.",
        "I cannot assist with this request.",
        "Thanks for asking. I won't write that.",
        "As an AI language model I am unable to do so.",
        "That isn't something I can do.",
    ],
)
def test_texts_that_open_by_declining(text):
    assert measures.is_refusal(text)


@pytest.mark.parametrize(
    "text",
    [
        "Sure! Here is how.",
        "The word 'sorry' comes from Old English.",
        "You can't boil water at 50 degrees.",
        "A " + "very " * 40 + "long answer. I can't say more.",
    ],
)
def test_texts_that_answer(text):
    assert not measures.is_refusal(text)


@pytest.mark.parametrize(
    # a b c a b c has the 3-grams abc, bca, cab, abc: one of four came before.
    ("text", "share"),
    [("a b c a b c", 0.25), ("A b c, a B C", 0.25), ("a a a a a", 2 / 3), ("a b", 0), ("", 0)],
)
def test_repetition_is_the_share_of_three_grams_seen_before(text, share):
    assert measures.repetition(text) == pytest.approx(share)


def test_copied_words_are_distinct_ones_of_four_letters_or_more():
    assert measures.copied("How does a vacuum flask work?", "A Vacuum flask: the flask works.") == 2
    assert measures.copied("", "A vacuum flask") == measures.copied("Who is it?", "It is who") == 0


def test_ngrams_and_their_overlap():
    assert measures.ngrams("One two, three", 3) == {("one", "two", ","), ("two", ",", "three")}
    assert measures.ngrams("Hi there", 5) == {("hi", "there")}
    a, b = measures.ngrams("a b c d", 2), measures.ngrams("b c d e", 2)
    assert measures.jaccard(a, b) == 2 / 4
    assert measures.jaccard(frozenset(), frozenset()) == 0


@given(st.text(max_size=80), st.text(max_size=80))
@settings(deadline=None, max_examples=50)
def test_no_text_breaks_a_measure_and_counts_add_up(first, second):
    both = f"{first} {second}"
    assert measures.n_tokens(both) == measures.n_tokens(first) + measures.n_tokens(second)
    assert 0 <= measures.repetition(both) < 1
    assert measures.n_sentences(both) >= 1
    assert measures.is_refusal(both) in (True, False)
    assert math.isnan(measures.flesch(both)) == (not measures.words(both))


def test_a_long_run_of_marks_takes_no_longer_than_its_length():
    started = time.process_time()
    assert measures.n_sentences("One" + "." * 100_000 + "a Two... Three?! Four.") == 3
    assert time.process_time() - started < 2
