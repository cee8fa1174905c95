"""audit.yml is the one list of what the book shows."""

import pytest
import yaml

from lib import paths
from lib.book import plan, toc
from lib.errors import ParameterError


def audit(tmp_path, **changes):
    document = {
        "model": "smol-armo",
        "pages": ["data"],
        "datasets": [{"name": "stimuli/controlled"}],
    }
    path = tmp_path / "audit.yml"
    path.write_text(yaml.safe_dump({"audits": [document | changes]}))
    return path


def test_a_dataset_gives_a_run_and_a_page_for_each_notebook(tmp_path):
    found = plan.read(audit(tmp_path, pages=["data", "validity"]))
    assert [run.manifest for run in found.runs] == [
        ".cache/runs/smol-armo/stimuli/controlled/run.json"
    ]
    assert [page.output for page in found.pages] == [
        "book/results/smol-armo/stimuli/controlled/data.ipynb",
        "book/results/smol-armo/stimuli/controlled/validity.ipynb",
    ]


def test_loading_options_reach_the_page(tmp_path):
    found = plan.read(audit(tmp_path, datasets=[{"name": "stimuli/probes", "limit": 3}]))
    assert found.pages[0].parameters["limit"] == 3


def test_a_page_for_the_model_reads_the_runs_it_names(tmp_path):
    once = [{"notebook": "validity", "datasets": "all"}]
    page = plan.read(audit(tmp_path, pages=[], once=once)).pages[0]
    assert page.output == "book/results/smol-armo/validity.ipynb"
    assert page.about == "smol-armo"
    assert page.parameters["run"] == ".cache/runs/smol-armo/stimuli/controlled"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"pages": ["validty"]}, "Did you mean 'validity'"),
        ({"pagess": []}, "Did you mean 'pages'"),
        ({"datasets": [{"name": "x", "limt": 3}]}, "Did you mean 'limit'"),
        ({"datasets": [{"name": "x", "run": "commited"}]}, "run: committed"),
        ({"datasets": [{"name": "x", "run": "committed"}]}, "python -m lib extract"),
        ({"datasets": ["x"]}, "'x'"),
        ({"once": [{"notebook": "labls"}]}, "labls"),
        (
            {
                "datasets": [{"name": "x"}, {"name": "y"}],
                "once": [{"notebook": "validity", "datasets": "all"}],
            },
            "one dataset for validity",
        ),
        ({"once": [{"notebook": "validity", "datasets": ["y"]}]}, "'y'"),
    ],
)
def test_a_mistake_in_it_is_named(tmp_path, change, says):
    with pytest.raises(ParameterError) as error:
        plan.read(audit(tmp_path, **change))
    assert says in str(error.value)


def test_the_committed_table_of_contents_is_in_step():
    assert paths.TOC.read_text() == toc.render()


def test_every_page_is_in_the_table_of_contents_once():
    entries = [
        chapter["file"]
        for part in yaml.safe_load(toc.render())["parts"]
        for chapter in part["chapters"]
    ]
    pages = [page.output.removesuffix(".ipynb") for page in plan.read().pages]
    written = {f"book/{path.stem}" for path in paths.BOOK.glob("*.md")} - {"book/index"}
    assert set(entries) == {*pages, *written}
    assert len(entries) == len(set(entries))
