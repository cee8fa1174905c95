"""The same content in every layout gives the same items; what a layout can't say is refused."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from lib.data import file, layouts, load_items, stream_items
from lib.data.describe import describe
from lib.errors import DataError, ParameterError

PAIR = {"prompt": "q", "chosen": "a", "rejected": "b"}


def user(text):
    return {"role": "user", "content": text}


def assistant(text):
    return {"role": "assistant", "content": text}


def write(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return f"file:{path}"


@pytest.fixture
def load(tmp_path):
    def write_and_load(*rows, **options):
        return load_items(write(tmp_path / "pairs.jsonl", rows), **options)

    return write_and_load


texts = st.text(st.characters(codec="utf-8", exclude_characters="\r\0"), min_size=1).filter(
    lambda text: text.strip() and not text.lstrip().startswith("[")
)


@st.composite
def contents(draw):
    """System text or none, turns up to the user's last, and two responses."""
    system = draw(st.none() | texts)
    earlier = draw(st.lists(st.tuples(texts, texts), max_size=2))
    turns = [turn for q, a in earlier for turn in (user(q), assistant(a))] + [user(draw(texts))]
    better, worse = draw(st.lists(texts, min_size=2, max_size=2, unique=True))
    return system, turns, better, worse


def in_every_layout(system, turns, better, worse):
    """Of one content: by the layout's name, its rows and the rule that is told."""
    first = [{"role": "system", "content": system}] if system else []
    whole = [*first, *turns]
    yes, no = [assistant(better)], [assistant(worse)]
    apart = {"chosen": whole + yes, "rejected": whole + no}
    rated = [{"messages": whole + yes, "score": 2}, {"messages": whole + no, "score": 1}]
    pair = {"chosen": better, "rejected": worse}
    made = {
        "explicit": ([{"prompt": whole, **pair}], layouts.TEXTS),
        "system column": ([{"prompt": turns, "system": system, **pair}], layouts.TEXTS),
        "replies": ([{"prompt": whole, "chosen": yes, "rejected": no}], layouts.REPLIES),
        "implicit": ([apart], layouts.IMPLICIT),
        "repeated": ([{"prompt": turns[-1]["content"], **apart}], layouts.REPEATED),
        "repeated turns": ([{"prompt": whole, **apart}], layouts.REPEATED),
        "messages": (rated, layouts.MESSAGES.format("score")),
        "unpaired": (
            [
                {"prompt": whole, "completion": better, "label": True},
                {"prompt": whole, "completion": worse, "label": False},
            ],
            layouts.UNPAIRED.format("label"),
        ),
    }
    if len(turns) > 2:
        rest = len(first) + 1
        after = {"chosen": whole[rest:] + yes, "rejected": whole[rest:] + no}
        made["continued"] = ([{"prompt": whole[:rest], **after}], layouts.CONTINUED)
    return made


@settings(max_examples=20, deadline=None)
@given(contents())
def test_one_content_is_the_same_items_in_every_layout(content):
    system, turns, better, worse = content
    wanted = [{"role": "system", "content": system}, *turns] if system else turns
    with tempfile.TemporaryDirectory() as folder:
        for number, (name, (rows, rule)) in enumerate(in_every_layout(*content).items()):
            items = load_items(write(Path(folder) / f"{number}.jsonl", rows))
            assert items.prompts["prompt"][0] == wanted, name
            assert items.responses["text"].tolist() == [better, worse], name
            pairs = items.comparisons[["better", "worse"]].values.tolist()
            assert pairs == [[0, 1]], name
            assert items.about["layout"] == rule, name
            if number == 0:
                first = items.fingerprint
            assert items.fingerprint == first, name


@settings(max_examples=5, deadline=None, phases=(Phase.explicit, Phase.generate))
@given(contents())
def test_every_format_of_every_layout_holds_the_same_items(content):
    with tempfile.TemporaryDirectory() as folder:
        for rows, _ in in_every_layout(*content).values():
            wanted = load_items(write(Path(folder) / "a.jsonl", rows)).fingerprint
            lines = Path(folder) / "lines.json"
            write(lines, [*rows, *rows[:1]] if len(rows) == 1 else rows)
            (Path(folder) / "a.json").write_text(json.dumps(rows))
            frame = pd.DataFrame(rows)
            frame.to_parquet(Path(folder) / "a.parquet")
            cells = frame.map(lambda each: json.dumps(each) if isinstance(each, list) else each)
            cells.to_csv(Path(folder) / "a.csv", index=False, lineterminator="\n")
            semicolons = {"sep": ";", "quoting": csv.QUOTE_ALL, "lineterminator": "\n"}
            cells.to_csv(Path(folder) / "b.csv", index=False, **semicolons)
            cells.to_csv(Path(folder) / "a.tsv", index=False, sep="\t", lineterminator="\n")
            for name in ("a.json", "a.parquet", "a.csv", "b.csv", "a.tsv"):
                assert load_items(f"file:{Path(folder) / name}").fingerprint == wanted, name
            assert len(load_items(f"file:{lines}")) == (2 if len(rows) == 1 else 1)


def test_dialogues_of_human_and_assistant_are_told_apart(load):
    before = "\n\nHuman: q\n\nAssistant:"
    items = load({"chosen": f"{before} a", "rejected": f"{before} b"})
    assert items.prompts["prompt"][0] == [user("q")]
    assert items.responses["text"].tolist() == ["a", "b"]
    assert items.about["layout"] == layouts.DIALOGUES


def test_conversations_that_part_early_are_counted(load):
    row = {
        "chosen": [user("q"), assistant("a"), user("r"), assistant("b")],
        "rejected": [user("q"), assistant("x"), user("r"), assistant("c")],
    }
    items = load(
        row, {"chosen": [user("q"), assistant("a")], "rejected": [user("q"), assistant("b")]}
    )
    assert items.dropped == {layouts.PARTED: 1}
    assert items.prompts["item"].tolist() == ["1"]


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ({"chosen": "The sky is blue.", "rejected": "The sky is green."}, "a prompt column"),
        ({"text": "The sky is blue."}, "language modelling"),
        ({"messages": [user("q"), assistant("a")]}, "label, a score or a rating"),
        ({"prompt": "q", "completion": "a"}, "label, a score or a rating"),
        ({"prompt": "q", "completions": ["a"], "labels": [True]}, "Stepwise supervision"),
        ({"conversations": [{"from": "human", "value": "q"}]}, "ShareGPT"),
        (PAIR | {"prompt": [{"from": "human", "value": "q"}]}, "for 'from' and 'value'"),
        (PAIR | {"prompt": [user("q"), {"role": "tool", "content": "3"}]}, "of the role 'tool'"),
        (PAIR | {"prompt": [user([{"type": "text", "text": "q"}])]}, "as one text"),
        (PAIR | {"chosen": [assistant("a")]}, "turns with role and content; found 'b'"),
        ({"chosen": [user("q")], "rejected": [user("q")]}, "ends with the assistant's turn"),
        ({"chosen": [assistant("a")], "rejected": [assistant("b")]}, "a prompt in row 0"),
        (
            {"prompt": "z", **{k: [user("q"), assistant(k)] for k in ("chosen", "rejected")}},
            "that begin with their prompt in row 0",
        ),
        (PAIR | {"chosen": ["a", "b"], "rejected": ["b", "a"]}, "contradict each other"),
        (PAIR | {"tie": "perhaps"}, "true or false; found 'perhaps'"),
        (
            {"prompt": "q", "completion": "a", "label": "good"},
            "true, false or a number; found 'good'",
        ),
        (
            PAIR | {"system": "s", "prompt": [{"role": "system", "content": "t"}, user("q")]},
            "one system text",
        ),
        (PAIR | {"system": "\ud800"}, "half a surrogate pair"),
    ],
)
def test_what_a_layout_cannot_say_is_refused_by_name(load, row, told):
    with pytest.raises(DataError) as caught:
        load(row)
    assert told in str(caught.value)


@pytest.mark.parametrize(
    "said",
    [
        {"tie": True},
        {"tie": 1},
        {"tie": True, "chosen": ""},
        {"tie": True, "chosen": None, "rejected": None},
        {"label": "Tie"},
        {"winner": "tie (bothbad)"},
        {"score_chosen": 8, "score_rejected": 8.0},
        {"ratings": [{"x": 3}, {"x": 3}]},
        {"criterion": "x", "ratings": [{"x": 3, "y": 1}, {"x": 3, "y": 2}]},
    ],
)
def test_a_tie_is_dropped_and_counted(load, said):
    items = load(PAIR | said, PAIR)
    assert items.prompts["item"].tolist() == ["1"] and items.dropped == {"ties": 1}


@pytest.mark.parametrize(
    "said",
    [
        {"tie": False},
        {"tie": None},
        {"label": "chosen"},
        {"score_chosen": 8, "score_rejected": 7},
        {"criterion": "y", "ratings": [{"x": 3, "y": 2}, {"x": 3, "y": 1}]},
    ],
)
def test_what_says_no_tie_is_a_comparison(load, said):
    assert len(load(PAIR | said).comparisons) == 1


def test_ties_are_kept_as_items_without_a_comparison(load):
    rows = PAIR | {"tie": True}, PAIR
    items = load(*rows, ties="keep")
    assert items.responses["text"].tolist() == ["a", "b", "a", "b"]
    assert items.comparisons["item"].tolist() == ["1"] and items.dropped == {}
    with pytest.raises(ParameterError, match="'drop' or 'keep'"):
        load(*rows, ties="perhaps")


def test_kept_ties_are_described_and_streamed(tmp_path):
    name = write(tmp_path / "pairs.jsonl", [PAIR, PAIR | {"tie": True}])
    told = describe(stream_items(name, size=1, ties="keep"))
    assert told == describe(load_items(name, ties="keep"))
    assert "2 items, 4 responses, 1 comparison (" in told and "ties: kept" in told


def test_ties_of_published_sets_are_not_for_keeping():
    with pytest.raises(DataError, match="Only the ties of a file"):
        load_items("stimuli/probes", ties="keep")
    with pytest.raises(DataError, match="Only the ties of a file"):
        next(stream_items("hh-rlhf", ties="keep"))


cells = st.none() | st.text("aé \n\x1b\ud800", max_size=2)
plain = dict.fromkeys(("prompt", "chosen", "rejected"), cells)
named = dict.fromkeys(("subset", "criterion", "system"), cells)


@settings(max_examples=200, deadline=None)
@given(st.fixed_dictionaries(plain, optional=named))
def test_plain_rows_are_read_as_the_rules_read_them(row):
    def read():
        with tempfile.TemporaryDirectory() as folder:
            try:
                items = load_items(write(Path(folder) / "pairs.jsonl", [row, PAIR]))
            except DataError as error:
                return str(error)
            return items.fingerprint, items.dropped, items.about

    found = read()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(file, "_is_plain", lambda row: False)
        assert read() == found


def test_ties_in_a_table_are_words(tmp_path):
    (tmp_path / "a.csv").write_text("prompt,chosen,rejected,tie\nq,a,b,True\nq,,,1\nq,a,b,false\n")
    items = load_items(f"file:{tmp_path / 'a.csv'}")
    assert items.dropped == {"ties": 2} and items.prompts["item"].tolist() == ["2"]


def test_rated_rows_of_a_prompt_are_compared_where_they_differ(load):
    rows = [
        {"prompt": prompt, "completion": text, "score": score}
        for prompt, text, score in (
            ("q", "a", 2), ("r", "x", 1), ("q", "b", 3), ("q", "c", 2), ("r", "y", 1), ("s", "z", 1)
        )
    ]  # fmt: skip
    items = load(*rows)
    assert items.prompts["item"].tolist() == ["0"]
    assert items.responses["text"].tolist() == ["a", "b", "c"]
    assert items.comparisons[["better", "worse"]].values.tolist() == [[1, 0], [1, 2]]
    assert items.dropped == {"ties": 1, "prompts with one response": 1}


def test_columns_that_are_not_read_are_told(load):
    assert load(PAIR | {"id": 7, "tie": False}).about["not read"] == "id"


def test_pieces_tell_the_layout_too(tmp_path):
    name = write(tmp_path / "pairs.jsonl", [PAIR] * 5)
    assert {piece.about["layout"] for piece in stream_items(name, size=2)} == {layouts.TEXTS}


@pytest.mark.parametrize("mark", ["\0", "\n", "\x1b", "\x7f", "\u202e"])
@pytest.mark.parametrize(
    "row",
    [
        lambda name: {"subset": name},
        lambda name: {"criterion": name},
        lambda name: {"ratings": [{name: 1}, {}]},
    ],
    ids=["subset", "criterion", "rating"],
)
def test_a_name_with_a_control_character_is_refused(load, mark, row):
    with pytest.raises(DataError, match="row 0 of .* printable characters"):
        load(PAIR | row(f"x{mark}y"))


def test_names_in_any_script_are_kept(load):
    names = ["naïve", "日本語", "نیم\u200cفاصله", "👩\u200d🔬"]
    found = load(*(PAIR | {"subset": name} for name in names)).comparisons["subset"]
    assert found.tolist() == names


def test_a_table_parted_in_two_ways_is_read_by_commas(tmp_path):
    (tmp_path / "a.csv").write_text('prompt,chosen,rejected,"x;y"\nq,a,b,1\n')
    assert load_items(f"file:{tmp_path / 'a.csv'}").about["not read"] == "x;y"


def test_an_array_named_as_lines_is_called_one(tmp_path):
    (tmp_path / "a.jsonl").write_text(json.dumps([PAIR]))
    with pytest.raises(DataError, match=r"one JSON array, name it \.json"):
        load_items(f"file:{tmp_path / 'a.jsonl'}")


def test_a_description_prints_where_the_terminal_knows_ascii_alone(tmp_path):
    name = write(tmp_path / "pairs.jsonl", [PAIR | {"subset": "naïve"}])
    told = subprocess.run(
        [sys.executable, "-m", "lib", "describe", name.replace("pairs", "é")],
        env=os.environ | {"PYTHONIOENCODING": "ascii"}, capture_output=True, text=True,
    )  # fmt: skip
    assert "\\xe9" in told.stderr and told.returncode == 1
    (tmp_path / "pairs.jsonl").rename(tmp_path / "é.jsonl")
    told = subprocess.run(
        [sys.executable, "-m", "lib", "describe", name.replace("pairs", "é")],
        env=os.environ | {"PYTHONIOENCODING": "ascii"}, capture_output=True, text=True,
    )  # fmt: skip
    assert told.returncode == 0, told.stderr
    assert "1 item, 2 responses, 1 comparison (" in told.stdout
    assert f"layout: {layouts.TEXTS}" in told.stdout


def test_scored_responses_are_paired_within_their_criterion(tmp_path):
    rows = [
        {"prompt": "q", "completion": text, "score": score, "criterion": criterion}
        for criterion, scores in (("helpfulness", (2, 1)), ("safety", (0, 3)))
        for text, score in zip(("a", "b"), scores, strict=True)
    ]
    path = tmp_path / "rated.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    items = load_items(f"file:{path}")
    texts = items.responses["text"].to_numpy()
    found = {
        (row.criterion, texts[row.better], texts[row.worse])
        for row in items.comparisons.itertuples()
    }
    assert found == {("helpfulness", "a", "b"), ("safety", "b", "a")} and not items.dropped
