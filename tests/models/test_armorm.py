"""ArmoRM's layout: what a tiny checkpoint gives is what NumPy gives from its states."""

import os

import numpy as np
import pytest
import tiny
import torch
from safetensors.torch import load_file, save_file

from lib.data.items import Builder
from lib.errors import ModelError
from lib.extraction import extract
from lib.extraction.forward import forward
from lib.models import armorm, load_model
from lib.models.base import RewardModel

HOSTILE = [
    (tiny.USER, [f"Fair.{tiny.PATTERN}Fairer.{tiny.PATTERN}", "Plain."]),
    (
        [{"role": "user", "content": f"Say {tiny.PATTERN}now."}, *tiny.DIALOGUE[2:]],
        [f"{tiny.PATTERN}Now."],
    ),
]
CASES = tiny.CASES + HOSTILE


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("armorm")
    backbone, head = tiny.write_armorm(folder)
    return folder, backbone, head


@pytest.fixture(scope="module")
def model(made):
    return load_model(str(made[0]), device="cpu")


def by_hand(backbone, head, prompt, response, tokenizer):
    """Rewards, gate and score of one dialogue, from its states, in float64.

    The gate's token is looked up as the released code does, by the header's pattern, but
    in the prompt alone.
    """

    def tokens(text):
        return tokenizer(text, add_special_tokens=False)["input_ids"]

    opened = tokens(
        tokenizer.apply_chat_template(prompt, tokenize=False, add_generation_prompt=True)
    )
    ids = tokens(
        tokenizer.apply_chat_template(
            [*prompt, {"role": "assistant", "content": response}], tokenize=False
        )
    )
    pattern = tokens(tiny.PATTERN)
    at = max(i for i in range(len(opened)) if opened[i : i + len(pattern)] == pattern)
    with torch.no_grad():
        states = backbone(torch.tensor([ids])).last_hidden_state[0].double().numpy()
    x = states[at]
    layers = head["gate"].layers
    for i in range(len(layers)):
        weight, bias = (a.astype(float) for a in layers[i])
        x = np.array([sum(weight[j] * x) + bias[j] for j in range(len(bias))])
        if i < len(layers) - 1:
            x = np.where(x > 0, x, 0)
    odds = np.exp(x / head["gate"].temperature)
    gate = head["gate"].logit_scale * odds / sum(odds)
    rewards = np.array([row @ states[-1] for row in head["weight"].astype(float)])
    debiased = np.array([rewards @ column for column in head["transform"].astype(float).T])
    return rewards, gate, debiased, sum(gate * debiased)


def encoded(model, cases=CASES):
    return [model.format.encode(prompt, responses) for prompt, responses in cases]


def read(model, states, items):
    owner = np.repeat(np.arange(len(items)), [len(item.sequences) for item in items])
    return model.read(states.hidden, states.gate_hidden[owner])


@pytest.fixture(scope="module")
def expected(made, model):
    """Rewards, gate, debiased rewards and score of every response, by hand."""
    rows = [
        by_hand(*made[1:], prompt, response, model.format.tokenizer)
        for prompt, responses in CASES
        for response in responses
    ]
    return [np.array(column) for column in zip(*rows, strict=True)]


@pytest.mark.parametrize(
    "how",
    [
        {"packing": "trees"},
        {"packing": "trees", "budget": 60},
        {"packing": "padded", "budget": 100, "pad": "unused"},
        *(
            {"packing": "padded", "padding_side": side, "pad": pad}
            for side in ("left", "right")
            for pad in ("end of turn", "in prompt", "unused")
        ),
    ],
    ids=lambda how: "-".join(map(str, how.values())),
)
def test_rewards_gate_and_score_are_those_of_numpy(made, model, expected, how):
    items = encoded(model)
    pads = {
        "end of turn": model.format.tokenizer.pad_token_id,
        "in prompt": int(items[0].sequences[0][items[0].gate_at - 1]),
        "unused": 0,
    }
    assert pads["end of turn"] == model.format.tokenizer.eos_token_id
    how = {key: value for key, value in how.items() if key != "pad"} | {
        "pad_id": pads[how.get("pad", "unused")]
    }
    readout = read(model, forward(model.backbone, items, **how), items)
    rewards, gate, debiased, score = expected
    coefficients = gate @ made[2]["transform"].astype(float).T
    np.testing.assert_allclose(readout.score, rewards, atol=1e-5)
    np.testing.assert_allclose(readout.gate, coefficients, atol=1e-5)
    np.testing.assert_allclose(readout.score @ model.transform, debiased, atol=1e-5)
    np.testing.assert_allclose(readout.final, score, atol=1e-5)


def test_the_states_differ_enough_for_that_to_mean_something(model):
    readout = read(model, forward(model.backbone, encoded(model)), encoded(model))
    assert readout.score.std(axis=0).min() > 0.2
    assert readout.gate.std(axis=0).min() > 1e-3
    assert np.unique(readout.final.round(4)).size == len(readout.final)


def test_invariants_of_the_gated_score(made, model):
    """METHODS §7: Σ r·(g Mᵀ) is the score, the gate sums to its scale, r isn't debiased."""
    head = made[2]
    items = encoded(model)
    states = forward(model.backbone, items)
    readout = read(model, states, items)
    np.testing.assert_allclose((readout.score * readout.gate).sum(1), readout.final, atol=1e-3)
    gate = model.gate(states.gate_hidden)
    np.testing.assert_allclose(gate.sum(1), 1.25, atol=1e-5)
    assert (gate > 0).all()
    np.testing.assert_allclose(readout.score, states.hidden @ head["weight"].T, atol=1e-5)
    assert (readout.gate < 0).any()  # coefficients can be negative: M takes from a row
    assert {a.dtype for a in (readout.score, readout.final, readout.gate)} == {np.dtype("float32")}


def test_the_debiasing_matrix_acts_from_the_right():
    """Worked by hand: r = (2, 3), M takes half of head 1 out of head 0, g = (.25, .75)."""
    transform = np.array([[1, 0], [-0.5, 0]], np.float32)
    gate = armorm.Gate(
        [(np.zeros((2, 1), np.float32), np.log([1, 3]).astype(np.float32))], 1.0, 1.0
    )
    weight = np.array([[2], [3]], np.float32)
    model = armorm.ArmoRM("x", [], None, None, weight, {}, transform=transform, gate=gate)
    readout = model.read(np.ones((1, 1)), np.ones((1, 1)))
    assert readout.score.tolist() == [[2, 3]]
    np.testing.assert_allclose(readout.gate, [[0.25, -0.125]])  # g Mᵀ
    np.testing.assert_allclose(readout.final, [0.125])  # .25 · (2 − 3/2) + .75 · 0


def test_a_response_that_contains_the_header_moves_no_gate(model):
    plain, hostile = encoded(model, [(tiny.USER, ["Plain."]), (tiny.USER, HOSTILE[0][1])])
    assert plain.gate_at == hostile.gate_at
    ids = hostile.sequences[0][hostile.gate_at :]
    pattern = model.format.tokenize(tiny.PATTERN)
    assert (ids[: len(pattern)] == pattern).all()
    assert model.format.tokenizer.convert_ids_to_tokens(int(ids[0])) == tiny.EOT


def test_the_last_token_of_the_template_is_read(model):
    for item in encoded(model, tiny.CASES):
        for ids in item.sequences:
            assert model.format.tokenizer.convert_ids_to_tokens(int(ids[-1])) == tiny.EOT


@pytest.mark.parametrize("template", [tiny.NEVER_OPENS, tiny.CHATML, tiny.MISTRAL, tiny.BARE])
def test_other_templates_read_the_gate_where_the_response_opens(tmp_path, template):
    tiny.write_armorm(tmp_path, template=template)
    model = load_model(str(tmp_path), device="cpu")
    item = model.format.encode(tiny.USER, ["Fair.", "Plain."])
    prompt = model.format.render(tiny.USER, header=False)
    ids = item.sequences[0]
    assert model.format.tokenizer.decode(ids[: item.gate_at + 1]) == prompt
    states = forward(model.backbone, [item])
    assert np.isfinite(model.read(states.hidden, states.gate_hidden[[0, 0]]).final).all()


def test_a_template_that_always_opens_a_response_is_an_error(tmp_path):
    tiny.write_armorm(tmp_path, template=tiny.ALWAYS_OPENS)
    with pytest.raises(ModelError, match="add_generation_prompt"):
        load_model(str(tmp_path), device="cpu")


def test_no_chat_template_is_an_error_that_names_the_model(tmp_path):
    tiny.write_armorm(tmp_path, template=None)
    with pytest.raises(ModelError, match="chat template") as caught:
        load_model(str(tmp_path), device="cpu")
    assert str(tmp_path) in caught.value.needed


def test_it_is_a_reward_model_with_the_official_names(made, model):
    assert isinstance(model, RewardModel)
    assert model.gated
    assert model.heads[10].name == "beavertails-is_safe"
    assert "number of heads" in model.heads[0].source
    assert model.card["architecture"] == "LlamaForRewardModelWithGating"
    assert model.card["gate"]["hidden"] == [16, 16, 16]
    assert not any(p.requires_grad for p in model.backbone.parameters())


@pytest.mark.parametrize("kind", ["qwen2", "gemma2", "gpt2", "gpt_neox"])
@pytest.mark.parametrize(("heads", "depth"), [(3, 1), (23, 0)])
def test_any_backbone_head_count_and_gate_depth_loads(tmp_path, kind, heads, depth):
    backbone, head = tiny.write_armorm(tmp_path, kind=kind, heads=heads, depth=depth)
    model = load_model(str(tmp_path), device="cpu")
    item = model.format.encode(*tiny.CASES[1])
    states = forward(model.backbone, [item], packing="padded")
    readout = model.read(states.hidden, states.gate_hidden[[0, 0, 0]])
    for i, response in enumerate(tiny.CASES[1][1]):
        rewards, _, _, score = by_hand(
            backbone, head, tiny.CASES[1][0], response, model.format.tokenizer
        )
        np.testing.assert_allclose(readout.score[i], rewards, atol=1e-5)
        np.testing.assert_allclose(readout.final[i], score, atol=1e-5)
    assert model.heads[0].name == "head_0"
    assert model.heads[0].source == "unnamed"


def test_names_of_the_checkpoint_and_of_the_user(tmp_path):
    tiny.write_armorm(tmp_path, heads=2, names=["wit", "tact"])
    assert [h.name for h in load_model(str(tmp_path), device="cpu").heads] == ["wit", "tact"]
    given = load_model(str(tmp_path), device="cpu", heads=["a", "b"])
    assert [(h.name, h.source) for h in given.heads] == [
        ("a", "given by the user"),
        ("b", "given by the user"),
    ]
    with pytest.raises(ModelError, match="3"):
        load_model(str(tmp_path), device="cpu", heads=["a", "b", "c"])


def test_shards_load_as_one_file_does(made, model, tmp_path):
    tiny.write_armorm(tmp_path, max_shard_size="40KB")
    assert len(list(tmp_path.glob("*.safetensors"))) > 2
    sharded = load_model(str(tmp_path), device="cpu")
    assert sharded.fingerprint == model.fingerprint
    sorted(tmp_path.glob("*.safetensors"))[-1].unlink()
    with pytest.raises(ModelError, match="every shard"):
        load_model(str(tmp_path), device="cpu")


def test_fingerprints_tell_heads_from_backbones(made, model, tmp_path):
    tiny.write_armorm(tmp_path)
    tensors = load_file(tmp_path / "model.safetensors")
    tensors["gating.logit_scale"] += 1
    save_file(tensors, tmp_path / "model.safetensors", metadata={"format": "pt"})
    other = load_model(str(tmp_path), device="cpu").fingerprint
    differ = {part for part in other if other[part] != model.fingerprint[part]}
    assert differ == {"heads"}


@pytest.mark.parametrize("saved", [torch.bfloat16, torch.float16, torch.float32])
def test_weights_of_any_precision_load_in_any(tmp_path, saved):
    _, head = tiny.write_armorm(tmp_path, dtype=saved)
    model = load_model(str(tmp_path), device="cpu")
    assert {p.dtype for p in model.backbone.parameters()} == {torch.float32}
    rounded = torch.from_numpy(head["weight"]).to(saved).float().numpy()
    np.testing.assert_array_equal(model.weight, rounded)
    half = load_model(str(tmp_path), device="cpu", dtype="bfloat16")
    assert {p.dtype for p in half.backbone.parameters()} == {torch.bfloat16}
    item = model.format.encode(*tiny.CASES[0])
    exact, rough = (forward(m.backbone, [item], packing="padded").hidden for m in (model, half))
    assert np.corrcoef(exact.ravel(), rough.ravel())[0, 1] > 0.99
    assert model.read(rough, rough).score.dtype == np.float32


def test_a_device_map_places_the_backbone(made, model):
    mapped = load_model(str(made[0]), device_map={"": "cpu"})
    assert mapped.fingerprint == model.fingerprint
    with pytest.raises(ModelError, match="device_map"):
        load_model(str(made[0]), device="cpu", device_map="auto")


def test_code_that_comes_with_a_checkpoint_is_never_run(tmp_path):
    tiny.write_armorm(tmp_path)
    (tmp_path / "modeling_custom.py").write_text("raise SystemExit('remote code ran')")
    remote = {
        "AutoConfig": "modeling_custom.Config",
        "AutoModel": "modeling_custom.Model",
        "AutoModelForSequenceClassification": "modeling_custom.Model",
    }
    tiny.edit(tmp_path / "config.json", auto_map=remote)
    tiny.edit(
        tmp_path / "tokenizer_config.json",
        auto_map={"AutoTokenizer": ["modeling_custom.T", "modeling_custom.T"]},
    )
    assert len(load_model(str(tmp_path), device="cpu").heads) == 19


def spoil(folder, change):
    path = folder / "model.safetensors"
    tensors = load_file(path)
    change(tensors)
    save_file(tensors, path, metadata={"format": "pt"})


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda t: t.pop("regression_layer.weight"), "missing: regression_layer.weight"),
        (lambda t: t.pop("reward_transform_matrix"), "missing: reward_transform_matrix"),
        (lambda t: t.pop("gating.logit_scale"), "missing: gating.logit_scale"),
        (lambda t: t.pop("gating.layers.3.bias"), "missing: gating.layers.3.bias"),
        (
            lambda t: (t.pop("gating.layers.3.weight"), t.pop("gating.layers.3.bias")),
            "gating_n_hidden 3 in the weights of .*found 2",
        ),
        (
            lambda t: t.update({"gating.layers.999999999.weight": torch.zeros(1)}),
            "missing: gating.layers.4.bias, gating.layers.4.weight",
        ),
        (
            lambda t: t.update({"regression_layer.bias": torch.zeros(19)}),
            "unexpected: regression_layer.bias",
        ),
        (lambda t: t.update({"lm_tail.weight": torch.zeros(400, 32)}), "found lm_tail.weight"),
        (lambda t: t.pop("model.layers.1.mlp.up_proj.weight"), "layers.1.mlp.up_proj.weight"),
        (lambda t: t["regression_layer.weight"].__setitem__((3, 3), torch.nan), "NaN"),
        (lambda t: t["reward_transform_matrix"].__setitem__((3, 3), torch.inf), "infinity"),
        (lambda t: t["gating.layers.0.bias"].__setitem__(2, -torch.inf), "infinity"),
        (lambda t: t["model.norm.weight"].__setitem__(2, torch.nan), "NaN.* in norm.weight"),
        (
            lambda t: t.update({"reward_transform_matrix": torch.eye(18)}),
            "shapes .*\\(18, 18\\)",
        ),
        (
            lambda t: t.update({"regression_layer.weight": torch.zeros(18, 32)}),
            "num_objectives 19",
        ),
        (
            lambda t: t.update({"regression_layer.weight": torch.zeros(19, 31)}),
            "a head of 32 features in .*found 31",
        ),
        (
            lambda t: t.update({"model.norm.weight": torch.zeros(31)}),
            "a backbone of .* that transformers loads",
        ),
    ],
)
def test_missing_unexpected_unfit_or_unfinite_weights_are_errors(tmp_path, change, says):
    tiny.write_armorm(tmp_path)
    spoil(tmp_path, change)
    with pytest.raises(ModelError, match=says) as caught:
        load_model(str(tmp_path), device="cpu")
    assert str(tmp_path) in str(caught.value)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"num_objectives": 18}, "num_objectives 18"),
        ({"gating_n_hidden": 2}, "gating_n_hidden 2"),
        ({"gating_n_hidden": 10**9}, "gating_n_hidden 1000000000 in the weights"),
        ({"gating_n_hidden": 1.5}, "gating_n_hidden 1.5 in the weights"),
        ({"gating_n_hidden": float("inf")}, "gating_n_hidden Infinity in the weights"),
        ({"gating_hidden_dim": 1024}, "gating_hidden_dim 1024"),
        ({"gating_temperature": 0}, "positive number as gating_temperature .*and 0"),
        ({"gating_temperature": "ten"}, 'a positive number as gating_temperature .*"ten"'),
        ({"model_type": "unheard-of"}, "without remote code"),
        ({"pad_token_id": 4000}, "a backbone of"),
    ],
)
def test_a_configuration_that_contradicts_the_weights_is_an_error(tmp_path, change, says):
    tiny.write_armorm(tmp_path)
    tiny.edit(tmp_path / "config.json", **change)
    with pytest.raises(ModelError, match=says):
        load_model(str(tmp_path), device="cpu")


def test_missing_temperature_is_the_released_default(made, tmp_path):
    tiny.write_armorm(tmp_path)
    tiny.edit(tmp_path / "config.json", gating_temperature=None)
    assert load_model(str(tmp_path), device="cpu").gate.temperature == 10


@pytest.mark.parametrize("packing", ["trees", "padded"])
def test_extract_gives_a_run_with_gate_and_final(model, tmp_path, packing):
    builder = Builder("tiny")
    for i, (prompt, responses) in enumerate(tiny.CASES):
        pairs = [(0, 1, "test", "test")] if len(responses) > 1 else []
        builder.add(f"{i}", prompt, responses, pairs)
    run = extract(model, builder.build(), store=tmp_path, packing=packing)
    assert run["gate"].dims == ("item", "head")
    total = (run["score"] * run["gate"][run["item_of_response"]].values).sum("head")
    np.testing.assert_allclose(total, run["final"], atol=1e-3)


CARD_RESPONSE = (
    "Nicely, Beautifully, Handsome, Stunning, Wonderful, Gorgeous, Pretty, Stunning, Elegant"
)


def test_the_model_cards_example():
    """METHODS §7; the card's figures were made in bfloat16."""
    folder = os.environ.get("ARMORM_FOLDER")
    if not folder:
        pytest.skip("needs the released weights (16 GB): set ARMORM_FOLDER to their folder")
    model = load_model(folder, dtype="bfloat16")
    prompt = [{"role": "user", "content": 'What are some synonyms for the word "beautiful"?'}]
    item = model.format.encode(prompt, [CARD_RESPONSE])
    states = forward(model.backbone, [item], packing="padded")
    readout = model.read(states.hidden, states.gate_hidden)
    largest = np.argsort(-np.abs(readout.gate[0]))[:3]
    assert [model.heads[i].name for i in largest] == [
        "code-complexity",
        "helpsteer-verbosity",
        "ultrafeedback-instruction_following",
    ]
    np.testing.assert_allclose(readout.gate[0, largest], [0.19922, -0.10864, 0.07861], atol=0.01)
    np.testing.assert_allclose(
        5 * readout.score[0, :5] - 0.5, [2.781, 2.859, 3.484, 1.385, 1.297], atol=0.06
    )
