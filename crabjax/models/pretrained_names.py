"""What Hugging Face's files call the parts of an encoder: settings, and parameters by place."""

_SHARED_KEYS = {
    "vocabulary": "vocab_size",
    "positions": "max_position_embeddings",
    "initial_scale": "initializer_range",
}
CONFIG_KEYS = {
    "distilbert": {
        **_SHARED_KEYS,
        "width": "dim",
        "inner": "hidden_dim",
        "heads": "n_heads",
        "layers": "n_layers",
        "dropout": "dropout",
        "attention_dropout": "attention_dropout",
        "head_dropout": "seq_classif_dropout",
    },
    "bert": {
        **_SHARED_KEYS,
        "width": "hidden_size",
        "inner": "intermediate_size",
        "heads": "num_attention_heads",
        "layers": "num_hidden_layers",
        "token_types": "type_vocab_size",
        "epsilon": "layer_norm_eps",
        "dropout": "hidden_dropout_prob",
        "attention_dropout": "attention_probs_dropout_prob",
    },
}
# The one value of each of these keys that the encoder implements (absent means that value).
FIXED_KEYS = {
    "distilbert": {"activation": "gelu", "pad_token_id": 0},
    "bert": {"hidden_act": "gelu", "pad_token_id": 0, "position_embedding_type": "absolute"},
}
_LAYER_LIST = {"distilbert": "transformer.layer", "bert": "encoder.layer"}
_EMBEDDINGS = {
    "words": "word_embeddings",
    "positions": "position_embeddings",
    "token_types": "token_type_embeddings",
    "norm": "LayerNorm",
}
_LAYER_MODULES = {
    "distilbert": {
        "attention.query": "attention.q_lin",
        "attention.key": "attention.k_lin",
        "attention.value": "attention.v_lin",
        "attention.output": "attention.out_lin",
        "attention_norm": "sa_layer_norm",
        "expand": "ffn.lin1",
        "contract": "ffn.lin2",
        "output_norm": "output_layer_norm",
    },
    "bert": {
        "attention.query": "attention.self.query",
        "attention.key": "attention.self.key",
        "attention.value": "attention.self.value",
        "attention.output": "attention.output.dense",
        "attention_norm": "attention.output.LayerNorm",
        "expand": "intermediate.dense",
        "contract": "output.dense",
        "output_norm": "output.LayerNorm",
    },
}
_HEAD_MODULES = {"dense": "pre_classifier", "output": "classifier"}
_LEAVES = {"kernel": "weight", "embedding": "weight", "scale": "weight", "bias": "bias"}
# Not part of the encoder, so expected to be left over: a constant buffer, BERT's pooler (the
# classification head here reads the first token itself), heads for masked words and next sentence.
_HARMLESS = {
    "distilbert": {"embeddings.position_ids", "vocab_transform", "vocab_layer_norm"}
    | {"vocab_projector"},
    "bert": {"embeddings.position_ids", "pooler", "cls"},
}


def plain_name(name: str, family: str) -> str:
    """A stored name without the family's prefix; old files call a norm's weights gamma, beta."""
    plain = name.removeprefix(f"{family}.")
    for old, new in ((".gamma", ".weight"), (".beta", ".bias")):
        if plain.endswith(old):
            plain = plain.removesuffix(old) + new
    return plain


def their_name(place: tuple[str, ...], family: str) -> str:
    """("encoder", "layers", "0", "expand", "bias") -> "transformer.layer.0.ffn.lin1.bias"."""
    *module, leaf = place
    if module[0] == "head":
        name = _HEAD_MODULES[module[1]]
    elif module[1] == "embeddings":
        name = f"embeddings.{_EMBEDDINGS[module[2]]}"
    else:
        name = _LAYER_MODULES[family][".".join(module[3:])]
        name = f"{_LAYER_LIST[family]}.{module[2]}.{name}"
    return f"{name}.{_LEAVES[leaf]}"


def is_harmless(name: str, family: str) -> bool:
    """Whether a stored parameter is no part of the encoder and may be left over."""
    return any(name == one or name.startswith(one + ".") for one in _HARMLESS[family])


def is_head(name: str) -> bool:
    """Whether a stored parameter belongs to a classification head."""
    return name.split(".")[0] in _HEAD_MODULES.values()
