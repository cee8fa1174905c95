"""Which token's state a sequence classifier of transformers passes to its head.

Decoders pass the last one through one linear layer, and are read. What pools otherwise is
refused by the name of its pooling: a head applied to another token's state gives numbers
that look like scores. ``tests/models/test_every_classifier.py`` holds this table against
every class that transformers has.
"""

from __future__ import annotations

from lib.errors import ModelError

# Classes with code of their own that passes the last token's state, as the shared one does.
LAST = (
    "biogpt bloom ctrl falcon gemma3 gpt2 gpt_bigcode gpt_neo gpt_neox mpt openai-gpt opt "
    "qwen3_5 zamba zamba2"
)
# How others pool, by the model types that do.
OTHERS = {
    "the first token's state, through a pooler": (
        "albert bert canine deberta deberta-v2 ernie fnet gte layoutlm luke markuplm "
        "megatron-bert mobilebert nomic_bert rembert roc_bert squeezebert tapas"
    ),
    "the first token's state, through further layers": (
        "big_bird camembert convbert data2vec-text distilbert electra esm esmc funnel ibert "
        "jina_embeddings_v3 layoutlmv3 lilt longformer mpnet mra nystromformer reformer roberta "
        "roberta-prelayernorm roformer xlm-roberta xlm-roberta-xl xmod yoso"
    ),
    "the first token's state or the mean of all (classifier_pooling)": (
        "eurobert modernbert modernvbert ultrabert ultravbert"
    ),
    "the first or the last token's state or the mean of all (pooling)": "cohere_compass_text",
    "a summary of the states (summary_type)": "flaubert xlm xlnet",
    "the decoder's state at the last end-of-sequence token, through further layers": (
        "bart bigbird_pegasus mbart mt5 mvp plbart t5 umt5"
    ),
    "the decoder's state at its last token, beside an encoder's": "t5gemma t5gemma2",
    "the last token's state, through further layers": "modernbert-decoder",
    "the first token's state joined to states of the image": "layoutlmv2",
    "what a query attends to of all states": "perceiver",
}
NAMES = {kind: name for name, kinds in OTHERS.items() for kind in kinds.split()}
UNKNOWN = "a state that nothing here knows"


def pooling(config) -> str:
    """How the sequence classifier of a configuration pools; empty for the last token's state.

    A decoder for which transformers has no such class is one whose last token is read.
    """
    from transformers.modeling_layers import GenericForSequenceClassification as Shared
    from transformers.models.auto import modeling_auto as auto

    kind = config.model_type
    if kind in NAMES:
        return NAMES[kind]
    if kind in LAST.split():
        return ""
    if type(config) not in auto.MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING:
        return "" if kind in auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES else UNKNOWN
    found = auto.MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING[type(config)]
    shared = issubclass(found, Shared) and found.forward is Shared.forward
    return "" if shared else UNKNOWN


def check(config, name: str) -> None:
    """Raise a ``ModelError`` for a classifier that doesn't pass the last token's state alone."""
    found = pooling(config)
    if found:
        raise ModelError(
            f"a head on the state at the last token in {name}",
            f"{config.model_type}, whose classifier passes {found}",
            "Audit a reward model on a decoder; this kind isn't read.",
        )
