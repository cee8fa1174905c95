"""Measurements of speed that ``bench/`` left as JSON, as tables, and what was aimed for.

A folder holds one file a measurement: ``extraction*.json`` from ``bench/extraction.py``,
``workers*.json`` from ``bench/workers.py``, ``start*.json`` from ``bench/start.py``,
``memory*.json`` from ``bench/memory.py``, ``precision*.json`` from ``bench/precision.py``,
``armorm_drill*.json`` from ``bench/armorm_drill.py``. Cards come before CPUs, then files by name.

``ways``     one row a way of running a set of items: ``WAYS``
``totals``   one row a set: ours beside the other ways: ``TOTALS``
``workers``  one row a run on several GPUs beside one: ``WORKERS``
``starts``   one row a first score, and what a run takes beyond its model: ``STARTS``
``memory``   one row a long run and its memory: ``MEMORY``
``precision`` one row a number type and packing: ``PRECISION``
``drill``    one row a figure of a full-size model that was saved, loaded and scored: ``DRILL``
``targets``  one row an aim and measurement of it: ``TARGETS``
``files``    one row a file, whatever made it: ``FILES``

Columns of ``WAYS``: ``card``, ``model``, ``set``, ``items``; ``way``, as the script calls it;
``seconds_per_1000`` items; ``ratio``, those seconds as a multiple of those of ours; ``tokens``
that were computed, padding too; ``tokens_per_second``; ``peak_gb``, of the card's memory, on a
CPU the process's so far; ``ours``, is it the best of ours? ``file``.

Columns of ``TOTALS``: ``card``, ``model``, ``set``, ``items``; ``share_of_limit``, of the matmul
rate, and ``share_of_held``, of that which the card holds for seconds; ``vs_single``,
``vs_padded``, ``vs_sorted``, ``vs_best``, how many times as fast ours is as one at a time, as
padded in the order of the data, as the fastest length-sorted way, as the fastest other way;
``encoding_s_per_1000``, seconds of tokenising, in no other column; ``budget``, tokens a row of
the best of ours; ``needed``, tokens that must be computed, shared ones once;
``matmul_tflops``, ``held_tflops``, these rates; ``device``, ``GPU`` or ``CPU``; ``command``,
``file``.

Columns of ``WORKERS``: ``card``, ``workers``, ``items``; ``one_s``, ``all_s``, seconds of one
and of all; ``ratio``; ``forward_s``, of one's model alone; ``overhead``, ``one_s`` over that,
less one; ``gather_s``; ``device``, ``command``, ``file``.

Columns of ``STARTS``: ``card``, ``model``; ``first_score_s``, ``slowest_first_score_s``, seconds
from the start of a process to a score, the shortest and the longest; ``items``, ``extract_s``,
seconds of a whole run of these; ``forward_s``, those of its model in that run; ``overhead``, as
above; ``device``, ``command``, ``file``.

Columns of ``MEMORY``: ``card``, ``responses``; ``piece_items``, held at a time; ``seconds``;
``first_mib``, ``last_mib``, resident memory once the first tenth and once all are done, and
``most_mib``, the most after any tenth; ``opened_mib``, with the run opened, ``read_mib``, with
a slice of its states read; ``device``, ``command``, ``file``.

Columns of ``PRECISION``: ``card``, ``model``, ``items``; ``way``; ``spread_median``,
``spread_most``, root mean square of a head's differences from float32 one at a time, in its
standard deviations, for the median head and the one with most; ``largest`` of all; ``ties``,
``ties_if_rounded``, shares of pairs, for the head with most; ``sides_median``, ``sides_most``,
shares of pairs that change sides; ``device``, ``command``, ``file``.

Columns of ``TARGETS``: ``what``; ``aim``; ``least``, is it a least or a most? ``found``;
``outcome``, ``reached``, ``missed`` or ``not measured``; ``set``, ``items``, ``card``, ``file``,
empty where nothing was measured; ``device``; ``measure``, the column that ``found`` is from.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from lib import documents, paths
from lib.errors import DataError

WAYS = (
    *("card", "model", "set", "items", "way", "seconds_per_1000", "ratio", "tokens"),
    *("tokens_per_second", "peak_gb", "ours", "file"),
)
TOTALS = (
    *("card", "model", "set", "items", "share_of_limit", "share_of_held", "vs_single"),
    *("vs_padded", "vs_sorted", "vs_best", "encoding_s_per_1000", "budget", "needed"),
    *("matmul_tflops", "held_tflops"),
    *("device", "command", "file"),
)
WORKERS = (
    *("card", "workers", "items", "one_s", "all_s", "ratio", "forward_s", "overhead", "gather_s"),
    *("device", "command", "file"),
)
STARTS = (
    *("card", "model", "first_score_s", "slowest_first_score_s", "items", "extract_s"),
    *("forward_s", "overhead", "device", "command", "file"),
)
MEMORY = (
    *("card", "responses", "piece_items", "seconds", "first_mib", "last_mib", "most_mib"),
    *("opened_mib", "read_mib", "device", "command", "file"),
)
PRECISION = (
    *("card", "model", "items", "way", "spread_median", "spread_most", "largest"),
    *("ties", "ties_if_rounded", "sides_median", "sides_most", "device", "command", "file"),
)
DRILL = ("card", "figure", "value", "file")
TARGETS = (
    *("what", "aim", "least", "found", "outcome", "set", "items", "card", "device", "measure"),
    "file",
)
FILES = ("file", "card", "date", "command", "note")
SINGLE, PADDED, SORTED, OURS = "one at a time", "padded 32", "sorted", "ours"
REACHED, MISSED, NOT_MEASURED = "reached", "missed", "not measured"
NEAR = 0.01  # by which a stated ratio may differ from that of the seconds


class Target(NamedTuple):
    """An aim of the project for its speed.

    Attributes
    ----------
    device
        ``GPU`` or ``CPU``.
    table
        Whose row it is compared with: ``totals``, ``workers`` or ``starts``.
    set
        Of items, in ``totals``.
    measure
        Column of that table.
    what
        In words.
    aim
        Its least value, or its most where ``least`` is false.
    items
        A measurement on fewer doesn't count.
    """

    device: str
    table: str
    set: str
    measure: str
    what: str
    aim: float
    items: int = 1
    least: bool = True


OUTSIDE = "time outside of the model as a share of that in it"
AIMS = (
    Target("GPU", "totals", "hh-rlhf", "vs_single", "speed-up over one at a time", 21, 1000),
    Target(
        "GPU", "totals", "hh-rlhf", "vs_sorted", "speed-up over length-sorted batches", 2.1, 1000
    ),
    Target(
        "GPU", "totals", "hh-rlhf", "share_of_limit", "share of the card's matmul rate", 0.75, 1000
    ),
    Target("GPU", "totals", "rm-bench", "vs_sorted", "speed-up over length-sorted batches", 1.45),
    Target("GPU", "workers", "", "ratio", "speed-up of two GPUs over one", 1.9),
    Target("GPU", "workers", "", "overhead", OUTSIDE, 0.05, 1, False),
    Target("CPU", "totals", "hh-rlhf", "vs_best", "speed-up over the fastest other way", 1.45),
    Target("CPU", "totals", "rm-bench", "vs_best", "speed-up over the fastest other way", 1.2),
    Target("CPU", "starts", "", "first_score_s", "seconds to a first score", 8, 1, False),
    Target("CPU", "starts", "", "overhead", OUTSIDE, 0.05, 1, False),
)


def ways(folder: str | Path) -> pd.DataFrame:
    """Each way of running each set of items, in the order in which the script names them.

    Parameters
    ----------
    folder
        Of measurements, as given when absolute or there, else within the checkout.

    Returns
    -------
    DataFrame
        Columns ``WAYS``, a row a set of items and way.

    Raises
    ------
    DataError
        When the folder holds no measurement, or a file isn't what its script writes: not JSON,
        a number missing, negative or not finite, no way of ours, or a stated ratio that
        differs from that of the seconds.
    """
    return _frame([row for found in _sets(folder) for row in found.ways()], WAYS)


def totals(folder: str | Path) -> pd.DataFrame:
    """Ours beside the other ways, a row a set; ratios are those of the seconds.

    Returns
    -------
    DataFrame
        Columns ``TOTALS``.

    Raises
    ------
    DataError
        As ``ways`` raises it.
    """
    return _frame([found.total() for found in _sets(folder)], TOTALS)


def workers(folder: str | Path) -> pd.DataFrame:
    """Several GPUs beside one.

    Returns
    -------
    DataFrame
        Columns ``WORKERS``, a row a file.

    Raises
    ------
    DataError
        As ``ways`` raises it.
    """
    rows = []
    for path, held in _named(folder, "workers"):
        names = ("workers", "items", "one_s", "all_s", "forward_s", "gather_s")
        row = {name: _number(held, name, path) for name in names}
        row |= {"workers": int(row["workers"]), "items": int(row["items"])}
        row["ratio"] = row["one_s"] / row["all_s"]
        row["overhead"] = row["one_s"] / row["forward_s"] - 1
        _agree(held, {"ratio": row["ratio"]}, path)
        rows.append(row | _origin(held, path))
    return _frame(rows, WORKERS)


def starts(folder: str | Path) -> pd.DataFrame:
    """First scores, and whole runs beside their model alone.

    Returns
    -------
    DataFrame
        Columns ``STARTS``, a row a file.

    Raises
    ------
    DataError
        As ``ways`` raises it.
    """
    rows = []
    for path, held in _named(folder, "start"):
        names = ("first_score_s", "slowest_first_score_s", "items", "extract_s", "forward_s")
        row = {name: _number(held, name, path) for name in names}
        row |= {"model": str(held.get("model", "")), "items": int(row["items"])}
        row["overhead"] = row["extract_s"] / row["forward_s"] - 1
        rows.append(row | _origin(held, path))
    return _frame(rows, STARTS)


def memory(folder: str | Path) -> pd.DataFrame:
    """Memory of runs that are read and written piece by piece.

    Returns
    -------
    DataFrame
        Columns ``MEMORY``, a row a file.

    Raises
    ------
    DataError
        As ``ways`` raises it.
    """
    rows = []
    for path, held in _named(folder, "memory"):
        names = ("responses", "piece_items", "seconds", "opened_mib", "read_mib")
        row = {name: _number(held, name, path) for name in names}
        tenths = held.get("tenths_mib")
        if not isinstance(tenths, list) or not tenths:
            raise _unlike("memory after each tenth", tenths, path)
        tenths = [_number({"tenths_mib": each}, "tenths_mib", path) for each in tenths]
        row |= {name: int(row[name]) for name in ("responses", "piece_items")}
        row |= {"first_mib": tenths[0], "last_mib": tenths[-1], "most_mib": max(tenths)}
        rows.append(row | _origin(held, path))
    return _frame(rows, MEMORY)


def precision(folder: str | Path) -> pd.DataFrame:
    """Scores in a number type beside those in float32.

    Returns
    -------
    DataFrame
        Columns ``PRECISION``, a row a file and number type.

    Raises
    ------
    DataError
        As ``ways`` raises it.
    """
    rows = []
    for path, held in _named(folder, "precision"):
        about = {"model": str(held.get("model", "")), "items": int(_number(held, "items", path))}
        found = held.get("ways")
        if not isinstance(found, dict) or not all(isinstance(w, dict) for w in found.values()):
            raise _unlike("an object for each number type", found, path)
        for way, figures in found.items():
            shares = {name: _number(figures, name, path, least=0) for name in PRECISION[4:11]}
            rows.append(about | {"way": way} | shares | _origin(held, path))
    return _frame(rows, PRECISION)


def drill(folder: str | Path) -> pd.DataFrame:
    """Figures of the full-size model, in their file's words; values are text.

    Returns
    -------
    DataFrame
        Columns ``DRILL``, a row a figure.

    Raises
    ------
    DataError
        As ``ways`` raises it.
    """
    rows = []
    for path, held in _named(folder, "armorm_drill"):
        for figure, value in held.items():
            if figure not in ("card", "command", "date", "note"):
                rows.append({"figure": figure, "value": _text(value)} | _origin(held, path))
    return _frame(rows, DRILL)


def files(folder: str | Path) -> pd.DataFrame:
    """Every measurement of the folder, with its note where it has one.

    Returns
    -------
    DataFrame
        Columns ``FILES``, a row a file.

    Raises
    ------
    DataError
        As ``ways`` raises it.
    """
    rows = [
        _origin(held, path) | {key: str(held.get(key, "")) for key in ("date", "note")}
        for path, held in _documents(folder)
    ]
    return _frame(rows, FILES)


def targets(totals: pd.DataFrame, workers: pd.DataFrame, starts: pd.DataFrame) -> pd.DataFrame:
    """What was aimed for beside what was measured, a row each pair of them.

    Parameters
    ----------
    totals, workers, starts
        As the functions of these names return them.

    Returns
    -------
    DataFrame
        Columns ``TARGETS``; an aim that nothing was measured for has a row too.
    """
    tables = {"workers": workers[workers["workers"] == 2], "starts": starts}
    rows = []
    for aim in AIMS:
        table = totals[totals["set"] == aim.set] if aim.table == "totals" else tables[aim.table]
        fitting = table[(table["device"] == aim.device) & (table["items"] >= aim.items)]
        stated = {
            "what": aim.what,
            "aim": float(aim.aim),
            "least": aim.least,
            "set": aim.set,
            "device": aim.device,
            "measure": aim.measure,
        }
        for row in fitting.to_dict("records"):
            found = row[aim.measure]
            met = found >= aim.aim if aim.least else found <= aim.aim
            stated_here = {"found": found, "outcome": REACHED if met else MISSED}
            rows.append(stated | stated_here | {key: row[key] for key in ("items", "card", "file")})
        if fitting.empty:
            nothing = {"found": math.nan, "outcome": NOT_MEASURED, "items": 0}
            rows.append(stated | nothing | {"card": "", "file": ""})
    return _frame(rows, TARGETS)


# ---- Reading ----


class _Set(NamedTuple):
    """What one file says of one set of items."""

    name: str
    held: Mapping[str, Any]
    whole: Mapping[str, Any]
    path: Path

    def ways(self) -> list[dict[str, Any]]:
        seconds = self._seconds()
        best = self._best(seconds)
        tokens, peaks = (self._mapping(name) for name in ("tokens", "peak_gb"))
        rows = []
        for way, took in seconds.items():
            count = _number(tokens, way, self.path)
            rows.append(
                self._origin()
                | {
                    "way": way,
                    "seconds_per_1000": took,
                    "ratio": took / seconds[best],
                    "tokens": int(count),
                    "tokens_per_second": 1000 * count / self._items() / took,
                    "peak_gb": _number(peaks, way, self.path),
                    "ours": way == best,
                }
            )
        return rows

    def total(self) -> dict[str, Any]:
        seconds = self._seconds()
        best = self._best(seconds)
        others = {way: took for way, took in seconds.items() if not way.startswith(OURS)}
        fastest = {
            "vs_single": _number(seconds, SINGLE, self.path),
            "vs_padded": _number(seconds, PADDED, self.path),
            "vs_sorted": self._least(w for w in others if w.startswith(SORTED)),
            "vs_best": min(others.values()),
        }
        ratios = {name: took / seconds[best] for name, took in fastest.items()}
        _agree(self.held, ratios, self.path)
        stated = {
            name: _number(self.held, name, self.path)
            for name in ("share_of_limit", "share_of_held", "encoding_s_per_1000")
        }
        return (
            self._origin()
            | ratios
            | stated
            | {
                "budget": _budget(best, self.path),
                "needed": int(_number(self._mapping("tokens"), "needed", self.path)),
                "matmul_tflops": _number(self.whole, "matmul_tflops", self.path),
                "held_tflops": _number(self.whole, "held_tflops", self.path),
            }
        )

    def _origin(self) -> dict[str, Any]:
        own = {"model": str(self.whole.get("model", "")), "set": self.name, "items": self._items()}
        return _origin(self.whole, self.path) | own

    def _items(self) -> int:
        return int(_number(self.held, "items", self.path))

    def _mapping(self, name: str) -> Mapping[str, Any]:
        found = self.held.get(name)
        if not isinstance(found, dict):
            raise _unlike(f"{name} of each way of {self.name}", found, self.path)
        return found

    def _seconds(self) -> dict[str, float]:
        held = self._mapping("seconds_per_1000")
        return {way: _number(held, way, self.path) for way in held}

    def _least(self, names: Iterator[str]) -> float:
        seconds = self._seconds()
        found = [seconds[name] for name in names]
        if not found:
            raise _unlike(f"a length-sorted way of {self.name}", ", ".join(seconds), self.path)
        return min(found)

    def _best(self, seconds: Mapping[str, float]) -> str:
        own = [way for way in seconds if way.startswith(OURS)]
        if not own:
            raise _unlike(f"a way of ours among those of {self.name}", list(seconds), self.path)
        return min(own, key=seconds.__getitem__)


def _sets(folder: str | Path) -> list[_Set]:
    found = []
    for path, whole in _named(folder, "extraction"):
        sets = {name: held for name, held in whole.items() if isinstance(held, dict)}
        if not sets:
            raise _unlike("a set of items", ", ".join(whole), path)
        found += [_Set(name, held, whole, path) for name, held in sets.items()]
    return found


def _named(folder: str | Path, start: str) -> list[tuple[Path, dict[str, Any]]]:
    return [(path, held) for path, held in _documents(folder) if path.name.startswith(start)]


def _documents(folder: str | Path) -> list[tuple[Path, dict[str, Any]]]:
    """The files of a folder and what they hold; those of cards before those of CPUs."""
    found = [(path, _document(path)) for path in sorted(paths.found(folder).glob("*.json"))]
    if not found:
        raise DataError(
            f"measurements (*.json) in {folder}", "none", "Run bench/extraction.py --json."
        )
    return sorted(found, key=lambda each: _origin(each[1], each[0])["device"] == "CPU")


def _document(path: Path) -> dict[str, Any]:
    try:
        held = documents.parse_json(path.read_bytes())
    except (OSError, ValueError) as error:
        raise _unlike("JSON", error, path) from None
    if not isinstance(held, dict):
        raise _unlike("an object", type(held).__name__, path)
    return held


def _origin(held: Mapping[str, Any], path: Path) -> dict[str, str]:
    card = str(held.get("card", ""))
    device = "CPU" if card == "cpu" or card.endswith("thread(s)") else "GPU"
    command = str(held.get("command", ""))
    return {"card": card, "device": device, "command": command, "file": path.name}


def _number(held: Mapping[str, Any], name: str, path: Path, least: float | None = None) -> float:
    """A number above zero, or of at least ``least``."""
    value = held.get(name)
    good = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not good or not math.isfinite(value) or (value <= 0 if least is None else value < least):
        needed = "above 0" if least is None else f"of {least:g} or more"
        raise _unlike(f"a number {needed} for {name!r}", repr(value), path)
    return float(value)


def _agree(held: Mapping[str, Any], ratios: Mapping[str, float], path: Path) -> None:
    for name, ratio in ratios.items():
        if name in held and not math.isclose(_number(held, name, path), ratio, rel_tol=NEAR):
            raise _unlike(f"{name} of {ratio:.3f}, that of the seconds", held[name], path)


def _budget(way: str, path: Path) -> int:
    figure = way.removeprefix(OURS).strip().replace(",", "")
    if not figure.isdecimal():
        raise _unlike("a way of ours named by its tokens a row", repr(way), path)
    return int(figure)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _unlike(needed: str, found: Any, path: Path) -> DataError:
    return DataError(f"{needed} in {path.name}", str(found), "Measure again with its script.")


def _frame(rows: list[dict[str, Any]], columns: tuple[str, ...]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=list(columns))
