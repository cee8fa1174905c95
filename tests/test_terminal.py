"""What a terminal shows fits it, and columns stand below one another."""

from lib import terminal


def test_numbers_end_and_texts_begin_below_one_another():
    cells = [("dataset", "n", "note"), ("a", "1200", ""), ("long name", "7", "few")]
    assert terminal.grid(cells, right=[1]) == [
        "dataset       n  note",
        "a          1200",
        "long name     7  few",
    ]


def test_lines_are_no_wider_than_the_terminal_and_keep_words_whole():
    assert [terminal.fitting(width) for width in (0, 80, 500)] == [60, 80, 120]
    told = terminal.wrapped("of a length-sorted way of running", 18, "- ", "    ")
    assert told == ["- of a", "    length-sorted", "    way of running"]
    assert terminal.wrapped("one two", 6, "  ") == ["  one", "  two"]
