"""Models by name: what is fetched, what is kept, and what a user is told."""

from __future__ import annotations

import errno
import json
import shutil
from types import SimpleNamespace

import pytest

from lib import hub as client
from lib.errors import ModelError
from lib.models import load_model
from lib.models.weights import head_weights

NAME = "some-org/tiny-rm"
COMMIT, NEWER = "a" * 40, "b" * 40


def load(name: str = NAME, **options):
    return load_model(name, device="cpu", **options)


def refusal(name: str = NAME, **options) -> ModelError:
    with pytest.raises(ModelError) as caught:
        load(name, **options)
    return caught.value


def in_shards(classifier: dict[str, bytes]) -> dict[str, bytes]:
    """The same model, its weights in two files and an index."""
    from safetensors.torch import load as tensors_of
    from safetensors.torch import save

    tensors = tensors_of(classifier["model.safetensors"])
    files = {path: held for path, held in classifier.items() if path != "model.safetensors"}
    shards = {"model-00001-of-00002.safetensors": {}, "model-00002-of-00002.safetensors": {}}
    places = {}
    for number, (key, tensor) in enumerate(sorted(tensors.items())):
        shard = list(shards)[number % 2]
        shards[shard][key], places[key] = tensor, shard
    files |= {shard: save(held, metadata={"format": "pt"}) for shard, held in shards.items()}
    index = {"metadata": {}, "weight_map": places}
    return files | {"model.safetensors.index.json": json.dumps(index).encode()}


def test_a_first_load_says_its_size_and_what_room_there_is(hub, classifier, capfd):
    hub.add(NAME, {**classifier, "README.md": b"a card", "onnx/model.onnx": b"another form"})
    model = load()
    assert len(model.heads) == 3 and model.card["revision"] == COMMIT
    told = capfd.readouterr().err
    size = sum(map(len, classifier.values())) - len(classifier["config.json"])
    assert f"{NAME} at aaaaaaaa: {size / 1000:.3g} kB in 4 files to download" in told
    assert "free at" in told
    assert sorted(hub.fetched()) == sorted(classifier)


def test_a_second_load_fetches_no_file_and_is_the_same_model(hub, classifier):
    hub.add(NAME, classifier)
    first = load()
    hub.asked.clear()
    assert load().fingerprint == first.fingerprint
    assert [path for _, path, _ in hub.asked] == [f"/api/models/{NAME}/revision/main"]


def test_offline_a_model_comes_from_the_cache(hub, classifier, offline):
    hub.add(NAME, classifier)
    first = load()
    hub.asked.clear()
    offline()
    again = load()
    assert again.fingerprint == first.fingerprint and again.card["revision"] == COMMIT
    assert not hub.asked


def test_its_head_weights_are_at_hand_without_the_network(hub, classifier):
    hub.add(NAME, {**classifier, "README.md": b"a card"})
    assert head_weights(NAME).note == f"the model {NAME} is not on this machine"
    load()
    hub.asked.clear()
    assert head_weights(NAME).weight.shape[0] == 3
    assert not hub.asked


def test_offline_without_a_cache_says_so_and_how_to_get_it(hub, offline):
    offline()
    error = refusal()
    assert "HF_HUB_OFFLINE is set" in error.found and NAME in error.needed
    assert "hf download" in error.remedy
    assert not hub.asked


def test_offline_with_half_of_it_says_so(hub, classifier, offline):
    hub.add(NAME, classifier)
    hub.fail("tokenizer.json", 404, X_Error_Code="EntryNotFound")
    refusal()
    offline()
    error = refusal()
    assert "only a part of it in the cache" in error.found and "tokenizer.json" in error.found


def test_a_download_that_is_cut_goes_on_where_it_stopped(hub, classifier, caplog, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.DOWNLOAD_CHUNK_SIZE", 4096)
    hub.add(NAME, classifier)
    hub.cuts[f"/cdn/{hub.digest('model.safetensors')}"] = 20_000
    whole = load()
    ranges = [headers["range"] for _, _, headers in hub.asked if "range" in headers]
    assert ranges == ["bytes=16384-"]  # after four whole pieces
    assert whole.card["revision"] == COMMIT  # and every tensor of it was read
    assert "Trying to resume" in caplog.text and "Signature" not in caplog.text


def test_a_shard_that_arrived_is_not_fetched_again(hub, classifier):
    hub.add(NAME, in_shards(classifier))
    last = "model-00002-of-00002.safetensors"
    hub.fail(last, 404, times=1, X_Error_Code="EntryNotFound")
    refusal()
    assert "model-00001-of-00002.safetensors" in hub.fetched()
    hub.asked.clear()
    assert len(load().heads) == 3
    assert last in hub.fetched() and "model-00001-of-00002.safetensors" not in hub.fetched()


@pytest.mark.parametrize("status", [401, 403])
def test_a_gated_model_says_how_to_accept_and_log_in(hub, classifier, status):
    hub.add(NAME, classifier, gated=status)
    error = refusal()
    assert "gated" in error.found and "nobody logged in" in error.found
    assert f"huggingface.co/{NAME}" in error.remedy and "hf auth login" in error.remedy


def test_a_gated_model_loads_with_a_token_that_only_the_hub_sees(hub, classifier, monkeypatch):
    hub.add(NAME, classifier, gated=401)
    monkeypatch.setenv("HF_TOKEN", "hf_madeupmadeup")
    assert len(load().heads) == 3
    for _, path, headers in hub.asked:
        assert ("authorization" in headers) == (not path.startswith("/cdn/"))


def test_an_account_without_access_is_told_apart_from_nobody(hub, classifier, monkeypatch):
    hub.add(NAME, classifier)
    monkeypatch.setenv("HF_TOKEN", "hf_madeupmadeup")
    hub.fail("/resolve/", 403, times=9, X_Error_Code="GatedRepo")
    error = refusal()
    assert "an account without access" in error.found and "Accept its terms" in error.remedy
    assert "hf_madeupmadeup" not in str(error)


def test_a_token_that_the_hub_does_not_know_is_named_as_that(hub, classifier, monkeypatch):
    hub.add(NAME, classifier)
    monkeypatch.setenv("HF_TOKEN", "hf_madeupmadeup")
    hub.fail("/api/", 401, X_Error_Message="Invalid credentials in Authorization header")
    error = refusal()
    assert "a token that the hub doesn't know" in error.found and "Log in again" in error.remedy


def test_a_misspelt_model_gets_the_nearest_names(hub, classifier):
    hub.add(NAME, classifier)
    hub.add("other-org/tiny-rm", classifier)
    assert f"Did you mean {NAME}" in refusal("some-org/tinyrm").remedy  # of the same owner
    assert f"Did you mean {NAME}" in refusal("someorg/tiny-rm").remedy  # of the same name
    error = refusal("nobody/nothing")
    assert "Did you mean" not in error.remedy and "Check its spelling" in error.remedy
    assert "HTTP 401" in error.found


def test_an_unknown_revision_is_named(hub, classifier):
    hub.add(NAME, classifier)
    error = refusal(revision="v2")
    assert "at revision v2" in error.needed and "no such branch, tag or commit" in error.found


@pytest.mark.parametrize("status", [429, 503])
def test_a_busy_hub_is_waited_for(hub, classifier, status, capfd):
    hub.add(NAME, classifier)
    hub.fail("/api/", status, times=2)
    assert len(load().heads) == 3
    told = capfd.readouterr().err
    assert told.count(f"the server is busy (HTTP {status})") == 2


def test_the_wait_is_as_long_as_the_hub_asks_for(hub, classifier, monkeypatch):
    hub.add(NAME, classifier)
    pauses = []
    monkeypatch.setattr(client, "PATIENCE", 120)
    monkeypatch.setattr(client, "time", SimpleNamespace(sleep=pauses.append, monotonic=lambda: 0))
    hub.fail("/api/", 429, Retry_After="7")
    hub.fail("/api/", 429, RateLimit='"api";r=0;t=5')
    hub.fail("/api/", 503, RateLimit='"api";r=499;t=60')  # not what it is busy with
    hub.fail("/api/", 503, Retry_After="0")
    load()
    assert pauses == [7, 5, 4 * client.FIRST_WAIT, 8 * client.FIRST_WAIT]


def test_a_hub_that_stays_busy_is_said_and_not_waited_for_without_end(hub, classifier):
    hub.add(NAME, classifier)
    hub.fail("/api/", 503, times=99, Retry_After="600")
    error = refusal()
    assert "a busy server (HTTP 503) that asks to wait 600 s" in error.found
    assert "Try again later" in error.remedy
    assert len(hub.asked) == 1


@pytest.mark.parametrize("wish", [{}, {"Retry_After": "3600"}])
def test_a_busy_hub_does_not_matter_where_the_cache_has_the_model(hub, classifier, wish):
    hub.add(NAME, classifier)
    first = load()
    hub.fail("/api/", 429, times=99, **wish)
    assert load().fingerprint == first.fingerprint


def test_a_branch_that_moved_is_said_and_a_commit_stays(hub, classifier, capfd):
    repository = hub.add(NAME, classifier)
    first = load()
    changed = json.loads(classifier["config.json"])
    changed["id2label"] = {"0": "x", "1": "y", "2": "z"}
    repository.commits[NEWER] = {**classifier, "config.json": json.dumps(changed).encode()}
    repository.branches["main"] = NEWER
    hub.asked.clear()
    pinned = load(revision=COMMIT)
    assert pinned.card["revision"] == COMMIT and pinned.fingerprint == first.fingerprint
    assert not hub.asked  # a commit can't change
    moved = load()
    assert moved.card["revision"] == NEWER
    assert [head.name for head in moved.heads] == ["x", "y", "z"]
    assert "it was at aaaaaaaa and is at bbbbbbbb now" in capfd.readouterr().err
    assert hub.fetched() == ["config.json"]  # what else it has is the same


def test_of_one_file_and_shards_only_the_file_is_fetched(hub, classifier):
    hub.add(NAME, {**classifier, **in_shards(classifier)})
    load()
    weights = [path for path in hub.fetched() if path.endswith(".safetensors")]
    assert weights == ["model.safetensors"]


def test_of_shards_only_those_are_fetched_that_the_index_lists(hub, classifier):
    files = in_shards(classifier)
    files["model-00001-of-00003.safetensors"] = b"from another export" * 100
    files["consolidated.safetensors"] = 10**12
    hub.add(NAME, files)
    assert len(load().heads) == 3
    weights = {path for path in hub.fetched() if path.endswith(".safetensors")}
    assert weights == {f"model-0000{k}-of-00002.safetensors" for k in (1, 2)}


def test_pickles_alone_are_refused_before_they_are_fetched(hub, classifier):
    files = {path: held for path, held in classifier.items() if path != "model.safetensors"}
    hub.add(NAME, {**files, "pytorch_model.bin": 10**9})
    error = refusal()
    assert "only pytorch_model.bin, a pickle, which can run code" in error.found
    assert "safetensors" in error.needed and hub.fetched() == ["config.json"]


def test_an_adapter_is_named_as_one_and_its_weights_are_not_fetched(hub):
    card = {"base_model_name_or_path": "some-org/base", "peft_type": "LORA"}
    files = {"adapter_config.json": json.dumps(card).encode(), "adapter_model.safetensors": 10**9}
    hub.add(NAME, files)
    error = refusal()
    assert "an adapter (LoRA)" in error.found and "some-org/base" in error.found
    assert hub.fetched() == ["adapter_config.json"]


def test_a_repository_of_another_layout_is_refused_by_what_it_holds(hub):
    hub.add(NAME, {"README.md": b"", "tiny-Q4.gguf": 10**9})
    error = refusal()
    assert "config.json" in error.needed and "tiny-Q4.gguf" in error.found
    assert not hub.fetched()


def test_a_model_that_does_not_fit_on_the_disk_is_refused_before_it_is_fetched(
    hub, classifier, monkeypatch, capfd
):
    usage = shutil.disk_usage("/")._replace(free=9 * 10**9)
    monkeypatch.setattr(client.shutil, "disk_usage", lambda place: usage)
    shards = {f"model-0000{k}-of-00003.safetensors": 5 * 10**9 for k in (1, 2, 3)}
    places = {f"layer.{number}": shard for number, shard in enumerate(shards)}
    index = json.dumps({"weight_map": places}).encode()
    files = {"config.json": classifier["config.json"], "model.safetensors.index.json": index}
    hub.add(NAME, files | shards)
    error = refusal()
    assert "15.0 GB" in error.needed and "9.0 GB free" in error.found and "HF_HOME" in error.remedy
    assert f"{NAME} at aaaaaaaa: 15.0 GB in 3 files to download" in capfd.readouterr().err
    assert not [path for path in hub.fetched() if path.endswith(".safetensors")]


def test_how_far_a_download_is_is_said_in_lines(hub, classifier, monkeypatch, capfd):
    monkeypatch.setattr(client, "EVERY", 0.01)
    hub.slow = 0.2
    hub.add(NAME, classifier)
    load()
    told = [line for line in capfd.readouterr().err.splitlines() if "a second" in line]
    assert told and all(line.startswith(f"{NAME}: ") and " of 1" in line for line in told)


def test_a_disk_that_fills_up_is_said():
    error = client.refused(OSError(errno.ENOSPC, "No space left on device"), NAME, "model")
    assert "no room left" in error.found and "HF_HOME" in error.remedy


def test_messages_hold_no_token_and_no_credentials_of_a_url():
    secret = "no answer from https://me:word@host/path?X-Amz-Signature=abc with hf_abcdefgh now"
    text = client.said(OSError(secret))
    assert text == "no answer from https://host/path with hf_… now"
