"""Every claim is one row of a file, and its verdict follows from the published figures."""

import copy
import re
from pathlib import Path
from string import Formatter

import numpy as np
import pytest

from lib.analyses.patching.worlds import patching_world
from lib.analyses.separability.worlds import separability_world
from lib.effects import patched
from lib.errors import DataError
from lib.planted.effects import make_effects
from lib.planted.worlds import make_run
from lib.summary.published import claims, explained, stats, words
from lib.summary.published.stats import PARTS

HARMLESS, HELPFUL = PARTS
ON_RUNS = (
    "valid-heads-cross",
    "hh-stars",
    "pooled",
    "probes",
    "folds",
    "prompts",
    "lens-alignment",
    "lens-conflict",
)
ON_EFFECTS = (
    "lens-crystallisation-here",
    "lens-norm",
    "lens-agreement-here",
    "lens-alignment",
)
PAGE = Path(__file__).with_name("page.txt")


@pytest.fixture(scope="module")
def table(figures):
    return claims.claims(figures)


def row(table, key):
    return table[table["key"] == key].iloc[0]


def change(figures, *path, to):
    given = copy.deepcopy(figures)
    place = given
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = to
    return given


# ---- The file ----


def test_every_point_and_every_block_has_a_claim(figures, table):
    points = {p for text in table["points"] for p in text.split(", ") if p}
    assert points == {str(k) for k in range(1, 13)}
    systems = {"ArmoRM", "reward-basis-audit", "reward-lens", "SARM", "alignment tension"}
    assert set(table["system"]) == systems
    assert table["key"].is_unique and set(table["verdict"]) == set(words.VERDICTS.values())
    sources = {row.source or group.source for group in claims.read() for row in group.claims}
    assert sources == set(figures["sources"]) - {"llmbar"}  # numbers of pairs, no claim
    assert not table.apply(lambda column: column.str.contains("nan|[{}]")).any().any()


def test_no_number_is_typed():
    names = ("RewardBench 2", "HelpSteer2", "gpt2-large", " to 1")
    for group in claims.read():
        for claim in group.claims:
            lists = [text for each in claim.lists.values() for text in (each.text, each.empty)]
            for text in (claim.claim, claim.published, claim.recomputed, claim.evidence, *lists):
                typed = "".join(literal for literal, *_ in Formatter().parse(text))
                for name in names:
                    typed = typed.replace(name, "")
                assert not re.search(r"\d", typed), (claim.key, typed)


def test_every_function_of_evidence_is_named_by_a_row():
    named = {claim.facts for group in claims.read() for claim in group.claims}
    assert named - {""} == set(claims.FACTS)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("groups:", "groups: [", "YAML in claims.yaml"),
        ("groups:", "sets:", "groups in claims.yaml"),
        ("points: [1]", "points: [one]", "armorm-heads.points"),
        ("verdict: undecided", "verdict: maybe", "armorm-stage2.verdict"),
        ("{holds: agree, otherwise: fails}", "{holds: agree}", "armorm-heads.verdict"),
        ("{holds: agree, ", "{likely: agree, ", "armorm-heads.verdict"),
        ("        evidence: Compared entry by entry.\n", "", "armorm-checkpoint.evidence"),
        ("key: armorm-score", "key: armorm-heads", "'armorm-heads' twice"),
        ("points: [1]", "points: [1]\n        points: [2]", "points 2 times in the entry"),
        ("key: armorm-score", "key: armorm-score\n        key: other", "key 2 times in the entry"),
        ("code: ['utils.py#L30-L50']", "code: ['utils.py#30']", "names.code"),
        ("facts: armorm_score", "facts: armorm_scores", "Did you mean 'armorm_score'"),
        ("source: armorm-code", "source: hearsay", "a known source of armorm-stage2"),
        ("'{mean:.2f}'", "'{median:.2f}'", "'armorm-score' of claims.yaml; found KeyError"),
        ("'{mean:.2f}'", "'{mean:.2s}'", "'armorm-score' of claims.yaml; found ValueError"),
        ('of: "armorm[card_example]"', 'of: "armorm[card]"', "'armorm-example' of claims.yaml"),
        ("about: names[safety]", "about: names[x]", "'name-safety' of claims.yaml"),
        ("{holds: agree, ", "{holds: agreed, ", "'armorm-heads' of claims.yaml"),
    ],
)
def test_a_damaged_file_is_refused_with_the_place(tmp_path, figures, old, new, says):
    text = claims.FILE.read_text(encoding="utf-8")
    assert old in text
    path = tmp_path / "claims.yaml"
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(DataError, match=re.escape(says)):
        claims.claims(figures, path=path)


# ---- The page ----


def test_the_page_reads_as_it_did(figures, table):
    """Every takeaway, claim and verdict without runs, as ``page.txt`` has them."""
    made = stats.head_names(figures), stats.rates(figures)
    made += stats.geometry_bounds(figures), stats.overlaps(figures)
    lines = words.takeaways(words.glued(table, *made))
    for each in table.itertuples():
        lines += ["", f"{each.key} ({each.system}, {each.part or 'all'}): {each.verdict}"]
        lines += [each.claim, each.published, each.recomputed, each.evidence]
    text = re.sub(r"\de-\d\d of their sd", "RE of their sd", "\n".join(lines))  # rounding error
    assert text.splitlines() == PAGE.read_text(encoding="utf-8").splitlines()


# ---- Verdicts follow the figures ----

AUDIT, TENSION = "audit", "tension"
PICTURE = ("sources", "armorm-picture", "address")
# Path of a figure, its new value → the row's key, verdict and a part of its text. Changes of one
# group touch different rows and are made at once.
CHANGES = [
    [
        (("armorm", "rewardbench", "score"), 91.0, "armorm-score", "fails", "88.97"),
        (("armorm", "config", "num_objectives"), 20, "armorm-heads", "fails", "19 distinct names"),
        (("armorm", "config", "hidden_size"), 2048, "armorm-checkpoint", "fails", "× 2048"),
        (("sarm", "rewardbench2", "score"), 75.0, "sarm-score", "fails", "73.79"),
        (("reward_lens", "cascade_points"), 20, "lens-cascade", "undecided", "of 20 random"),
        # |t| beyond .8 · 2 with 4 degrees of freedom: .185
        (("reward_lens", "probe_pairs"), [1, 5], "lens-probes", "artefact", "18% (pairs: 5)"),
        # (.5 − .1)/.8
        (
            ("reward_lens", "concept_risk", "listed", "least"),
            *(0.1, "lens-concept-risk", "artefact", "|cos| 0.500 on"),
        ),
        (
            ("reward_lens", "concept_lengths", "verbosity"),
            *([[300, 200], [5, 9]], "lens-concept-signs", "undecided", "in 1 of 2 pairs"),
        ),
        (("reward_lens", "distortion", "high"), 1.0, "lens-distortion", "undecided", "in 0% of"),
        ((AUDIT, "hh", "harmless_first"), 300, "sample", "holds", "300 of 800"),
        # 11 of 19 are given and below the share
        ((AUDIT, "hh", "valid"), 9, "hh-valid", "fails", "1 of the 12"),
        # .47 of 800 has [.436, .505]: not shown to be below one half
        ((AUDIT, "hh", "rates", "helpfulness"), 0.47, "hh-helpfulness", "fails", "[0.436, 0.505]"),
        ((AUDIT, "rewardbench", "valid"), 18, "bench-valid", "fails", "between 1 and 17"),
        ((AUDIT, "type_a", "valid"), 12, "type-a-valid", "undecided", "12 of 19"),
        ((AUDIT, "geometry", "gap"), 0.2, "geometry-gap", "holds", "RMS cosine 0.200"),
        ((AUDIT, "geometry", "random_angle"), 87, "geometry-angles", "holds", "at 87°"),
        # two accuracies nearer to each other than a planted probe is to its prediction
        (
            (AUDIT, "probes"),
            {"engagement": [0.9, 0.01], "depth": [0.8999, 0.01]},
            *("probes", "undecided", "R² 0.90 and 0.90"),
        ),
        ((TENSION, "rmsd", "gpt2"), [0.003, 0.002, 0.0025], "rmsd", "fails", "5 of 6 models"),
        # 6 · .4992 − 5 · .56 = .1952
        (
            (TENSION, "overlap_without_gpt2_large", "mixed_harmless"),
            *(0.56, "overlap-mixed-harmless", "undecided", "have been 0.195"),
        ),
        # 6 · .6074 − 5 · .709 = .0994
        (
            (TENSION, "overlap_without_gpt2_large", "mixed_helpful"),
            *(0.709, "overlap-mixed-helpful", "undecided", "have been 0.099"),
        ),
        (
            (TENSION, "overlap_by_model", "gpt2-large"),
            *(0.4, "overlap-gpt2-large", "undecided", "0.4000"),
        ),
        # more refusals than the harmless model
        (
            (TENSION, "accuracy", "SmolLM2-135M", "mixed", "safety-refuse"),
            *(99.0, "trade-off", "fails", "in order on 5 of 6 backbones"),
        ),
        (
            (TENSION, "accuracy", "SmolLM2-135M", "helpful", "llmbar-adver-GPTOut"),
            *(64.04, "looks", "fails", "helpful 16 to 64"),
        ),
    ],
    [
        # |t| beyond .8 · 3 with 9 degrees of freedom: .0399
        (("reward_lens", "probe_pairs"), [1, 10], "lens-probes", "undecided", "4% (pairs: 10)"),
        # another concept's risk can be high as well
        (
            ("reward_lens", "concept_risk", "other", "slope"),
            *(0.6, "lens-concept-risk", "undecided", "at most 0.6"),
        ),
        # the parts about correlations leave room
        (
            ("reward_lens", "cascade_risk", "weights"),
            *([0.6, 0.2, 0.2], "lens-cascade-risk", "undecided", "at least 0.4"),
        ),
        # .45 of 4000 has [.435, .466] and p = 3e-10
        ((AUDIT, "hh", "n"), 4000, "sample", "fails", "4000 of 4000"),
        ((AUDIT, "hh", "rates", "helpfulness"), 0.45, "hh-helpfulness", "holds", "0.450 ["),
        ((AUDIT, "rewardbench", "valid"), 0, "bench-valid", "fails", "between 1 and 17"),
        # one of 19 is given and below the lower level
        ((AUDIT, "type_a", "valid"), 19, "type-a-valid", "fails", "at most 18"),
        ((AUDIT, "geometry", "random_angle"), 95, "geometry-angles", "fails", "at 95°"),
        (PICTURE, "https://a.b", "geometry-picture", "fails", "0.17 ["),
        ((AUDIT, "disentanglement", "mean_abs"), 0.9, "geometry-picture", "fails", "rules out"),
        # 149 of 319 are below one half, but not beyond chance
        (
            (TENSION, "accuracy", "gpt2", "helpful"),
            {
                "safety-refuse": 10.68,
                "safety-response": 86.69,
                "llmbar-adver-neighbor": 46.27,
                "llmbar-adver-GPTInst": 46.74,
                "llmbar-adver-GPTOut": 46.81,
                "llmbar-adver-manual": 47.83,
            },
            *("looks", "undecided", "gpt2 149 of 319 (0.26)"),
        ),
    ],
    [
        # none of three is above: 1/8
        (
            ("reward_lens", "cascade_risk", "dimensions"),
            3,
            "lens-cascade-risk",
            "artefact",
            "87.5%",
        ),
        # 4 of the 12 given are above, and 7 were not given: 4 to 11
        ((AUDIT, "hh", "valid"), 4, "hh-chance", "undecided", "4 are above"),
        (PICTURE, "https://a.b", "geometry-picture", "holds", "0.04 ["),
        (
            ("cosines",),
            {"tolerance": 0.008, "mean": 0.01, "rms": 0.04, "largest": 0.3},
            *("geometry-picture", "holds", "which the regression rules out"),
        ),
    ],
    [
        # two heads above one half, none below: then all others may be at chance
        (
            (AUDIT, "hh", "rates"),
            dict(readability=0.711, harmlessness=0.5, safety=0.5, helpfulness=0.5, depth=0.613),
            *("hh-invalid", "undecided", "0 of the 5 rates given are below"),
        ),
    ],
]


@pytest.mark.parametrize("changes", CHANGES)
def test_a_changed_figure_changes_the_verdict(figures, changes):
    given = figures
    for path, to, *_ in changes:
        given = change(given, *path, to=to)
    table = claims.claims(given)
    for *_, key, verdict, says in changes:
        found = row(table, key)
        assert found["verdict"] == words.VERDICTS[verdict], key
        assert says in f"{found['published']} {found['recomputed']}", key


def test_what_a_source_leaves_undefined_fails_only_by_every_reading(figures):
    """√.038 = .195 meets the bound of .14 and the picture's .162; √.01 = .1 meets neither."""
    rows = ("geometry-gap", "geometry-picture")
    figures = change(figures, *PICTURE, to="https://a.b")
    silent = copy.deepcopy(figures)
    del silent["audit"]["geometry"]["gap_is"]
    small = change(silent, "audit", "geometry", "gap", to=0.01)
    for given, verdict in ((figures, "fails"), (silent, "undecided"), (small, "fails")):
        table = claims.claims(given)
        assert {row(table, key)["verdict"] for key in rows} == {words.VERDICTS[verdict]}
    assert "doesn't define" in row(claims.claims(silent), "geometry-gap")["evidence"]


def test_a_count_is_confirmed_only_when_everything_was_published(figures):
    """All 19 rates given, and one reaches the share whatever its margins: only then does the claim
    hold. .711 leaves p open up to .38.
    """
    rates = dict.fromkeys(figures["audit"]["names"], 0.5) | figures["audit"]["hh"]["rates"]
    for best, verdict in ((0.711, "undecided"), (0.9, "holds")):
        given = change(figures, "audit", "hh", "rates", to=rates | {"readability": best})
        assert row(claims.claims(given), "hh-valid")["verdict"] == words.VERDICTS[verdict]


def test_what_nobody_can_look_up_decides_nothing(figures):
    found = row(claims.claims(figures), "geometry-picture")
    assert found["verdict"] == words.VERDICTS["undecided"]
    assert "not written down" in found["evidence"]


def test_a_verdict_on_the_audits_words_names_the_definition_it_rests_on(table):
    """Of what a definition decides; what was read in code, and what can't be told, name lines."""
    judged = table[(table["system"] == words.AUDIT) & (table["verdict"] != "can't be told")]
    silent = judged[judged["formula"] == ""]["key"]
    assert set(silent) == {
        "sample",  # rows counted
        *("rule-positive", "folds", "prompts", "code-rewardbench", "code-helpsteer2"),  # read
        *("probes-absent", "geometry-place"),  # planted worlds
    }


# ---- Runs ----


def test_runs_fill_the_rows(figures, table, part):
    world = separability_world("absent", pairs=200)
    runs = [part(HARMLESS, 1.0, -0.6), part(HELPFUL, -0.6, 1.0), world]
    filled = claims.claims(figures, runs, [patching_world(24, 1)])
    for key in ON_RUNS:
        assert "not computed: no run" in row(table, key)["recomputed"], key
        assert "not computed" not in row(filled, key)["recomputed"], key
    cross = row(filled, "valid-heads-cross")
    assert "harm wins" in cross["recomputed"] and "it goes against them" in cross["evidence"]
    # a run's results change no verdict, but that of probes where they defy the prediction, and
    # that of conflicts, which is of states alone
    assert row(filled, "lens-conflict")["verdict"] == words.VERDICTS["artefact"]
    others = ~table["key"].isin(["lens-conflict", *ON_EFFECTS])
    assert filled["verdict"][others].equals(table["verdict"][others])


def faulty(*, by_norm: bool, by_alignment: bool):
    """Effects in which a fault of the published lens, or of its patches, hides what is there."""
    effects = patching_world(48, 1, seed=1).copy(deep=True)
    for name in ("lens", "lens_raw"):
        last = effects[name].values[:, -1:]
        share = np.linspace(0, 1, effects.sizes["depth"])[None, :, None]
        effects[name].values[:] = last * (
            share if name == "lens" else share ** (9 if by_norm else 1)
        )
    # From both ends patches take what is written, and from the left as well or nothing.
    nodes = effects["node"].values[:-1]
    parts = patched(effects, "part")[:, 1:-1]
    generator = np.random.default_rng(0)
    for way in effects["way"].values:
        noise = generator.standard_normal(parts.shape)
        kept = noise if by_alignment and way.endswith("left") else parts
        effects["effect"].loc[{"way": way, "node": nodes}] = -kept
    return effects


@pytest.mark.parametrize("made", [True, False])
def test_effects_say_whether_a_fault_makes_what_was_published(figures, table, made):
    effects = faulty(by_norm=made, by_alignment=made)
    filled = claims.claims(figures, (), [effects])
    verdict = words.VERDICTS["artefact" if made else "undecided"]
    for key in ("lens-crystallisation-here", "lens-agreement-here"):
        assert row(table, key)["verdict"] == words.VERDICTS["undecided"]
        assert row(filled, key)["verdict"] == verdict, key
        assert "(planted on planted/patching)" in row(filled, key)["recomputed"]
    for key in ON_EFFECTS:
        assert "no effects of a model's parts" in row(table, key)["recomputed"]
        assert "no effects" not in row(filled, key)["recomputed"]


def test_an_exchange_that_is_not_whole_fails(figures, table):
    effects = patching_world(24, 1)  # from the left half of everything is out of reach
    found = row(claims.claims(figures, (), [effects]), "lens-alignment")
    assert found["verdict"] == words.VERDICTS["fails"]
    assert "50% and 50% of the size of margins" in found["recomputed"]
    whole = effects.copy(deep=True)
    for mode in ("noising", "denoising"):
        margins = whole["effect"].sel(way=f"{mode}, both ends", node="everything").values
        whole["effect"].loc[{"way": f"{mode}, left", "node": "everything"}] = margins
    again = row(claims.claims(figures, (), [whole]), "lens-alignment")
    assert again["verdict"] == row(table, "lens-alignment")["verdict"]
    assert "0% and 0% of the size of margins" in again["recomputed"]


def test_effects_without_margins_or_patches_say_nothing(figures):
    effects = patching_world(24, 1)
    unpatched = effects.isel(patched=slice(0))
    assert explained.patches([unpatched]).empty and len(explained.depths([unpatched])) == 1
    flat = make_effects(np.ones((8, 4, 1)))
    assert explained.depths([flat]).empty and explained.patches([flat]).empty
    assert explained.depths([]).empty and explained.patches([]).empty


def test_fits_are_not_called_heads(figures):
    """Two heads on two data sets are four fits of two heads."""
    worlds = [separability_world("absent", pairs=200, seed=seed) for seed in (0, 1)]
    runs = [world.assign_attrs(dataset=f"d{k}") for k, world in enumerate(worlds)]
    found = row(claims.claims(figures, runs), "probes")["recomputed"]
    assert "in 4 fits at hand (heads: 2, data sets: 2) probes lie" in found


def test_probes_that_defy_the_prediction_change_the_verdict(figures):
    """Rare spikes carry nearly all of a score's variance, and nothing about its median: kept
    variance then predicts far more than any probe can find.
    """
    generator = np.random.default_rng(3)
    hidden = generator.standard_normal((400, 60))
    hidden[:, 0] = 100 * (generator.random(400) < 0.02)
    hidden[:, 59] *= 0.1  # dropped by 50 components
    score = np.column_stack([hidden[:, 0] + hidden[:, 59], hidden[:, 1]])
    run = make_run(score, heads=["spikes", "plain"], hidden=hidden, name="d")
    found = row(claims.claims(figures, [run]), "probes")
    assert found["verdict"] == words.VERDICTS["undecided"]
    assert "(largest: spikes on d)" in found["recomputed"]


def test_only_pairs_whose_target_is_longer_are_counted(figures):
    tokens = [9, 9, 20, 5, 30, 20, 7, 8]
    run = make_run(np.arange(8.0)[:, None], tokens=tokens, name="d")
    found = row(claims.claims(figures, [run]), "lens-alignment")["recomputed"]
    assert "50% (into the preferred response) and 25% (into the other) on d" in found
