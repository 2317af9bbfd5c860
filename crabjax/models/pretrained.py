"""Hugging Face encoder files to parameters, by name: config.json, model.safetensors."""

import dataclasses
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import jax
import numpy as np
from flax import traverse_util

from crabjax.models.pretrained_names import (
    CONFIG_KEYS,
    FIXED_KEYS,
    is_harmless,
    is_head,
    plain_name,
    their_name,
)

WEIGHTS_FILE = "model.safetensors"


class PretrainedError(ValueError):
    """Encoder files that do not describe, or do not fit, the encoder built here."""


@dataclass(frozen=True)
class Architecture:
    """What ``config.json`` says of an encoder; sizes have no default, rates have the published."""

    family: str  # "distilbert" or "bert"
    vocabulary: int
    positions: int  # the longest document, in tokens
    width: int  # D
    inner: int  # width inside the feed-forward block
    heads: int
    layers: int
    token_types: int = 0  # 0: the family has none
    epsilon: float = 1e-12  # of layer normalisation
    dropout: float = 0.1
    attention_dropout: float = 0.1
    head_dropout: float = 0.2
    initial_scale: float = 0.02  # standard deviation of fresh weights


@dataclass(frozen=True)
class Pooling:
    """How token states become one document vector."""

    mean: bool  # over the real tokens; False: the first token
    normalise: bool  # to Euclidean length 1


def read_architecture(folder: Path) -> Architecture:
    """Reads ``config.json`` of a DistilBERT or a BERT-family encoder.

    Raises:
      PretrainedError: naming the key that is missing or asks for something not implemented.
    """
    path = folder / "config.json"
    settings = json.loads(path.read_text(encoding="utf-8"))
    family = settings.get("model_type")
    if family not in CONFIG_KEYS:
        known = " or ".join(CONFIG_KEYS)
        raise PretrainedError(f"{path}: model_type: expected {known}, found {family!r}")
    for key, value in FIXED_KEYS[family].items():
        if settings.get(key, value) != value:
            raise PretrainedError(f"{path}: {key}: expected {value!r}, found {settings[key]!r}")
    found = {ours: settings.get(theirs) for ours, theirs in CONFIG_KEYS[family].items()}
    for one in dataclasses.fields(Architecture):
        if one.default is dataclasses.MISSING and found.get(one.name, family) is None:
            raise PretrainedError(f"{path}: {CONFIG_KEYS[family][one.name]}: missing")
    given = {name: value for name, value in found.items() if value is not None}
    architecture = Architecture(family, **given)
    if architecture.width % architecture.heads:
        raise PretrainedError(
            f"{path}: expected a width divisible by the {architecture.heads} attention heads, "
            f"found {architecture.width}"
        )
    return architecture


def read_pooling(folder: Path, family: str) -> Pooling:
    """How an encoder was meant to give document vectors.

    ``1_Pooling/config.json`` of a sentence encoder decides between mean and first token. Without
    it a BERT-family encoder is taken for a sentence encoder with mean pooling, and DistilBERT
    gives its first token. Vectors of sentence encoders are normalised.
    """
    path = folder / "1_Pooling" / "config.json"
    if not path.is_file():
        return Pooling(mean=family == "bert", normalise=family == "bert")
    settings = json.loads(path.read_text(encoding="utf-8"))
    modes = {key for key, value in settings.items() if key.startswith("pooling_mode_") and value}
    known = {"pooling_mode_mean_tokens": True, "pooling_mode_cls_token": False}
    if len(modes) != 1 or not modes <= set(known):
        found = ", ".join(sorted(modes)) or "none"
        raise PretrainedError(f"{path}: expected one of {', '.join(known)}, found {found}")
    return Pooling(mean=known[modes.pop()], normalise=True)


def load_parameters(folder: Path, family: str, shapes: Mapping[str, Any]) -> dict[str, Any]:
    """Reads ``model.safetensors`` into nested dicts of float32 arrays.

    Args:
      folder: holds the file; names may or may not carry the family's prefix.
      family: "distilbert" or "bert".
      shapes: nested dicts with the expected arrays, or their shapes, as leaves: ``encoder`` and,
        for a classifier, ``head``.

    Returns:
      ``shapes`` with values; without ``head`` if the file has no classification head at all.

    Raises:
      PretrainedError: naming every parameter that is missing, left over or of the wrong shape.
    """
    from safetensors import safe_open

    path = folder / WEIGHTS_FILE
    if not path.is_file():
        raise PretrainedError(f"{path}: no such file; weights are read from safetensors only")
    with safe_open(path, framework="np") as file:
        stored = {plain_name(name, family): name for name in file.keys()}  # noqa: SIM118
        wanted = _wanted(shapes, family, stored)
        sizes = {name: tuple(file.get_slice(stored[name]).get_shape()) for name in stored}
        _check_names(path, family, wanted, sizes)
        flat = {
            place: _transposed(file.get_tensor(stored[name]), place)
            for name, (place, _) in wanted.items()
        }
    return stack_layers(traverse_util.unflatten_dict(flat), np.stack)


def stack_layers(params: Mapping[str, Any], stack: Callable[[list[Any]], Any]) -> dict[str, Any]:
    """Parameters whose layers have a tree each, "0", "1", ..., with one tree for all of them.

    Files of Hugging Face are like that, and what versions before 0.2 saved; others are left alone.

    Args:
      params: ``encoder`` and perhaps ``head``.
      stack: makes one array of those of all layers.
    """
    encoder: Any = params.get("encoder")
    layers = encoder.get("layers") if isinstance(encoder, Mapping) else None
    if not isinstance(layers, Mapping) or "0" not in layers:
        return dict(params)
    ordered = [layers[str(index)] for index in range(len(layers))]
    stacked = jax.tree.map(lambda *leaves: stack(list(leaves)), *ordered)
    return {**params, "encoder": {**encoder, "layers": stacked}}


def _wanted(
    shapes: Mapping[str, Any], family: str, stored: Iterable[str]
) -> dict[str, tuple[tuple[str, ...], tuple[int, ...]]]:
    """By their name: our place and the shape the file should have there."""
    wanted = {}
    has_head = any(is_head(name) for name in stored)
    zeros = jax.tree.map(lambda leaf: np.broadcast_to(np.float32(0), np.shape(leaf)), dict(shapes))
    for place, leaf in _by_layer(zeros):
        if place[0] == "head" and not has_head:
            continue
        shape = leaf.shape
        wanted[their_name(place, family)] = (place, shape[::-1] if _is_kernel(place) else shape)
    return wanted


def _by_layer(params: Mapping[str, Any]) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Places and arrays, those of layers one by one: ("encoder", "layers", "0", ...)."""
    for place, value in traverse_util.flatten_dict(dict(params)).items():
        if place[:2] != ("encoder", "layers"):
            yield place, value
            continue
        for index, own in enumerate(cast(Any, value)):
            yield (*place[:2], str(index), *place[2:]), own


def _check_names(path: Path, family: str, wanted: Mapping, sizes: Mapping) -> None:
    with_head = any(place[0] == "head" for place, _ in wanted.values())
    problems = [f"missing {name}" for name in wanted if name not in sizes]
    for name, size in sizes.items():
        if name in wanted:
            if size != wanted[name][1]:
                expected = list(wanted[name][1])
                problems.append(f"{name}: expected shape {expected}, found {list(size)}")
        elif not is_harmless(name, family) and (with_head or not is_head(name)):
            problems.append(f"left over {name}")
    if problems:
        raise PretrainedError(f"{path}: " + "; ".join(problems))


def _is_kernel(place: tuple[str, ...]) -> bool:
    """PyTorch stores a linear map as [out, in], Flax as [in, out]."""
    return place[-1] == "kernel"


def _transposed(value: np.ndarray, place: tuple[str, ...]) -> np.ndarray:
    return np.ascontiguousarray(value.T if _is_kernel(place) else value, dtype=np.float32)
