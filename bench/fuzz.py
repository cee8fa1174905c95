"""Mutated documents at every place where the program reads what others wrote.

Each is a valid document changed in a few places: values of other types, parts left out, put
twice or swapped, deep nests, huge numbers, long texts, half surrogate pairs, NULs, cut and
overwritten bytes. What reads it must give a right result or an ``AuditError``, within
``LIMIT`` seconds and ``ROOM`` bytes. Each surface is read in a process of its own, whose
memory is limited::

    python bench/fuzz.py                       # 200 of each surface
    python bench/fuzz.py --examples 1000 --surface audit

Documents that failed are written to ``--keep``; ``tests/fuzz`` holds those of before, which
``tests/test_fuzz.py`` reads again each time.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import math
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "models")]

from lib.errors import AuditError  # noqa: E402

LIMIT = 10  # seconds a document
ROOM = 1 << 30  # bytes above what the process has before the first
CORPUS = ROOT / "tests" / "fuzz"


# ---- Mutation ----

DEEP = "@deep@"  # stands for a nest, which no encoder would write
LONG = "x" * 100_000
ODD_TEXTS = [
    "", "\0", "a\0b", "\ud800", "\x1b[2J\x1b]0;x\x07", "‮", "../..", "/etc/passwd", "{x}", "<b>",
    "{{ 1/0 }}", "{% for i in range(10**9) %}x{% endfor %}", "NaN", "1e999", "null", "true",
    "file:", "http://127.0.0.1:1/x", "x" * 300, LONG, "é", "\n", "DEBUG", "-1", DEEP,
]  # fmt: skip
ODD_NUMBERS = [
    0, -1, 1, 2, 7, 255, 2**31, 2**63, -(2**63), 2**64, 10**8, 10**99, 10**400, 0.5, -0.0, 1e308,
    math.nan, math.inf, -math.inf, 1e-320,
]  # fmt: skip
SCALARS = (
    st.none() | st.booleans() | st.sampled_from(ODD_NUMBERS) | st.sampled_from(ODD_TEXTS)
    | st.integers() | st.floats() | st.text(max_size=8)
)  # fmt: skip
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(ODD_TEXTS) | st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=6,
)


def places(value, at=()) -> list[tuple]:
    """The path to every value within another."""
    found = [at]
    pairs = value.items() if isinstance(value, dict) else ()
    pairs = enumerate(value[:50]) if isinstance(value, list) else pairs
    for key, inner in pairs:
        found += places(inner, (*at, key))
    return found


@st.composite
def mutated(draw, document):
    """A document of plain JSON, changed in one to four places."""
    document = json.loads(json.dumps(document))
    for _ in range(draw(st.integers(1, 4))):
        spots = places(document)
        # Every level alike: most values lie deep, where little of them is read.
        depth = draw(st.sampled_from(sorted({len(spot) for spot in spots})))
        spot = draw(st.sampled_from([spot for spot in spots if len(spot) == depth]))
        if not spot:
            if draw(st.integers(0, 9)) == 0:
                return draw(VALUES)
            continue
        holder = document
        for key in spot[:-1]:
            holder = holder[key]
        key = spot[-1]
        kind = draw(st.sampled_from(("value", "value", "near", "drop", "rename", "copy", "swap")))
        if kind == "value":
            holder[key] = draw(VALUES)
        elif kind == "near":
            holder[key] = draw(near(holder[key]))
        elif kind == "drop":
            del holder[key]
        elif kind == "copy":
            other = draw(st.sampled_from(spots))
            copied = document
            for part in other:
                copied = copied[part]
            holder[key] = json.loads(json.dumps(copied))
        elif isinstance(holder, list):
            holder.insert(draw(st.integers(0, len(holder))), holder[key])
        elif kind == "rename":
            holder[draw(st.sampled_from(ODD_TEXTS) | st.text(max_size=5))] = holder.pop(key)
        else:
            other = draw(st.sampled_from(list(holder)))
            holder[key], holder[other] = holder[other], holder[key]
    return document


@st.composite
def near(draw, value):
    """A value of the same kind, or one step away from it."""
    if isinstance(value, bool) or value is None:
        return draw(st.sampled_from([True, False, None, 0, 1, "true"]))
    if isinstance(value, int | float):
        return draw(
            st.sampled_from([value + 1, value - 1, -value, value * 2, float(value), str(value)])
            | st.sampled_from(ODD_NUMBERS)
        )
    if isinstance(value, str):
        return draw(
            st.sampled_from([value * 2, value[: len(value) // 2], [value], {value: value}])
            | st.sampled_from(ODD_TEXTS).map(lambda text: value + text)
        )
    return draw(st.sampled_from([[value], {"a": value}, [], {}, list(value), str(value)[:1000]]))


def encoded(document) -> bytes:
    text = json.dumps(document)
    return text.replace(json.dumps(DEEP), "[" * 3000 + "]" * 3000).encode()


@st.composite
def damaged(draw, content: bytes, words: tuple[bytes, ...] = ()):
    """Bytes with some cut, put twice, or written over."""
    for _ in range(draw(st.integers(1, 3))):
        at, end = sorted(draw(st.integers(0, len(content))) for _ in range(2))
        kind = draw(st.sampled_from(("cut", "end", "twice", "over", "insert")))
        if kind == "cut":
            content = content[:at] + content[min(end, at + 40) :]
        elif kind == "end":
            content = content[:at]
        elif kind == "twice":
            content = content[:end] + content[at:end][:2000] + content[end:]
        else:
            put = draw(st.binary(min_size=1, max_size=6) | st.sampled_from(words or (b"\0",)))
            content = content[:at] + put + content[at + len(put) * (kind == "over") :]
    return content


JSON_WORDS = (
    b"[" * 5000, b'{"a":' * 5000, b"9" * 5000, b"\\ud800", b"\\u0000", b"NaN", b"1e999", b"\xff",
    b"\xef\xbb\xbf", b'"', b"\r", b"null", b"{", b"}", b",", b"\n",
)  # fmt: skip
YAML_WORDS = (
    b"!!int abc", b"!!python/object/apply:os.system [echo]", b"!!timestamp 2020-13-45",
    b"2020-13-45", b"&a [*a, *a]", b"*a", b"&a ", b"<<: *a", b"!!binary x", b"!!set {a}",
    b"!!omap [a]", b"? [a]\n", b"!!float x", b"0x" + b"f" * 5000, b"1:2:3", b".nan", b".inf",
    b"---\n", b"...\n", b"%YAML 9.9\n", b"\t", b"- " * 3000, b"[" * 3000, b"{" * 3000,
    b'"\\ud800"', b'"\\0"', b"|\n", b">\n", b"# ", b"~", b"yes", b"1e400", b"!", b"!<x> y",
    b"!!null x", b"!!bool x", b"!!pairs [[a, b]]", b"\xff", b"\xef\xbb\xbf", b"\xff\xfe", b": ",
    b"- ", b"\n", b"  ", b"'", b'"', b"\xe2\x80\xa8", b"\x85", b"!!merge x", b"!!map [1]",
    b"!!seq {a: 1}", b"!!str [1]", b"=", b"!!value 3", b"9" * 5000,
)  # fmt: skip


def documents(document) -> st.SearchStrategy[bytes]:
    """A JSON document mutated, or its text."""
    whole = mutated(document).map(encoded)
    return whole | whole | whole | damaged(json.dumps(document).encode(), JSON_WORDS)


# ---- Surfaces ----


@dataclass
class Surface:
    """A place where documents are read.

    Attributes
    ----------
    content
        Draws bytes of a document.
    read
        Reads them; asserts that the result is right, or raises.
    """

    content: st.SearchStrategy[bytes]
    read: Callable[[bytes], None]


MADE: dict[str, Callable[[Path], Surface]] = {}


def surface(name: str):
    def register(make):
        MADE[name] = make
        return make

    return register


def scored(folder: Path) -> None:
    """A model of a folder scores two responses, each head a finite number."""
    from lib.data.items import Builder
    from lib.extraction import extract
    from lib.models import load_model

    model = load_model(str(folder))
    built = Builder("made up")
    built.add("0", "Name a word.", ["Fair.", "No."], [(0, 1, "preference", "all")], None)
    with tempfile.TemporaryDirectory() as store:
        run = extract(model, built.build(), store=store, progress=False)
    assert run["score"].shape == (2, len(model.heads))
    assert np.isfinite(run["score"].values).all()
    text = json.dumps(model.card)
    text.encode()


def checkpoint(folder: Path, file: str, write: str) -> Surface:
    import tiny

    getattr(tiny, write)(folder, **({"labels": 3} if write == "write_classifier" else {}))
    path = folder / file
    if file.endswith("index.json"):
        from safetensors.numpy import load_file

        keys = list(load_file(folder / "model.safetensors"))
        (folder / "model.safetensors").rename(folder / "a.safetensors")
        document = {
            "metadata": {"total_size": 1},
            "weight_map": dict.fromkeys(keys, "a.safetensors"),
        }
    elif file == "special_tokens_map.json":
        document = {"bos_token": tiny.BOS, "eos_token": {"content": tiny.EOT, "lstrip": False}}
    elif file == "training.json":
        document = {"split": {"train": ["0123456789abcdef"], "choose": ["x"], "rule": "r"}}
    elif file == "generation_config.json":
        document = {"_from_model_config": True, "eos_token_id": [1, 2], "max_length": 20,
                    "transformers_version": "5.0.0"}  # fmt: skip
    else:
        document = json.loads(path.read_text())

    def read(content: bytes) -> None:
        path.write_bytes(content)
        scored(folder)

    return Surface(documents(document), read)


for _file in (
    "config.json",
    "generation_config.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "tokenizer.json",
    "model.safetensors.index.json",
):
    MADE[f"classifier/{_file}"] = lambda folder, file=_file: checkpoint(
        folder, file, "write_classifier"
    )
for _file in ("config.json", "training.json"):
    MADE[f"armorm/{_file}"] = lambda folder, file=_file: checkpoint(folder, file, "write_armorm")


def _card(folder: Path, name: str) -> Surface:
    from lib.models import frozen

    shutil.copytree(ROOT / "lib" / "models" / name, folder / name)
    path = folder / name / frozen.CARD
    document = json.loads(path.read_text())
    document["split"] = {
        side: prompts[:3] if isinstance(prompts, list) else prompts
        for side, prompts in document["split"].items()
    }

    def read(content: bytes) -> None:
        path.write_bytes(content)
        parts = frozen.read(folder / name)
        assert len(parts.heads) == len(parts.weight)
        assert all(head.name.isprintable() for head in parts.heads)
        shown(parts.card, parts.heads)

    return Surface(documents(document), read)


def shown(card: dict, heads) -> None:
    """What pages read of a card."""
    assert all(isinstance(head.concept, str) for head in heads)
    json.dumps(card).encode()


MADE["card/smol-armo"] = lambda folder: _card(folder, "smol_armo")
MADE["card/smol-mixed"] = lambda folder: _card(folder, "smol_mixed")


def _small_run():
    from lib.extraction import load_run

    run = load_run(ROOT / "book" / "runs" / "smol-mixed" / "llmbar")
    run = run.isel(item=slice(0, 3))
    kept = np.flatnonzero(run["item_of_response"].values < 3)
    run = run.isel(response=kept)
    pairs = np.flatnonzero(
        np.isin(run["better"].values, run["response"].values)
        & np.isin(run["worse"].values, run["response"].values)
    )
    return run.isel(comparison=pairs)


@surface("run.json")
def _run(folder: Path) -> Surface:
    from lib.book import applies
    from lib.extraction import disk, load_run, sealed
    from lib.stats.winrates import validity

    disk.save_run(_small_run(), folder / "run")
    path = folder / "run" / disk.JSON
    document = json.loads(path.read_text())
    tensors, _ = sealed.load(folder / "run" / disk.TENSORS)

    def read(content: bytes) -> None:
        path.write_bytes(content)
        seal = {disk.JSON: hashlib.sha256(content).hexdigest()}
        sealed.save(folder / "run" / disk.TENSORS, tensors, **seal)
        applies.of_run(folder / "run")
        table = validity(load_run(folder / "run"))
        assert table["win_rate"].dropna().between(0, 1).all()

    return Surface(documents(document), read)


@surface("parts.json")
def _parts(folder: Path) -> Surface:
    from lib.extraction import disk, load_run, stream

    disk.save_run(_small_run(), folder / "run" / "part-00000")
    note = {"given": "x", "items": 3, "dropped": {}, "unscored": {}, "responses": 6}
    (folder / "run" / "part-00000.json").write_text(json.dumps(note))
    document = {"index": {"format": disk.FORMAT, "parts": 1}, "note": note}

    def read(content: bytes) -> None:
        try:
            whole = dict(json.loads(content))
        except (
            ValueError,
            TypeError,
            RecursionError,
        ):  # no two documents; of one damaged, other surfaces tell
            return
        for name, file in (("index", stream.INDEX), ("note", "part-00000.json")):
            (folder / "run" / file).write_text(json.dumps(whole.get(name)))
        assert load_run(folder / "run").sizes["item"] == 3

    return Surface(mutated(document).map(encoded), read)


@surface("manifest.json")
def _manifest(folder: Path) -> Surface:
    from lib.extraction import store

    manifest = {"model": {"weights": "a", "template": "b"}, "dtype": "float32", "packing": "trees",
                "items": "c", "versions": {"torch": "2"}}  # fmt: skip
    kept = folder / "store"
    document = manifest | {"decided": {"packing": "trees", "attention": "sdpa"}}

    def read(content: bytes) -> None:
        kept.mkdir(exist_ok=True)
        (kept / store.MANIFEST).write_bytes(content)
        with store.opened(kept, manifest, lambda: {"packing": "trees"}) as opened:
            assert all(isinstance(text, str) for text in opened.manifest["decided"].values())

    return Surface(documents(document), read)


PAIRS = [
    {"prompt": "Say a.", "chosen": "a", "rejected": "no", "subset": "s", "criterion": "c",
     "ratings": [{"help": 1.0}, {"help": 0.0}], "system": "Be kind.", "tie": False},
    {"prompt": [{"role": "user", "content": "Say b."}], "chosen": ["b", "B"], "rejected": ["no"],
     "subset": "t", "label": "a", "score_chosen": 2, "score_rejected": 1},
    {"prompt": "Say c.", "chosen": [{"role": "assistant", "content": "c"}],
     "rejected": [{"role": "assistant", "content": "d"}]},
]  # fmt: skip
UNPAIRED = [
    {"prompt": "Say a.", "completion": "a", "label": True},
    {"prompt": "Say a.", "completion": "no", "label": False},
    {"prompt": "Say b.", "completion": "b", "label": True},
]
MESSAGES = [
    {"messages": [{"role": "user", "content": "Say a."}, {"role": "assistant", "content": text}],
     "score": score} for text, score in (("a", 2.0), ("b", 1.5))
]  # fmt: skip
ASKED = "\n\nHuman: Say a word.\n\nAssistant: "
DIALOGUES = [
    {
        "chosen": f"{ASKED}a",
        "rejected": f"{ASKED}b",
    },
    {
        "chosen": f"{ASKED}c",
        "rejected": f"{ASKED}d",
    },
]


def sound(path: Path) -> None:
    """Items of a file that hang together, read whole and in pieces; its description."""
    from lib.data import load_items, stream_items

    items = load_items(f"file:{path}")
    rows = len(items.responses)
    assert items.comparisons["better"].between(0, rows - 1).all()
    assert items.comparisons["worse"].between(0, rows - 1).all()
    assert items.responses["text"].map(lambda text: isinstance(text, str)).all()
    for text in (*items.responses["text"], *items.comparisons["subset"], *items.dropped):
        text.encode()
    pieces = list(stream_items(f"file:{path}", size=1))
    assert sum(len(piece.responses) for piece in pieces) == rows


def lines(rows) -> bytes:
    return b"\n".join(map(encoded, rows if isinstance(rows, list) else [rows])) + b"\n"


def array(rows) -> bytes:
    return encoded(rows)


def table(rows) -> bytes:
    """CSV, values that are no texts in JSON."""
    rows = [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
    columns = list(dict.fromkeys(key for row in rows for key in row))

    def cell(value) -> str:
        text = value if isinstance(value, str) else "" if value is None else encoded(value).decode()
        return '"' + text.replace('"', '""') + '"'

    made = [",".join(map(cell, columns))]
    made += [",".join(cell(row.get(column)) for column in columns) for row in rows]
    return "\n".join(made).encode("utf-8", "surrogatepass")


def parquet(rows) -> bytes:
    """Parquet, as far as the rows can be written so; else as texts."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
    held = io.BytesIO()
    columns = dict.fromkeys(key for row in rows for key in row)
    arrays = {}
    for column in columns:
        values = [row.get(column) for row in rows]
        name = column.encode("utf-8", "replace").decode()
        try:
            arrays[name] = pa.array(values)
            pq.write_table(pa.table({name: arrays[name]}), io.BytesIO())
        except (pa.ArrowException, OverflowError, UnicodeEncodeError, TypeError, ValueError):
            arrays[name] = pa.array([encoded(value).decode() for value in values])
    pq.write_table(pa.table(arrays), held)
    return held.getvalue()


def _rows(folder: Path, kind: str, write) -> Surface:
    def read(content: bytes) -> None:
        path = folder / f"data.{kind}"
        path.write_bytes(content)
        sound(path)

    sets = [PAIRS, UNPAIRED, MESSAGES, DIALOGUES]
    words = JSON_WORDS if kind != "parquet" else (b"\0", b"\xff" * 8, b"PAR1")
    whole = st.one_of(*(mutated(each).map(write) for each in sets))
    return Surface(whole | whole | st.one_of(*(damaged(write(each), words) for each in sets)), read)


for _kind, _write in (("jsonl", lines), ("json", array), ("csv", table), ("parquet", parquet)):
    MADE[f"data.{_kind}"] = lambda folder, kind=_kind, write=_write: _rows(folder, kind, write)


def _audit(folder: Path, name: str) -> Surface:
    import yaml

    from lib.book import plan

    main = ROOT / "audit.yml"
    document = yaml.safe_load(main.read_text())
    other = {
        "page_minutes": 20,
        "audits": [
            {"model": "mine/m", "datasets": [{"name": "file:x.jsonl", "limit": 5, "seed": 1,
             "dtype": "float32", "parts": 2, "source": "s", "pages": ["data"]}], "pages": ["data"],
             "once": [{"notebook": "model", "datasets": "all"}]}
        ],
        "pages": [{"notebook": "compare", "model": "mine/m", "datasets": "all"}],
    }  # fmt: skip
    shutil.copy(main, folder / "audit.yml")

    def read(content: bytes) -> None:
        (folder / name).write_bytes(content)
        planned = plan.read(folder / "audit.yml")
        outputs = [page.output for page in planned.pages]
        assert len(outputs) == len(set(outputs))
        for place in (*outputs, *(run.folder for run in planned.runs)):
            assert ".." not in Path(place).parts and not Path(place).is_absolute()
            place.encode()

    sources = [document, other]
    whole = st.one_of(*(mutated(each) for each in sources)).map(encoded)  # JSON is YAML
    texts = [main.read_bytes(), yaml.safe_dump(other).encode()]
    return Surface(whole | st.one_of(*(damaged(text, YAML_WORDS) for text in texts)), read)


MADE["audit.yml"] = lambda folder: _audit(folder, "audit.yml")
MADE["audit.local.yml"] = lambda folder: _audit(folder, "audit.local.yml")


@surface("calibration")
def _calibration(folder: Path) -> Surface:
    from lib.calibration import kept
    from lib.planted.checks import COLUMNS, check, of

    row = check("a claim", "a world", "power", np.arange(10) > 1, at_least=0.8, note="n")
    wanted = {"code": "0123456789abcdef", "draws": 10, "seed": 0, "versions": {"numpy": "2"}}
    document = {**wanted, "made": "2026-01-01", "seconds": 1.0, "rows": [row, row]}

    def read(content: bytes) -> None:
        (folder / "geometry.json").write_bytes(content)
        found = kept.matches(folder / "geometry.json", wanted)
        if found is None:
            return
        table = pd.DataFrame(found["rows"], columns=None if found["rows"] else COLUMNS)
        table = table[list(COLUMNS)]
        of(table.assign(analysis="geometry"), "geometry")

    return Surface(documents(document), read)


@surface("record")
def _record(folder: Path) -> Surface:
    from lib import records
    from lib.book import status

    page = folder / "m" / "data.ipynb"
    page.parent.mkdir()
    page.write_text("{}")
    rows = {"Model": "m", "Extracted with": "torch 2", "Machine": "x86", "Seed": "0",
            "Commit": "0a1b2c3", "Run time": "3.2 s", "Made by": "papermill"}  # fmt: skip
    runs = [{"model": "m", "dataset": "xstest", "items": "def456"}]
    records.write("data", rows, page.parent, runs, ["validity"])
    path = records.of(page)
    document = json.loads(path.read_text())

    def read(content: bytes) -> None:
        path.write_bytes(content)
        assert all(path.parent == page.parent for path in records.tables(page))
        found = status.read(folder)
        status.takeaways(found)
        status.shared(found)

    return Surface(documents(document), read)


@surface("receipt")
def _receipt(folder: Path) -> Surface:
    from unittest import mock

    from lib import paths
    from lib.book import steps

    place = folder / steps.RECEIPTS
    place.joinpath("page").mkdir(parents=True)
    (folder / "made").write_text("made")
    step = steps.Step("page", "one", (), lambda: ["given"], lambda: ["word"], lambda: ["made"])
    with mock.patch.object(paths, "ROOT", folder):
        digest = steps._digest(step, steps.Digests(), {})
        made = {"made": steps.Digests().of("made")}
    held = (folder / "made").stat()
    about = [held.st_size, held.st_mtime_ns, held.st_ctime_ns, held.st_ino]
    known = {"digests": {"made": [*about, made["made"]]}}
    document = known | {"receipt": {"digest": digest, "made": made}}

    def read(content: bytes) -> None:
        (place / "page" / "one.json").write_bytes(content)
        (place / "digests.json").write_bytes(content)
        with suppress(ValueError, TypeError, AttributeError, RecursionError):
            whole = json.loads(content)
            for name, file in (("receipt", "page/one.json"), ("digests", "digests.json")):
                (place / file).write_text(json.dumps(whole.get(name)))
        with mock.patch.object(paths, "ROOT", folder):
            assert steps.stale({"page/one": step}) in ([], [step])

    return Surface(mutated(document).map(encoded), read)


# ---- Running ----


class HangError(BaseException):
    """A document took too long."""


@contextmanager
def bounded(seconds: float):
    """Inside, raise when it takes longer."""

    def late(*_):
        raise HangError(f"more than {seconds} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def outcome(read: Callable[[bytes], None], content: bytes) -> tuple[str, BaseException | None]:
    """``right``, ``refused``, or ``failed`` and by what."""
    try:
        with bounded(LIMIT):
            read(content)
    except AuditError as error:
        text = str(error)
        if len(text) > 20_000 or text != text.encode(errors="replace").decode():
            return "failed", error
        return "refused", None
    except (Exception, HangError) as error:
        return "failed", error
    return "right", None


def kept_name(name: str, content: bytes) -> str:
    return f"{name.replace('/', '-')}--{hashlib.sha256(content).hexdigest()[:10]}"


def run(name: str, examples: int, chosen: int, keep: Path | None) -> None:
    """Read so many documents of a surface; print how many of each outcome, as JSON."""
    with tempfile.TemporaryDirectory() as made:
        held = MADE[name](Path(made))
        counts, reasons, slowest = Counter(), {}, 0.0
        last = keep / f".last-{os.getpid()}" if keep else Path(made) / "last"
        outcome(held.read, b"{}")  # imports
        room = int(re.search(r"VmSize:\s+(\d+)", Path("/proc/self/status").read_text())[1]) * 1024
        resource.setrlimit(resource.RLIMIT_AS, (room + ROOM, resource.RLIM_INFINITY))

        @seed(chosen)
        @settings(
            max_examples=examples, database=None, deadline=None,
            suppress_health_check=list(HealthCheck),
        )  # fmt: skip
        @given(held.content)
        def each(content: bytes) -> None:
            nonlocal slowest
            last.write_bytes(content)
            began = time.monotonic()
            result, error = outcome(held.read, content)
            slowest = max(slowest, time.monotonic() - began)
            counts[result] += 1
            if error is not None:
                trace, places_ = error.__traceback__, []
                while trace:
                    code = trace.tb_frame.f_code
                    places_.append(f"{Path(code.co_filename).name}:{trace.tb_lineno}")
                    trace = trace.tb_next
                key = f"{type(error).__name__} at {' '.join(places_[-3:])}"
                if key not in reasons and keep:
                    (keep / kept_name(name, content)).write_bytes(content)
                reasons.setdefault(key, [0, kept_name(name, content), str(error)[:200]])[0] += 1

        each()
        last.unlink()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    print(json.dumps([dict(counts), reasons, round(slowest, 2), peak]))


def main() -> int:
    """Read documents of each surface in a process of its own, and tell what came of them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--examples", type=int, default=200, help="documents of each surface")
    parser.add_argument("--surface", action="append", help="one of: " + ", ".join(MADE))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=Path, help="folder for documents that failed")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.keep:
        given.keep.mkdir(parents=True, exist_ok=True)
    if given.inside:
        run(given.surface[0], given.examples, given.seed, given.keep)
        return 0
    total, failed = 0, 0
    print(f"{'surface':40} right refused failed  slowest  peak MB")
    for name in given.surface or MADE:
        command = [sys.executable, __file__, "--inside", "--surface", name, "--seed",
                   str(given.seed), "--examples", str(given.examples)]  # fmt: skip
        command += ["--keep", str(given.keep)] if given.keep else []
        settings_ = {
            "HF_HUB_OFFLINE": "1",
            "OMP_NUM_THREADS": "1",
            "TOKENIZERS_PARALLELISM": "false",
        }
        done = subprocess.run(command, capture_output=True, text=True, env=os.environ | settings_)
        if done.returncode:
            failed += 1
            print(f"{name:40} ended with {done.returncode}: {done.stderr[-1500:]}", flush=True)
            continue
        counts, reasons, slowest, peak = json.loads(done.stdout.splitlines()[-1])
        right, refused, bad = (counts.get(key, 0) for key in ("right", "refused", "failed"))
        total, failed = total + right + refused + bad, failed + bad
        print(f"{name:40} {right:5} {refused:7} {bad:6} {slowest:7.2f} s {peak:6}", flush=True)
        for key, (count, file, text) in reasons.items():
            print(f"    {count} × {key}: {text!a} ({file})", flush=True)
    print(f"{total} documents, {failed} failed")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
