"""Tables on disk are whole or not there."""

import pandas as pd
import pytest

from lib import tables


def test_a_table_that_fails_leaves_the_last_one(tmp_path, monkeypatch):
    folder = tmp_path / "new" / "folder"
    tables.write(folder, one=pd.DataFrame({"a": [1]}), two=pd.DataFrame({"b": ["x"]}))
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert set(before) == {"one.parquet", "two.parquet"}

    def stop(table, path, **given):
        path.write_bytes(b"PAR1")
        raise OSError(28, "No space left")

    monkeypatch.setattr(pd.DataFrame, "to_parquet", stop)
    with pytest.raises(OSError, match="No space"):
        tables.write(folder, one=pd.DataFrame({"a": [2]}))
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
