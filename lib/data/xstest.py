"""XSTest: safe prompts that sound unsafe, unsafe ones that resemble them, judged answers.

Two annotators labelled each completion as full compliance, partial refusal or full refusal.
The comparisons are ours: two completions of one prompt whose final labels differ, where
compliance > partial > refusal if the prompt is safe and the reverse if it is unsafe. An item
is a prompt with at least one labelled completion, so that a head can be trained on the
``refusal`` column (0, ½, 1) even where there is nothing to compare.

``xstest_prompts.csv`` says which prompts are safe. Completion ``v2-N`` belongs to prompt
``N``; the one prompt whose wording changed since (195) is shown as the models saw it. Most
comparisons are on safe prompts (143 of the 149 between GPT-4 and Llama-2 with its original
system prompt), so the set says more about needless refusals than about harm.

A source folder holds ``xstest_prompts.csv`` and completions of at least one model
(``gpt4.csv``, ``gpt4_gpteval.csv`` or the authors' names), or is a checkout of the authors'
repository.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from pathlib import Path

from lib.data import github, sources
from lib.data.items import Builder, Found
from lib.data.rows import check_columns
from lib.errors import DataError

REPOSITORY = "paul-rottger/xstest"
REVISION = "d7bb5bd738c1fcbc36edd83d5e7d1b71a3e2d84d"
MODELS = ("gpt4", "llama2orig", "llama2new", "mistralinstruct", "mistralguard")
PARTS = ()
WHOLE = True
SPLITS = ("test",)
REFUSAL = {"1_full_compliance": 0.0, "3_partial_refusal": 0.5, "2_full_refusal": 1.0}
CRITERION = "appropriateness"
SUBSETS = {"safe": "should-respond", "unsafe": "should-refuse"}
ABOUT = {
    "licence": "CC-BY-4.0 (prompts); completions under their models' licences",
    "origin": f"github.com/{REPOSITORY} at {REVISION[:8]}, or its files in a folder",
    "citation": "Röttger et al. (2024), XSTest: A Test Suite for Identifying Exaggerated Safety "
    "Behaviours in Large Language Models",
    "cite": "rottger2024xstest",
}

_PROMPTS = "xstest_prompts"


def items(builder: Builder, part: None, split: str, source: str | None) -> Iterator[Found]:
    """Prompts with a labelled completion; models without completions are missing."""
    prompts = _prompts(github.find(source, _PROMPTS, pin=(REPOSITORY, REVISION, f"{_PROMPTS}.csv")))
    answers: dict[str, dict[str, float]] = {number: {} for number in prompts}
    wording: dict[str, str] = {}

    def find(model: str, required: bool):
        stems = _stems(model)
        pin = (REPOSITORY, REVISION, f"{stems[0]}.csv")
        return github.find(source, *stems, required=required, pin=pin)

    for _, path in sources.parts(None, MODELS, find, builder):
        for row in sources.read_rows(path):
            found = _completion(row, prompts, path.name)
            if isinstance(found, str):
                yield found
                continue
            number, prompt, text, refusal = found
            if prompt != wording.setdefault(number, prompt):
                yield "prompts differ"
            elif text in answers[number]:
                yield "repeated completion"
            else:
                answers[number][text] = refusal
    for number, given in answers.items():
        if given:
            refusal = list(given.values())
            pairs = compare(refusal, prompts[number]["label"])
            ratings = [{"refusal": value} for value in refusal]
            yield number, wording[number], list(given), pairs, ratings
        else:
            yield "no labelled completion"


def compare(refusal: list[float], label: str) -> list[tuple[int, int, str, str]]:
    """Comparisons of each two completions that differ, given how far each refuses (0, ½, 1)."""
    out = []
    for first, second in combinations(range(len(refusal)), 2):
        if refusal[first] == refusal[second]:
            continue
        complies, declines = sorted((first, second), key=lambda slot: refusal[slot])
        better, worse = (complies, declines) if label == "safe" else (declines, complies)
        out.append((better, worse, CRITERION, SUBSETS[label]))
    return out


def _stems(model: str) -> tuple[str, ...]:
    published = f"xstest_v2_completions_{model}"
    return (
        f"model_completions/{published}",
        f"evaluation/automated_evaluation_labels/{published}_gpteval",
        *(f"{stem}{suffix}" for stem in (model, published) for suffix in ("", "_gpteval")),
    )


def _prompts(path: Path) -> dict[str, dict]:
    """Rows of the prompts' file by their number, in order."""
    prompts = {}
    for row in sources.read_rows(path):
        _check(row, ("id", "type", "label"), path.name)
        if row["label"] not in SUBSETS:
            raise DataError(
                f"label safe or unsafe in {path.name}",
                f"{row['label']!r} at prompt {row['id']}",
                "Check that the file is XSTest's own.",
            )
        prompts[str(row["id"])] = row
    return prompts


def _completion(
    row: dict, prompts: dict[str, dict], file: str
) -> tuple[str, str, str, float] | str:
    """Prompt number, prompt, completion and refusal of a row, or the reason to drop it."""
    _check(row, ("id", "type", "prompt", "completion", "final_label"), file)
    number = str(row["id"]).removeprefix("v2-")
    if number not in prompts:
        return "no such prompt"
    if row["type"] != prompts[number]["type"]:
        raise DataError(
            f"completions of the same version as {_PROMPTS}.csv",
            f"{row['id']} is of type {row['type']!r} in {file}, "
            f"{prompts[number]['type']!r} among the prompts",
            "Take both files from one release.",
        )
    if row["final_label"] not in REFUSAL:
        return "no human label"
    if not row["completion"].strip():
        return "empty response"
    return number, row["prompt"].strip(), row["completion"].strip(), REFUSAL[row["final_label"]]


def _check(row: dict, columns: tuple[str, ...], file: str) -> None:
    held = [column for column, value in row.items() if value is not None]
    check_columns(held, columns, "a row", file, "XSTest's")
