"""Datasets by name: each in its published layout, at its pinned commit, on made-up rows."""

from __future__ import annotations

import csv
import gzip
import io
import json
import lzma

import pyarrow as pa
import pyarrow.parquet
import pytest

from lib.data import (
    beavertails,
    helpsteer2,
    hh_rlhf,
    llmbar,
    load_items,
    reward_bench,
    reward_bench_2,
    rm_bench,
    sources,
    ultrafeedback,
    xstest,
)
from lib.errors import DataError

PAIR = "\n\nHuman: Made up?\n\nAssistant: "


def lines(rows) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def parquet(rows) -> bytes:
    stream = io.BytesIO()
    pyarrow.parquet.write_table(pa.Table.from_pylist(rows), stream)
    return stream.getvalue()


def table(rows) -> bytes:
    stream = io.StringIO()
    writer = csv.DictWriter(stream, rows[0])
    writer.writeheader()
    writer.writerows(rows)
    return stream.getvalue().encode()


def card(**splits: str) -> bytes:
    """A README whose head says which file is of which split."""
    listed = "".join(f"  - split: {split}\n    path: {path}\n" for split, path in splits.items())
    head = f"configs:\n- config_name: default\n  data_files:\n{listed}"
    return f"---\nlicense: mit\n{head}---\n# Made up\n".encode()


def hh(part: str) -> bytes:
    rows = [{"chosen": f"{PAIR}{part} {n}", "rejected": f"{PAIR}no {n}"} for n in range(3)]
    return gzip.compress(lines([*rows, {"chosen": f"{PAIR}same", "rejected": f"{PAIR}same"}]))


def rated(prompt: str, response: str, *ratings: int) -> dict:
    given = dict(zip(helpsteer2.ATTRIBUTES, ratings, strict=True))
    return {"prompt": prompt, "response": response, **given}


def judged(prompt: str, response: str, is_safe: bool) -> dict:
    return {"prompt": prompt, "response": response, "category": {"a": True}, "is_safe": is_safe}


def completion(text: str, rating: str) -> dict:
    given = {aspect: {"Rating": rating} for aspect in ultrafeedback.ASPECTS}
    return {"response": text, "overall_score": 7.5, "annotations": given}


def benched(subset: str) -> dict:
    models = {"chosen_model": "a", "rejected_model": "b"}
    return {
        "prompt": f"Of {subset}",
        "chosen": "yes",
        "rejected": "no",
        "subset": subset,
        "id": 0,
    } | models


def ranked(subset: str, identity: str = "0", chosen=("right",)) -> dict:
    rejected = ["a", "b", "c"]
    return {
        "id": identity,
        "prompt": f"Of {subset}",
        "chosen": list(chosen),
        "rejected": rejected,
        "subset": subset,
    }


BEST = [ranked(subset) for subset in reward_bench_2.COUNTS if subset != "Ties"]
TIES = [ranked("Ties", "ref:3"), ranked("Ties", "tied:3", ("red", "blue"))]
HUB = {
    "hh-rlhf": (
        hh_rlhf,
        {"README.md": b"# Made up\n", ".gitattributes": b"*.gz filter=lfs\n"}
        | {
            f"{part}/{split}.jsonl.gz": hh(f"{part} {split}")
            for part in hh_rlhf.PARTS
            for split in ("train", "test")
        }
        | {
            "red-team-attempts/red_team_attempts.jsonl.gz": gzip.compress(
                lines([{"transcript": "x"}])
            )
        },
    ),
    "reward-bench": (
        reward_bench,
        {
            "README.md": card(
                raw="data/raw-00000-of-00001.parquet",
                filtered="data/filtered-00000-of-00001.parquet",
            ),
            "data/raw-00000-of-00001.parquet": parquet([benched("alpacaeval-easy")]),
            "data/filtered-00000-of-00001.parquet": parquet(
                [benched(subset) for subset in reward_bench.COUNTS]
            ),
        },
    ),
    "reward-bench-2": (
        reward_bench_2,
        {
            "README.md": card(test="data/test-*"),
            "data/test-00000-of-00001.parquet": parquet([*BEST, *TIES]),
        },
    ),
    "helpsteer2": (
        helpsteer2,
        {
            "README.md": b"# Made up\n",
            "train.jsonl.gz": gzip.compress(lines([rated("p", "a", 1, 1, 1, 1, 1)] * 2)),
            "validation.jsonl.gz": gzip.compress(
                lines([rated("one", "first", 4, 4, 4, 2, 2), rated("one", "second", 2, 2, 4, 2, 2)])
            ),
            "preference/preference.jsonl.gz": gzip.compress(
                lines([{"split": "train", "strength": 1}])
            ),
        },
    ),
    "ultrafeedback": (
        ultrafeedback,
        {"README.md": b"# Made up\n"}
        | {
            f"{part}.jsonl": lines(
                [
                    {
                        "instruction": f"{part}?",
                        "completions": [completion("a", "4"), completion("b", "N/A")],
                    }
                ]
            )
            for part in ultrafeedback.PARTS
        },
    ),
    "beavertails/30k": (
        beavertails,
        {
            "README.md": card(
                **{f"330k_{split}": f"round0/330k/{split}.jsonl.xz" for split in ("train", "test")},
                **{f"30k_{split}": f"round0/30k/{split}.jsonl.gz" for split in ("train", "test")},
            )
        }
        | {
            f"round0/30k/{split}.jsonl.gz": gzip.compress(
                lines([judged("q", split, True), judged("q", "b", False)])
            )
            for split in ("train", "test")
        }
        | {
            f"round0/330k/{split}.jsonl.xz": lzma.compress(lines([judged("q", "c", True)]))
            for split in ("train", "test")
        },
    ),
}
STYLES = {"chosen": ["a", "b", "c"], "rejected": ["d", "e", "f"]}
MADE_UP = [{"id": "1", "prompt": "Kill time?", "type": "homonyms", "label": "safe"}]
LABELS = ("_full_compliance", "_full_refusal")
ANSWER = {"id": "v2-1", "type": "homonyms", "prompt": "Kill time?"}
GITHUB = {
    "llmbar/GPTInst": (
        llmbar,
        {
            f"{llmbar.published('GPTInst')}.json": json.dumps(
                [{"input": "Say yes.", "output_1": "No.", "output_2": "Yes.", "label": 2}]
            ).encode()
        },
    ),
    "rm-bench": (
        rm_bench,
        {
            f"data/{domain}_filtered.json": json.dumps(
                [{"id": 1, "prompt": "q", "domain": domain, **STYLES}]
            ).encode()
            for domain in rm_bench.PARTS
        },
    ),
    "xstest": (
        xstest,
        {"xstest_prompts.csv": table(MADE_UP)}
        | {
            f"{xstest._stems(model)[0]}.csv": table(
                [ANSWER | {"completion": f"Of {model}", "final_label": "12"[n % 2] + LABELS[n % 2]}]
            )
            for n, model in enumerate(xstest.MODELS)
        },
    ),
}


@pytest.fixture(autouse=True)
def arrow(tmp_path, monkeypatch):
    """Where ``datasets`` keeps what it made of the files."""
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path / ".cache" / "arrow")


def publish(hub, name: str) -> dict[str, bytes]:
    """Put a set where its loader looks for it; its files."""
    if name in HUB:
        module, files = HUB[name]
        hub.add(module.REPOSITORY, files, kind="datasets", commit=module.REVISION)
    else:
        module, files = GITHUB[name]
        hub.raw |= {
            f"/raw/{module.REPOSITORY}/{module.REVISION}/{path}": held
            for path, held in files.items()
        }
    return files


def as_folder(folder, files: dict[str, bytes]) -> str:
    for path, held in files.items():
        place = folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(held)
    return str(folder)


def split_of(name: str) -> str:
    return "train" if name == "ultrafeedback" else "test"


@pytest.mark.parametrize("name", [*HUB, *GITHUB])
def test_by_name_a_set_is_what_its_files_hold(hub, name, tmp_path):
    source = as_folder(tmp_path / "files", publish(hub, name))
    items = load_items(name, split=split_of(name))
    again = load_items(name, split=split_of(name), source=source)
    assert len(items) and items.fingerprint == again.fingerprint
    assert items.dropped == again.dropped and items.missing == again.missing


@pytest.mark.parametrize("name", [*HUB, *GITHUB])
def test_a_set_that_was_loaded_once_loads_offline_and_fetches_nothing(hub, name, offline):
    publish(hub, name)
    first = load_items(name, split=split_of(name))
    hub.asked.clear()
    assert load_items(name, split=split_of(name)).fingerprint == first.fingerprint
    offline()
    assert load_items(name, split=split_of(name)).fingerprint == first.fingerprint
    assert not hub.asked  # a commit can't change


@pytest.mark.parametrize("name", [*HUB, *GITHUB])
def test_offline_without_a_cache_the_source_option_is_named(hub, name, offline):
    publish(hub, name)
    offline()
    with pytest.raises(DataError, match="HF_HUB_OFFLINE") as caught:
        load_items(name, split=split_of(name))
    assert "'source'" in caught.value.remedy


def test_a_split_that_the_repository_lacks_is_named_with_what_was_asked_for(hub):
    publish(hub, "hh-rlhf")
    with pytest.raises(DataError) as caught:
        list(
            sources.from_hub(
                hh_rlhf.REPOSITORY, revision=hh_rlhf.REVISION, split="dev", data_dir="helpful-base"
            )
        )
    asked = "split 'dev', data_dir 'helpful-base', revision 09be8c5b"
    assert asked in caught.value.needed and "dev" in caught.value.found
    assert "'source'" in caught.value.remedy


def test_of_a_part_only_its_files_are_fetched(hub):
    publish(hub, "hh-rlhf")
    load_items("hh-rlhf/helpful-base")
    assert sorted(hub.fetched()) == [
        "README.md",
        *(f"helpful-base/{split}.jsonl.gz" for split in ("test", "train")),
    ]


def test_a_revision_at_hand_is_not_taken_for_the_pinned_one(hub, monkeypatch, offline):
    publish(hub, "reward-bench-2")
    repository = hub.repositories["datasets", reward_bench_2.REPOSITORY]
    repository.commits["b" * 40] = repository.commits[reward_bench_2.REVISION]
    with monkeypatch.context() as at_another:
        at_another.setattr(reward_bench_2, "REVISION", "b" * 40)
        assert len(load_items("reward-bench-2"))
    offline()
    with pytest.raises(DataError, match="7ff08853"):
        load_items("reward-bench-2")


def test_a_gated_set_says_how_to_accept_its_terms(hub):
    publish(hub, "helpsteer2")
    hub.repositories["datasets", helpsteer2.REPOSITORY].gated = 403
    with pytest.raises(DataError) as caught:
        load_items("helpsteer2")
    assert "gated" in caught.value.found
    assert f"huggingface.co/datasets/{helpsteer2.REPOSITORY}" in caught.value.remedy
    assert "hf auth login" in caught.value.remedy and "'source'" in caught.value.remedy


def test_a_pinned_commit_that_is_gone_is_named(hub):
    publish(hub, "helpsteer2")
    held = hub.repositories["datasets", helpsteer2.REPOSITORY]
    held.commits = {"c" * 40: held.commits.popitem()[1]}
    with pytest.raises(DataError, match="no such branch, tag or commit"):
        load_items("helpsteer2")


def test_a_busy_hub_is_waited_for_and_then_said(hub, capfd):
    publish(hub, "ultrafeedback")
    hub.fail("/tree/", 503, times=7)  # six tries of the client make one of ours
    assert len(load_items("ultrafeedback/flan", split="train"))
    assert "the server is busy (HTTP 503)" in capfd.readouterr().err
    hub.fail("/resolve/", 429, times=99, Retry_After="900")
    with pytest.raises(DataError, match="asks to wait 900 s"):
        load_items("ultrafeedback/sharegpt", split="train")
