"""What a terminal is sent holds no character that acts, wherever a text came from."""

import io
import json
import os
import subprocess
import sys

import nbformat
import numpy as np
import pytest
from safetensors.numpy import save_file

from lib import __main__ as shell
from lib import paths, visible
from lib.errors import DataError

# Of a terminal's language: colour, a window's title, a link; and what hides or turns a text.
EVIL = "\x1b[31mA\x1b]0;B\x07\x9b5mC\x9d8;;x\x9c\u202eD\u2066E\x7f\x08\rF"
ACTING = [chr(n) for n in (*range(9), *range(11, 32), *range(0x7F, 0xA0))]
ACTING += list("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def bare(text):
    """The text, once it is seen to hold nothing that acts."""
    assert not [character for character in ACTING if character in text], ascii(text)
    return text


@pytest.fixture
def said(capfdbinary):
    """What a command writes."""

    def run(*words, status=1):
        try:
            assert shell.main(list(map(os.fspath, words))) == status
        except SystemExit as ended:
            assert ended.code == status
        return bare("".join(part.decode("utf-8") for part in capfdbinary.readouterr()))

    return run


@pytest.fixture
def scored(said):
    def run(folder):
        words = ("--model", folder, "--dataset", "stimuli/controlled", "--limit", "2")
        return said("extract", *words, "--out", folder / "run")

    return run


def test_a_message_shows_what_would_act():
    error = DataError("a \x1b[1mfile", "one\0\u202e", "Mend it.")
    assert str(error) == "needed a ␛[1mfile; found one␀[U+202E]. Mend it."
    assert error.found == "one\0\u202e"


def test_a_name_that_is_not_known(said):
    assert "[31mA" in said("describe", EVIL)


def test_what_the_parser_of_the_command_refuses(said):
    assert "␛[31m" in said("describe", "stimuli/controlled", "--\x1b[31mx", status=2)


def test_names_of_files_and_folders(tmp_path, said, scored):
    folder = tmp_path / EVIL
    said("describe", f"file:{folder / 'none.jsonl'}")
    folder.mkdir()
    (folder / "pairs.jsonl").write_text('{"prompt": "q", "chosen": "a", "rejected": "b"}')
    assert "␛[31mA" in said("describe", f"file:{folder / 'pairs.jsonl'}", status=0)
    assert "␛[31mA" in scored(folder)


def test_columns_that_are_not_read_and_subsets(tmp_path, said):
    row = {"prompt": "q", "chosen": "a", "rejected": "b", EVIL: 1}
    (tmp_path / "a.jsonl").write_text(json.dumps(row))
    assert "[31mA" in said("describe", f"file:{tmp_path / 'a.jsonl'}", status=0)
    for place in ("subset", "criterion"):
        (tmp_path / "b.jsonl").write_text(json.dumps(row | {place: f"{EVIL}\0"}))
        said("describe", f"file:{tmp_path / 'b.jsonl'}")
    rated = {"prompt": "q", "responses": ["a", "b"], "ratings": [{EVIL: 1}, {EVIL: 2}]}
    (tmp_path / "c.jsonl").write_text(json.dumps(rated))
    said("describe", f"file:{tmp_path / 'c.jsonl'}")


def test_fields_of_a_configuration_and_tensors(tmp_path, scored):
    for index, config in enumerate(
        (
            {"architectures": [EVIL], "model_type": "llama"},
            {"model_type": EVIL},
            {"model_type": "llama", "id2label": {"0": f"{EVIL}\0"}},
            {
                "model_type": "llama",
                "architectures": ["LlamaForSequenceClassification"],
                EVIL: EVIL,
            },
        )
    ):
        folder = tmp_path / str(index)
        folder.mkdir()
        (folder / "config.json").write_text(json.dumps(config))
        save_file({f"{EVIL}.weight": np.ones((1, 4), np.float32)}, folder / "model.safetensors")
        scored(folder)


def test_names_of_a_card(tmp_path, scored):
    head = {"name": "a", "source": "b"}
    for index, changed in enumerate(({"name": EVIL}, {"concept": EVIL}, {"source": f"x{EVIL}"})):
        folder = tmp_path / str(index)
        folder.mkdir()
        card = {"heads": [head | changed], "split": {"train": []}}
        (folder / "card.json").write_text(json.dumps(card))
        weights = {"weight": np.ones((1, 576), np.float32), "bias": np.ones(1, np.float32)}
        save_file(weights, folder / "heads.safetensors")
        assert "heads.0." in scored(folder)


def test_an_error_of_a_cell(tmp_path, monkeypatch, said):
    book = nbformat.v4.new_notebook()
    declared = nbformat.v4.new_code_cell('x: str = ""  # x', metadata={"tags": ["parameters"]})
    raising = nbformat.v4.new_code_cell(f"raise ValueError({EVIL!r} + chr(0))")
    book.cells = [declared, raising]
    place = tmp_path / "notebooks"
    place.mkdir()
    nbformat.write(book, place / "evil.ipynb")
    monkeypatch.setattr(paths, "NOTEBOOKS", place)
    assert "␛[31mA" in said("page", "evil", "--out", tmp_path / "out" / "page.ipynb")


def test_the_bytes_that_a_terminal_gets(tmp_path):
    (tmp_path / EVIL).mkdir()
    done = subprocess.run(
        [sys.executable, "-m", "lib", "describe", f"file:{tmp_path / EVIL / 'none.jsonl'}"],
        env=os.environ | {"PYTHONIOENCODING": "utf-8"}, capture_output=True,
    )  # fmt: skip
    assert done.returncode == 1 and "␛[31mA" in bare((done.stdout + done.stderr).decode("utf-8"))


def test_what_nobody_caught(monkeypatch, capsys):
    with pytest.raises(SystemExit) as ended, visible.console():
        raise RuntimeError(EVIL)
    assert ended.value.code == 1
    text = capsys.readouterr().err
    assert "RuntimeError: ␛[31mA" in text and not set(ACTING) & set(text)


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_bar_moves_on_a_terminal_and_its_text_does_not(monkeypatch):
    from tqdm import tqdm

    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with visible.console(), tqdm(range(2), desc=EVIL, ascii=True) as outer:
        for _ in outer:
            list(tqdm(range(2), desc="inner", ascii=True, leave=False))
    text = terminal.getvalue()
    assert "\r␛[31mA" in text and "\n\r" in text.replace("\n\n", "\n")
    left = text.replace("\x1b[A", "").replace("\r", "")
    assert not set(ACTING) & set(left)
