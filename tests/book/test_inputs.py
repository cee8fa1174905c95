"""Files that a run is made from are few, and found wherever datasets are published."""

from lib.book import inputs
from lib.data import llmbar


def touch(folder, *names):
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()


def found(folder):
    return [path.relative_to(folder).as_posix() for path in inputs.data(folder)]


def test_weights_settings_and_every_kind_of_tokenizer_count(tmp_path):
    kept = ["config.json", "merges.txt", "model.safetensors", "tokenizer.model", "turns.jinja"]
    touch(tmp_path, *kept, "README.md", "optimizer.pt")
    assert [path.name for path in inputs.weights(tmp_path)] == kept
    assert inputs.weights(tmp_path / "gone") == []


def test_data_files_are_found_as_deep_as_they_are_published(tmp_path):
    deep = [f"{llmbar.published(part)}.json" for part in llmbar.PARTS]
    touch(tmp_path, *deep, "a.csv", "notes.md", ".git/b.json", "c.json/d.jsonl.gz")
    assert found(tmp_path)[:2] == ["a.csv", "c.json/d.jsonl.gz"]
    assert sorted(found(tmp_path)[2:]) == sorted(deep)
    assert found(tmp_path / "gone") == []


def test_of_a_huge_tree_no_more_than_a_part_is_looked_at(tmp_path, monkeypatch):
    touch(tmp_path, *(f"{number}.json" for number in range(6)), "1/2/3/4/5/deep.json")
    monkeypatch.setattr(inputs, "MOST_FILES", 3)
    assert found(tmp_path) == ["0.json", "1.json", "2.json"]
    monkeypatch.setattr(inputs, "MOST_LOOKS", 2)  # a folder and a file
    assert found(tmp_path) == ["0.json"]
