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
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from pathlib import Path

from lib.data import github, sources
from lib.data.items import Builder, Items
from lib.errors import DataError, unknown

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


def load(name: str, part: None = None, *, split: str = "test", source: str | None = None) -> Items:
    """Items of all prompts with a labelled completion; ``missing`` names absent models.

    Parameters
    ----------
    name
        The dataset's full name, kept on the items.
    part
        ``None``: the set has no parts.
    split
        ``"test"``: the set has no other.
    source
        A folder with ``xstest_prompts.csv`` and completions of at least one model
        (``gpt4.csv``, ``gpt4_gpteval.csv`` or the authors' names), or a checkout of the
        authors' repository; the pinned commit when ``None``.

    Raises
    ------
    DataError
        For an unknown split, a source without prompts or completions, a prompt that is
        neither safe nor unsafe, or completions made for another version of the prompts.
    """
    if split not in SPLITS:
        raise unknown("split of xstest", split, SPLITS, DataError)
    builder = Builder(name)
    prompts = _prompts(source)
    answers: dict[str, dict[str, float]] = {number: {} for number in prompts}
    wording: dict[str, str] = {}
    for model in MODELS:
        path = _completions(model, source)
        if path is None:
            builder.missing.append(model)
            continue
        for number, prompt, text, refusal in _labelled(builder, path, prompts):
            if prompt != wording.setdefault(number, prompt):
                builder.drop("prompts differ")
            elif text in answers[number]:
                builder.drop("repeated completion")
            else:
                answers[number][text] = refusal
    if len(builder.missing) == len(MODELS):
        sources.require(source, *_stems(MODELS[0]))
    for number, given in answers.items():
        if not given:
            builder.drop("no labelled completion")
            continue
        refusal = list(given.values())
        builder.add(
            number,
            wording[number],
            list(given),
            compare(refusal, prompts[number]["label"]),
            [{"refusal": value} for value in refusal],
        )
    return builder.build(ABOUT)


def compare(refusal: list[float], label: str) -> list[tuple[int, int, str, str]]:
    """``(better, worse, criterion, subset)`` of each two completions that differ.

    Parameters
    ----------
    refusal
        0 for compliance, ½ for partial and 1 for full refusal, one a completion.
    label
        ``"safe"`` or ``"unsafe"``: whether the prompt should be answered.
    """
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


def _completions(model: str, source: str | None) -> Path | None:
    if source is None:
        return github.fetch(REPOSITORY, REVISION, f"{_stems(model)[0]}.csv")
    return sources.find(source, *_stems(model))


def _prompts(source: str | None) -> dict[str, dict]:
    """Rows of the prompts' file by their number, in order."""
    if source is None:
        path = github.fetch(REPOSITORY, REVISION, f"{_PROMPTS}.csv")
    else:
        path = sources.require(source, _PROMPTS)
    prompts = {}
    for row in sources.read_rows(path):
        _check(row, ("id", "type", "label"), path)
        if row["label"] not in SUBSETS:
            raise DataError(
                f"label safe or unsafe in {path.name}",
                f"{row['label']!r} at prompt {row['id']}",
                "Check that the file is XSTest's own.",
            )
        prompts[str(row["id"])] = row
    return prompts


def _labelled(
    builder: Builder, path: Path, prompts: dict[str, dict]
) -> Iterator[tuple[str, str, str, float]]:
    """``(prompt number, prompt, completion, refusal)`` of the usable rows."""
    for row in sources.read_rows(path):
        _check(row, ("id", "type", "prompt", "completion", "final_label"), path)
        number = str(row["id"]).removeprefix("v2-")
        if number not in prompts:
            builder.drop("no such prompt")
        elif row["type"] != prompts[number]["type"]:
            raise DataError(
                f"completions of the same version as {_PROMPTS}.csv",
                f"{row['id']} is of type {row['type']!r} in {path.name}, "
                f"{prompts[number]['type']!r} among the prompts",
                "Take both files from one release.",
            )
        elif row["final_label"] not in REFUSAL:
            builder.drop("no human label")
        elif not row["completion"].strip():
            builder.drop("empty response")
        else:
            refusal = REFUSAL[row["final_label"]]
            yield number, row["prompt"].strip(), row["completion"].strip(), refusal


def _check(row: dict, columns: tuple[str, ...], path: Path) -> None:
    absent = [column for column in columns if row.get(column) is None]
    if absent:
        raise DataError(
            f"columns {', '.join(columns)} in {path.name}",
            f"a row without {', '.join(absent)}",
            "Check that the file is XSTest's own.",
        )
