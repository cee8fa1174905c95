"""Summary pages execute on tables alone, and the matrix leads to its pages from anywhere."""

from __future__ import annotations

import nbformat
import numpy as np
import pandas as pd
import pytest
from nbformat import v4
from outside import leading_nowhere

from lib import paths, stats
from lib.planted.worlds import make_run, validity_world
from lib.stats.margins import outcomes
from lib.summary.scorecard import charts

pytestmark = pytest.mark.slow
PLACE = "some/model"
KERNEL = {
    "kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"},
    "language_info": {"name": "python", "pygments_lexer": "ipython3"},
}


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """Tables of a model of several heads and of one with a single head."""
    folder = tmp_path_factory.mktemp("results")
    world = validity_world()
    several = world.assign(final=("response", world["score"].values[:, 0]))
    for model, run in (("several", several), ("one", world.isel(head=[-1]))):
        run = run.assign_attrs(model=model, dataset="xstest")
        target = folder / paths.slug(model) / "xstest"
        target.mkdir(parents=True)
        for name, table in (
            ("validity", stats.validity(run)),
            ("baselines", stats.baselines(run)),
            ("outcomes", outcomes(run)),
        ):
            table.to_parquet(target / f"{name}.parquet", index=False)
    return folder


def glued(page: nbformat.NotebookNode) -> dict[str, dict]:
    outputs = [o for cell in page.cells for o in cell.get("outputs", [])]
    kept = [o for o in outputs if "scrapbook" in o.get("metadata", {})]
    prefix = len("application/papermill.record/")
    return {
        o.metadata["scrapbook"]["name"]: {mime[prefix:]: v for mime, v in o["data"].items()}
        for o in kept
    }


@pytest.mark.parametrize(("model", "says"), [("several", "heads is asked"), ("one", "one head")])
def test_a_scorecard_is_made_from_tables_and_keeps_its_matrix(
    tmp_path, results, model, says, execute
):
    given = {"model": model, "results": str(results), "tables": str(tmp_path / "out")}
    page = nbformat.read(execute("scorecard", tmp_path / "page.ipynb", given), 4)
    kept = glued(page)
    assert says in kept["verdicts"]["text/plain"]
    assert '<figure class="chart' in kept["matrix"]["text/html"]
    assert "<table" in kept["listing"]["text/html"]
    assert len(pd.read_parquet(tmp_path / "out" / "scorecard.parquet")) >= 1


def test_models_are_compared_from_tables(tmp_path, results, execute):
    given = {"results": str(results), "tables": str(tmp_path / "out")}
    execute("compare", tmp_path / "page.ipynb", given)
    table = pd.read_parquet(tmp_path / "out" / "compare_differences.parquet")
    assert table[["model", "other", "n"]].values.tolist() == [["one", "several", 600]]


# ---- On the site ----


def cells() -> pd.DataFrame:
    run = make_run(np.random.default_rng(0).standard_normal((200, 3)), subset=["x", "y"] * 50)
    table = stats.validity(run)
    parts = [
        table.assign(dataset=name, page=f"book/results/{PLACE}/{name}/validity.html")
        for name in ("xstest", "hh-rlhf/helpful-base")
    ]
    return pd.concat(parts, ignore_index=True)


def glue(name: str, value) -> nbformat.NotebookNode:
    prefix = "application/papermill.record/"
    return v4.new_output(
        "display_data",
        {f"{prefix}text/html": value._repr_html_() if name == "listing" else value.html()},
        metadata={"scrapbook": {"name": name, "mime_prefix": prefix}},
    )


@pytest.fixture(scope="module")
def book(small_book, tmp_path_factory):
    """A site whose front page shows the matrix of a scorecard three folders below."""
    folder = tmp_path_factory.mktemp("executed")
    table = cells()
    chart, listing = charts.matrix(table), charts.listing(table, f"book/results/{PLACE}")
    shown = [
        v4.new_output("display_data", {"text/html": part})
        for part in (chart.html(), listing.markup)
    ]
    kept = [glue("matrix", chart), glue("listing", listing)]
    made = {
        f"{PLACE}/scorecard": v4.new_code_cell("chart", execution_count=1, outputs=[*shown, *kept]),
        f"{PLACE}/xstest/validity": v4.new_markdown_cell("here"),
        f"{PLACE}/hh-rlhf/helpful-base/validity": v4.new_markdown_cell("there"),
    }
    for number, (place, cell) in enumerate(made.items()):
        title = v4.new_markdown_cell(f"# {place}")
        notebook = v4.new_notebook(cells=[title, cell], metadata=KERNEL)
        nbformat.write(notebook, folder / f"{number}.ipynb")
    doc = f":doc: results/{PLACE}/scorecard.ipynb"
    index = "\n".join(
        ["# Front", *(f"\n```{{glue}} {name}\n{doc}\n```" for name in ("matrix", "listing"))]
    )
    return (
        small_book(index, {place: folder / f"{n}.ipynb" for n, place in enumerate(made)}) / "book"
    )


PAGES = ["index.html", f"results/{PLACE}/scorecard.html"]
SCREEN, PHONE = {"width": 1200, "height": 900}, {"width": 390, "height": 844}


def opened(visit, path, **options):
    tab, said = visit(path, **options)
    tab.wait_for_selector('.chart-view[data-state="drawn"]')
    return tab, said


@pytest.mark.parametrize("screen", [SCREEN, PHONE], ids=["screen", "phone"])
@pytest.mark.parametrize("page", PAGES)
def test_clicking_a_cell_lands_on_its_page_in_the_same_tab(visit, book, page, screen):
    tab, said = opened(visit, book / page, viewport=screen)
    # cells come head by head within a dataset: three of the first, then of the second
    tab.locator(".touch_heads_marks path").nth(4).click()
    wanted = book / "results" / PLACE / "hh-rlhf/helpful-base/validity.html"
    tab.wait_for_url(wanted.as_uri())
    assert len(tab.context.pages) == 1
    assert said == []


@pytest.mark.parametrize("page", PAGES)
def test_the_keyboard_reaches_the_same_pages(visit, book, page):
    tab, _ = opened(visit, book / page, viewport=SCREEN)
    tab.locator("summary", has_text="with intervals and links").click()
    tab.locator("a[data-page]").nth(1).focus()
    tab.keyboard.press("Enter")
    tab.wait_for_url((book / "results" / PLACE / "hh-rlhf/helpful-base/validity.html").as_uri())


def test_links_of_the_listing_need_no_script(book):
    assert leading_nowhere(book.parent) == []


def test_subsets_are_chosen_from_a_menu_and_lead_to_the_page_too(visit, book):
    tab, _ = opened(visit, book / "index.html", viewport=SCREEN)
    tab.select_option(".chart-controls select", label="xstest by subset")
    tab.wait_for_function("document.querySelectorAll('.touch_heads_marks path').length === 9")
    tab.locator(".touch_heads_marks path").nth(8).click()
    tab.wait_for_url((book / "results" / PLACE / "xstest/validity.html").as_uri())


def test_pointing_at_a_cell_tells_its_numbers(visit, book):
    tab, _ = opened(visit, book / "index.html", viewport=SCREEN)
    tab.hover(".touch_heads_marks path >> nth=0", force=True)
    tab.wait_for_selector("#vg-tooltip-element.visible")
    told = dict(
        zip(
            *(
                tab.eval_on_selector_all(
                    f"#vg-tooltip-element td.{side}", "es => es.map(e => e.textContent)"
                )
                for side in ("key", "value")
            ),
            strict=True,
        )
    )
    row = cells().iloc[0]
    assert told["win rate"] == f"{row.win_rate:.3f}"
    assert told["interval"] == f"{row.low:.3f} to {row.high:.3f}"
    assert told["comparisons"] == "100"
    assert told["detectable"] == f"±{row.mde:.3f}"
    assert (told["verdict"], told["note"]) == (row.verdict, "–")


@pytest.mark.parametrize("mode", ["light", "dark"])
def test_a_phone_needs_no_sideways_scroll(visit, book, mode):
    tab, said = opened(visit, book / "index.html", viewport=PHONE, color_scheme=mode)
    assert tab.evaluate("document.documentElement.scrollWidth") <= 390
    widths = tab.eval_on_selector_all(".numbers_marks text", "es => es.map(e => e.getBBox().width)")
    cell = tab.eval_on_selector(".touch_heads_marks path", "e => e.getBBox().width")
    assert max(widths) < cell
    assert said == []


def test_changes_are_told_since_the_audit_that_is_committed(tmp_path, results, execute):
    given = {"results": str(results), "tables": str(tmp_path / "out")}
    given |= {"audit": str(tmp_path / "none.json")}
    page = nbformat.read(execute("changes", tmp_path / "page.ipynb", given), 4)
    assert "No audit is committed yet" in nbformat.writes(page)
    kept = tmp_path / "audit.json"
    kept.write_bytes((tmp_path / "out" / "audit.json").read_bytes())
    given |= {"audit": str(kept), "tables": str(tmp_path / "again")}
    page = nbformat.read(execute("changes", tmp_path / "again.ipynb", given), 4)
    assert "Nothing changed since the audit that is committed" in nbformat.writes(page)
    assert (tmp_path / "again" / "audit.json").read_bytes() == kept.read_bytes()
