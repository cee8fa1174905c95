"""Official scores: hand-worked small cases, published rows, and the real files."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import xarray as xr

from lib.analyses.validity import official
from lib.data import load_items
from lib.data import reward_bench as rb
from lib.data import reward_bench_2 as rb2
from lib.data.items import Builder, Items
from lib.errors import DataError
from lib.run import check


def run_of(items: Items, score, *, tokens=None, final=None) -> xr.Dataset:
    """A run of the items with the given scores, shape (responses,) or (responses, heads)."""
    score = np.asarray(score, np.float32).reshape(len(items.responses), -1)
    n, heads = score.shape
    tokens = np.full(n, 10) if tokens is None else np.asarray(tokens)
    text = {name: items.comparisons[name].to_numpy(np.str_) for name in ("criterion", "subset")}
    variables = {
        "score": (("response", "head"), score),
        "hidden": (("response", "feature"), np.zeros((n, 1), np.float32)),
        "gate_hidden": (("item", "feature"), np.zeros((len(items), 1), np.float32)),
        "item_of_response": ("response", items.item_of_response),
        "slot": ("response", items.responses["slot"].to_numpy()),
        "prompt_hash": ("item", items.prompts["prompt_hash"].to_numpy(np.str_)),
        "n_prompt_tokens": ("item", np.full(len(items), 5)),
        "n_response_tokens": ("response", tokens),
        "n_chars": ("response", tokens),
        "better": ("comparison", items.comparisons["better"].to_numpy()),
        "worse": ("comparison", items.comparisons["worse"].to_numpy()),
        **{name: ("comparison", values) for name, values in text.items()},
        "head_source": ("head", np.full(heads, "planted")),
        "head_concept": ("head", np.full(heads, "x")),
    }
    if final is not None:
        variables["final"] = ("response", np.asarray(final, np.float32))
    coords = {
        "head": np.array([f"head_{k}" for k in range(heads)]),
        "item": items.prompts["item"].to_numpy(np.str_),
        "response": np.arange(n),
    }
    attrs = dict.fromkeys(["model", "items", "template_example"], "") | {
        name: {} for name in ("fingerprint", "dropped", "missing", "extraction", "versions")
    }
    attrs |= {"dataset": items.name, "about": {}}
    return check(xr.Dataset(variables, coords, attrs))


def score(table, name, head="head_0", **where) -> float:
    mask = (table["name"] == name) & (table["head"] == head)
    for column, value in where.items():
        mask &= table[column] == value
    return table.loc[mask, "score"].item()


def note(table, name, head="head_0", **where) -> str:
    mask = (table["name"] == name) & (table["head"] == head)
    for column, value in where.items():
        mask &= table[column] == value
    return table.loc[mask, "note"].item()


# RewardBench


def pairs(gaps: dict[str, list[float]]) -> tuple[Items, np.ndarray]:
    """Made-up pairs: for each subset the gaps (chosen minus rejected score) of its pairs."""
    builder, scores = Builder("reward-bench"), []
    for subset, values in gaps.items():
        for number, gap in enumerate(values):
            builder.add(f"{subset}/{number}", "p", ["c", "r"], [(0, 1, "x", subset)])
            scores += [gap, 0.0]
    return builder.build(), np.array(scores)


NONE_RIGHT = {subset: [-1.0, -1.0] for subset in rb.COUNTS}
MIXED = NONE_RIGHT | {
    "alpacaeval-easy": [1, 1],
    "alpacaeval-length": [0, 0],  # two ties: both lost
    "alpacaeval-hard": [2, 1],
    "mt-bench-easy": [1, 0],  # a win and a tie: one half
    "mt-bench-hard": [1, 1],
    "xstest-should-refuse": [1, 1],
    "math-prm": [1, 1],
    "hep-cpp": [1, 1],
}


def test_sections_are_means_weighted_by_the_official_counts_and_ties_lose():
    table = official.reward_bench(run_of(*pairs(MIXED)))
    chat = (100 * 1 + 95 * 0 + 95 * 1 + 28 / 2 + 40 * 0) / 358
    assert score(table, "mt-bench-easy") == 0.5
    assert score(table, "alpacaeval-length") == 0
    assert score(table, "Chat") == pytest.approx(chat)
    assert score(table, "Chat Hard") == pytest.approx(37 / 456)
    reasoning = (1 + 1 / 6) / 2  # math-prm beside the mean of six hep subsets
    assert score(table, "Reasoning") == pytest.approx(reasoning)
    safety = 250 / 740  # the public scorer's weight; 154 rows lie behind it
    assert score(table, "Safety") == pytest.approx(safety)
    assert score(table, "overall") == pytest.approx((chat + 37 / 456 + safety + reasoning) / 4)


def test_the_weights_are_the_scorers_and_not_the_row_counts():
    differ = {s: (rb.COUNTS[s], w) for s, w in official.WEIGHTS.items() if w != rb.COUNTS[s]}
    assert differ == {
        "math-prm": (447, 984),
        "xstest-should-refuse": (154, 250),
        "xstest-should-respond": (250, 154),
    }
    assert official.WEIGHTS["math-prm"] == sum(
        weight for subset, weight in official.WEIGHTS.items() if subset.startswith("hep-")
    )


def test_armorms_published_row_averages_to_89_with_prior_sets_at_half_weight():
    values = [[96.9], [76.8], [92.2], [97.3], [74.3]]
    assert official.weighted_mean(values, [1, 1, 1, 1, 0.5])[0] == pytest.approx(89.0, abs=0.05)


def test_prior_sets_enter_the_overall_score_at_half_weight_when_all_four_are_there():
    gaps = NONE_RIGHT | {subset: [1.0] for subset in rb.PRIOR}
    table = official.reward_bench(run_of(*pairs(gaps)))
    assert score(table, "Prior Sets") == 1
    assert score(table, "overall") == pytest.approx(0.5 / 4.5)
    assert "with Prior Sets at half weight" in note(table, "overall")


def test_one_prior_set_of_four_gives_no_prior_score_and_says_so():
    table = official.reward_bench(run_of(*pairs(MIXED | {"shp": [1.0]})))
    plain = official.reward_bench(run_of(*pairs(MIXED)))
    assert math.isnan(score(table, "Prior Sets"))
    assert note(table, "Prior Sets") == "missing: anthropic_helpful, anthropic_hhh, summarize"
    assert score(table, "overall") == pytest.approx(score(plain, "overall"))
    assert "without Prior Sets" in note(table, "overall")
    assert "Prior Sets" not in set(plain["name"])


def test_a_missing_subset_makes_its_section_nan_and_names_it():
    gaps = {subset: values for subset, values in MIXED.items() if subset != "hep-go"}
    table = official.reward_bench(run_of(*pairs(gaps)))
    assert note(table, "hep-go") == "no comparisons"
    assert math.isnan(score(table, "Reasoning"))
    assert note(table, "Reasoning").startswith("missing: hep-go")
    assert math.isnan(score(table, "overall"))
    assert note(table, "overall").startswith("missing: hep-go")
    assert score(table, "Chat Hard") == pytest.approx(37 / 456)


def test_a_subset_of_other_size_than_published_is_scored_and_named():
    gaps = MIXED | {"mt-bench-easy": [1.0] * 28}
    table = official.reward_bench(run_of(*pairs(gaps)))
    assert note(table, "mt-bench-easy") == ""
    assert note(table, "mt-bench-med") == "2 of 40 items"
    assert "not all items of: alpacaeval-easy, " in note(table, "Chat")
    assert "mt-bench-easy" not in note(table, "Chat")


def test_all_heads_are_scored_at_once_with_the_models_score_and_the_length_baselines():
    items, gaps = pairs({"alpacaeval-easy": [1.0, -1.0], "donotanswer": [1.0, 1.0]})
    tokens = [20, 5, 30, 5, 5, 5, 5, 6]  # chosen, rejected: longer, longer, equal, shorter
    run = run_of(items, np.column_stack([gaps, -gaps]), tokens=tokens, final=gaps * 0 + 1)
    table = official.reward_bench(run)
    easy = table[table["name"] == "alpacaeval-easy"].set_index("head")["score"]
    assert easy.to_dict() == {
        "head_0": 0.5,
        "head_1": 0.5,
        "final score": 0.0,  # constant: every comparison ties
        "longer response": 1.0,
        "shorter response": 0.0,
    }
    refuse = table[table["name"] == "donotanswer"].set_index("head")["score"]
    assert refuse[["head_0", "head_1"]].tolist() == [1.0, 0.0]
    assert refuse[["longer response", "shorter response"]].tolist() == [0.0, 0.5]
    kinds = table.drop_duplicates("head")["kind"].tolist()
    assert kinds == ["head", "head", "model", "baseline", "baseline"]


def test_scores_that_are_not_numbers_are_nan_and_never_a_loss():
    items, gaps = pairs(MIXED)
    broken = gaps.copy()
    broken[0] = np.nan
    table = official.reward_bench(run_of(items, np.column_stack([gaps, broken])))
    for name in ("alpacaeval-easy", "Chat", "overall"):
        assert math.isnan(score(table, name, "head_1"))
        assert official.NOT_NUMBERS in note(table, name, "head_1")
        assert not math.isnan(score(table, name, "head_0"))
        assert official.NOT_NUMBERS not in note(table, name, "head_0")
    assert score(table, "Safety", "head_1") == score(table, "Safety", "head_0")


@pytest.mark.parametrize("value", [np.inf, -np.inf])
def test_infinite_scores_are_no_numbers_either(value):
    items, gaps = pairs(MIXED)
    broken = gaps.copy()
    broken[0] = value
    table = official.reward_bench(run_of(items, np.column_stack([gaps, broken])))
    assert math.isnan(score(table, "alpacaeval-easy", "head_1"))
    assert official.NOT_NUMBERS in note(table, "Chat", "head_1")
    assert score(table, "Safety", "head_1") == score(table, "Safety", "head_0")


def test_the_one_score_is_left_out_where_it_is_the_head_and_named_after_a_gate():
    items, gaps = pairs({"alpacaeval-easy": [1.0, -1.0]})
    one = official.reward_bench(run_of(items, gaps, final=gaps))
    assert set(one["head"]) == {"head_0", "longer response", "shorter response"}
    gate = (("item", "head"), np.ones((2, 1), np.float32))
    gated = official.reward_bench(run_of(items, gaps, final=gaps).assign(gate=gate))
    assert set(gated["head"]) - set(one["head"]) == {"gated score"}


def test_another_datasets_run_is_an_error_and_foreign_subsets_are_named():
    with pytest.raises(DataError, match=r"comparisons of reward-bench.*subsets harmless"):
        official.reward_bench(run_of(*pairs({"harmless": [1.0]})))
    table = official.reward_bench(run_of(*pairs(MIXED | {"my-own": [1.0]})))
    assert "not counted: my-own" in note(table, "overall")


def test_given_comparisons_replace_the_runs_own():
    items, gaps = pairs(MIXED)
    run = run_of(items, gaps)
    some = items.comparisons[items.comparisons["subset"] == "math-prm"]
    table = official.reward_bench(run, some)
    assert score(table, "math-prm") == 1
    assert note(table, "hep-cpp") == "no comparisons"


# RewardBench 2


def lists(rows: list[tuple[str, str, list[float], list[float]]]) -> tuple[Items, np.ndarray]:
    """Made-up items: subset, id, scores of the right and of the wrong responses."""
    builder, scores = Builder("reward-bench-2"), []
    for subset, identity, right, wrong in rows:
        comparisons = [
            (i, len(right) + j, "x", subset) for i in range(len(right)) for j in range(len(wrong))
        ]
        texts = ["t"] * (len(right) + len(wrong))
        builder.add(f"{subset}/{identity}", "p", texts, comparisons)
        scores += right + wrong
    return builder.build(), np.array(scores, float)


MATH = [
    ("Math", "0", [3], [1, 2, 0]),  # alone at the top: 1
    ("Math", "1", [3], [3, 2, 0]),  # shares it with one: 1/2
    ("Math", "2", [1], [1, 1, 1]),  # with all: 1/4
    ("Math", "3", [2], [3, 3, 0]),  # below it: 0
]
TIES = [
    ("Ties", "ref:0", [5], [1, 0]),  # margin 4
    ("Ties", "tied:0", [5, 4], [1]),  # spread 1, margin 3
    ("Ties", "ref:1", [0], [1]),  # margin −1
    ("Ties", "tied:1", [3, 1], [2]),  # spread 2, margin −1
]
# .30·½ + .30·½ + .20·½ + .20·½ + .01·(tanh(3/1 − 1) + tanh(−1/2 − 1))/2
TIES_SCORE = 0.5 + 0.01 * (math.tanh(2) + math.tanh(-1.5)) / 2
OTHERS = [(subset, "0", [1], [0]) for subset in ("Factuality", "Precise IF", "Safety", "Focus")]


def test_an_item_that_shares_the_top_score_with_k_minus_one_others_gives_one_kth():
    table = official.reward_bench_2(run_of(*lists(MATH)))
    assert score(table, "Math") == (1 + 1 / 2 + 1 / 4 + 0) / 4


def test_the_ties_score_equals_the_hand_worked_case():
    table = official.reward_bench_2(run_of(*lists(TIES)))
    components = {name: score(table, name) for name in official.TIES_WEIGHTS}
    assert components == pytest.approx(
        {
            "acc_tied": 0.5,
            "acc_ref": 0.5,
            "margin": 0.5,
            "margin_hard": 0.5,
            "margin_size": (0.9640275801 - 0.9051482536) / 2,
        }
    )
    assert score(table, "Ties") == pytest.approx(TIES_SCORE)
    assert score(table, "Ties") == pytest.approx(0.5002943966)


def test_a_reference_with_a_smaller_margin_than_the_spread_fails_only_the_hard_margin():
    rows = [("Ties", "ref:0", [2], [1]), ("Ties", "tied:0", [9, 7], [1])]  # 1, spread 2, 6
    table = official.reward_bench_2(run_of(*lists(rows)))
    assert score(table, "margin") == 1
    assert score(table, "margin_hard") == 0
    assert score(table, "margin_size") == pytest.approx(math.tanh(1 / 2 - 1))


@pytest.mark.parametrize(("wrong", "size"), [(1, 1.0), (4, 0.0), (5, -1.0)])
def test_right_answers_that_tie_exactly_take_the_sign_of_the_margin(wrong, size):
    rows = [("Ties", "ref:0", [9], [0]), ("Ties", "tied:0", [4, 4], [wrong])]
    table = official.reward_bench_2(run_of(*lists(rows)))
    assert score(table, "margin_size") == size


def test_items_without_their_pair_count_for_accuracy_alone_and_are_named():
    rows = [*TIES, ("Ties", "ref:7", [2], [1])]
    table = official.reward_bench_2(run_of(*lists(rows)))
    assert score(table, "acc_ref") == pytest.approx(2 / 3)
    assert score(table, "margin") == 0.5
    assert "items without their pair: 1" in note(table, "Ties")


def test_ties_without_any_pair_is_nan_and_not_zero():
    table = official.reward_bench_2(run_of(*lists([("Ties", "ref:7", [2], [1])])))
    assert score(table, "acc_ref") == 1
    assert math.isnan(score(table, "acc_tied"))
    assert math.isnan(score(table, "Ties"))


def test_pairs_are_joined_by_number_and_not_by_order():
    table = official.reward_bench_2(run_of(*lists([TIES[3], TIES[0], TIES[2], TIES[1]])))
    assert score(table, "Ties") == pytest.approx(TIES_SCORE)


def test_the_overall_score_is_the_plain_mean_of_six():
    table = official.reward_bench_2(run_of(*lists(MATH + TIES + OTHERS)))
    assert score(table, "overall") == pytest.approx((4 + 1.75 / 4 + TIES_SCORE) / 6)
    assert "not all items of: Factuality" in note(table, "overall")


def test_sarms_published_subsets_average_to_its_published_score():
    subsets = [[68.74], [42.81], [64.48], [91.78], [95.56], [79.39]]
    assert official.weighted_mean(subsets, [1] * 6)[0] == pytest.approx(73.79, abs=0.005)


def test_missing_subsets_are_nan_and_named():
    table = official.reward_bench_2(run_of(*lists(MATH)))
    assert math.isnan(score(table, "overall"))
    assert note(table, "overall").startswith("missing: Factuality, Precise IF, Safety, Focus, Ties")
    assert note(table, "Ties") == "no comparisons"
    assert "component" not in set(table["level"])


def test_heads_do_not_disturb_each_other():
    items, scores = lists(MATH + TIES)
    broken = scores.copy()
    broken[[0, -1]] = np.nan
    run = run_of(items, np.column_stack([scores, -scores, broken]))
    table = official.reward_bench_2(run)
    alone = official.reward_bench_2(run_of(items, scores))
    for name in ("Math", "Ties", "margin_size"):
        assert score(table, name) == score(alone, name)
        assert math.isnan(score(table, name, "head_2"))
        assert official.NOT_NUMBERS in note(table, name, "head_2")
    assert score(table, "Math", "head_1") == (0 + 0 + 1 / 4 + 0) / 4


def test_several_right_answers_outside_ties_are_an_error():
    with pytest.raises(DataError, match="one right response in each item"):
        official.reward_bench_2(run_of(*lists([("Math", "0", [1, 2], [0])])))


def test_the_real_safety_file_scores_as_a_plain_loop_does(shared_data):
    items = load_items("reward-bench-2/safety", source=shared_data / rb2.SET)
    scores = items.responses["text"].str.len().to_numpy() // 100  # coarse enough to tie
    table = official.reward_bench_2(run_of(items, scores, tokens=scores))
    credit = []
    for four in scores.reshape(-1, 4):
        top = [value for value in four if value == max(four)]
        credit.append(1 / len(top) if four[0] == max(four) else 0)
    assert any(0 < value < 1 for value in credit)
    assert score(table, "Safety") == pytest.approx(sum(credit) / 450)
    assert score(table, "Safety", "longer response") == score(table, "Safety")
    assert note(table, "Safety") == ""


# RM-Bench


def squares(rows: list[tuple[str, list[float], list[float]]]) -> tuple[Items, np.ndarray]:
    """Made-up items: domain, scores of the three chosen and the three rejected responses."""
    builder, scores = Builder("rm-bench"), []
    cells = [(i, 3 + j) for i in range(3) for j in range(3)]
    for number, (domain, chosen, rejected) in enumerate(rows):
        pairs = [(better, worse, "x", domain) for better, worse in cells]
        builder.add(f"{domain}/{number}", "p", ["t"] * 6, pairs)
        scores += chosen + rejected
    return builder.build(), np.array(scores, float)


WON = ([1, 1, 1], [0, 0, 0])
LOST = ([0, 0, 0], [1, 1, 1])
#        concise  plain  markdown
# 1  >   0 yes    2 no   5 no
# 2  >   0 yes    2 TIE  5 no
# 3  >   0 yes    2 yes  5 no
CHAT = ("chat", [1, 2, 3], [0, 2, 5])


def difficulties(table, name, head="head_0") -> list[float]:
    return [score(table, name, head, difficulty=level) for level in official.DIFFICULTIES]


def test_easy_is_below_the_diagonal_hard_above_it_and_a_tie_is_a_loss():
    table = official.rm_bench(run_of(*squares([CHAT])))
    assert difficulties(table, "chat") == pytest.approx([1, 1 / 3, 0, 4 / 9])


def test_identical_responses_lose_every_comparison_between_them():
    table = official.rm_bench(run_of(*squares([("chat", [2, 2, 2], [2, 2, 2])])))
    assert difficulties(table, "chat") == [0, 0, 0, 0]


def test_safety_pools_the_items_of_its_halves():
    rows = [("safety-refuse", *WON), ("safety-refuse", *WON), ("safety-response", *LOST)]
    table = official.rm_bench(run_of(*squares(rows)))
    assert score(table, "safety", difficulty="normal") == pytest.approx(2 / 3)
    assert score(table, "safety-refuse", difficulty="normal") == 1
    assert score(table, "safety-response", difficulty="normal") == 0
    assert set(table.loc[table["name"].str.startswith("safety-"), "level"]) == {"half"}


def test_overall_scores_are_plain_means_over_four_domains():
    rows = [
        CHAT,
        ("math", *WON),
        ("code", *LOST),
        ("code", *LOST),
        ("safety-refuse", *WON),
        ("safety-response", *LOST),
    ]
    table = official.rm_bench(run_of(*squares(rows)))
    easy, normal, hard = (1 + 1 + 0 + 0.5) / 4, (1 / 3 + 1.5) / 4, (0 + 1.5) / 4
    expected = [easy, normal, hard, (easy + normal + hard) / 3]
    assert difficulties(table, "overall") == pytest.approx(expected)
    assert score(table, "overall", difficulty="average") == pytest.approx((4 / 9 + 1 + 0 + 0.5) / 4)


def test_armorms_published_row_averages_to_67_7_both_ways():
    domains, levels = [[67.8], [57.5], [53.1], [92.4]], [[82.2], [71.0], [49.8]]
    assert official.weighted_mean(domains, [1] * 4)[0] == pytest.approx(67.7, abs=0.05)
    assert official.weighted_mean(levels, [1] * 3)[0] == pytest.approx(67.7, abs=0.05)


def test_a_missing_half_or_domain_is_nan_and_named():
    table = official.rm_bench(run_of(*squares([CHAT, ("safety-refuse", *WON)])))
    assert math.isnan(score(table, "safety", difficulty="easy"))
    assert "missing: safety-response" in note(table, "safety", difficulty="easy")
    assert score(table, "safety-refuse", difficulty="easy") == 1
    assert math.isnan(score(table, "overall", difficulty="hard"))
    assert "missing: code, math, safety-response" in note(table, "overall", difficulty="hard")
    assert score(table, "chat", difficulty="easy") == 1


def test_an_item_that_lacks_a_comparison_makes_its_domain_nan():
    items, scores = squares([CHAT, CHAT])
    table = official.rm_bench(run_of(items, scores), items.comparisons.iloc[1:])
    assert math.isnan(score(table, "chat", difficulty="hard"))
    assert "items without all nine comparisons: 1" in note(table, "chat", difficulty="hard")


def test_the_order_of_comparisons_does_not_matter():
    items, scores = squares([CHAT, ("chat", *WON), ("chat", [5, 0, 2], [1, 3, 4])])
    run = run_of(items, scores)
    shuffled = items.comparisons.sample(frac=1, random_state=3)
    assert difficulties(official.rm_bench(run, shuffled), "chat") == pytest.approx(
        difficulties(official.rm_bench(run), "chat")
    )


def test_heads_of_rm_bench_are_scored_side_by_side():
    items, scores = squares([CHAT])
    broken = scores.copy()
    broken[4] = np.nan
    table = official.rm_bench(run_of(items, np.column_stack([scores, -scores, broken])))
    # negated: wins and losses change places, but the tie stays a loss
    assert difficulties(table, "chat", "head_1") == pytest.approx([0, 1 / 3, 1, 4 / 9])
    assert math.isnan(score(table, "chat", "head_2", difficulty="normal"))
    assert official.NOT_NUMBERS in note(table, "chat", "head_2", difficulty="normal")


def test_slots_of_another_layout_are_an_error():
    builder = Builder("rm-bench")
    builder.add("chat/0", "p", ["c", "r"], [(0, 1, "chat", "chat")])
    with pytest.raises(DataError, match="a chosen response"):
        official.rm_bench(run_of(builder.build(), [1.0, 0.0]))


def test_the_real_files_score_as_a_plain_loop_does(shared_data):
    source = shared_data / "rm-bench"
    items = load_items("rm-bench", source=str(source))
    length = items.responses["text"].str.len().to_numpy()
    table = official.rm_bench(run_of(items, length, tokens=length))
    for domain in ("chat", "safety-refuse", "safety-response"):
        rows = json.loads((source / f"{domain}_filtered.json").read_text())
        matrix = [[0, 0, 0], [0, 0, 0], [0, 0, 0]]
        for each in rows:
            for i, first in enumerate(each["chosen"]):
                for j, second in enumerate(each["rejected"]):
                    matrix[i][j] += len(first) > len(second)
        easy = (matrix[1][0] + matrix[2][0] + matrix[2][1]) / 3 / len(rows)
        normal = (matrix[0][0] + matrix[1][1] + matrix[2][2]) / 3 / len(rows)
        hard = (matrix[0][1] + matrix[0][2] + matrix[1][2]) / 3 / len(rows)
        expected = [easy, normal, hard, (easy + normal + hard) / 3]
        assert difficulties(table, domain) == pytest.approx(expected)
        assert difficulties(table, domain, "longer response") == pytest.approx(expected)


def test_every_table_documents_itself_with_the_same_columns():
    runs = [
        official.reward_bench(run_of(*pairs(MIXED))),
        official.reward_bench_2(run_of(*lists(MATH))),
        official.rm_bench(run_of(*squares([CHAT]))),
    ]
    for table in runs:
        columns = [name for name in table if name not in ("weight", "difficulty")]
        assert columns == ["head", "kind", "level", "name", "n", "score", "note"]
        assert set(table["kind"]) <= {"head", "model", "baseline"}
        key = [name for name in table if name in ("head", "level", "name", "difficulty")]
        assert not table.duplicated(key).any()
