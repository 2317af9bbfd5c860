"""A learner on disk: JSON for texts and answers, safetensors for parameters."""

import functools
import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax.traverse_util import flatten_dict, unflatten_dict

from crabjax.data.lsa import LatentWords
from crabjax.files import PRIVATE, atomic_write, write_text
from crabjax.files.seals import BrokenSealError, open_sealed, seal
from crabjax.models import Params
from crabjax.models.pretrained import stack_layers

STATE = "learner.json"
_PARAMS = "params-{}.safetensors"  # by their hash
_EARLIER_PARAMS = "params.safetensors"  # until 0.2
VERSION = metadata.version("crabjax")
_FORMAT = 1
_WORDS = ":lsa/"  # begins the names of their arrays; no parameter is called so


class SavedLearnerError(ValueError):
    """A folder that holds no learner, or a damaged one."""


class SavedLearner(NamedTuple):
    """A learner as it is written.

    Attributes:
      state: JSON-able.
      params: of a trained ensemble, if there is one.
      version: what trained it.
      words: what its inputs were made with, if they have words: another machine or version may
        come to other directions for the same texts, which these parameters could not read.
    """

    state: dict[str, Any]
    params: Params | None
    version: str = VERSION
    words: LatentWords | None = None


def write_saved(folder: Path, saved: SavedLearner) -> None:
    """Writes a learner: its parameters, then the state, which names them by their hash.

    Whatever fails in between, as on a full disk, the save that was there before still opens: its
    parameters go last.
    """
    from safetensors.numpy import save

    folder.mkdir(PRIVATE, parents=True, exist_ok=True)
    digest = own = None
    if saved.params is not None:
        arrays: Any = flatten_dict(jax.tree.map(np.asarray, saved.params), sep="/")
        if saved.words is not None:
            arrays |= {_WORDS + name: own for name, own in saved.words._asdict().items()}
        content = save(arrays)
        digest = hashlib.sha256(content).hexdigest()
        own = folder / _PARAMS.format(digest[:16])
        with atomic_write(own) as file:
            file.write(content)
    about = {"format": _FORMAT, "version": saved.version, "params": digest}
    write_text(folder / STATE, json.dumps(seal(about | saved.state)))
    for path in [folder / _EARLIER_PARAMS, *folder.glob(_PARAMS.format("[0-9a-f]" * 16))]:
        if path != own:
            with suppress(OSError):  # nothing reads it any more
                path.unlink()


def read_saved(folder: Path) -> SavedLearner:
    """Reads what :func:`write_saved` wrote.

    Raises:
      SavedLearnerError: naming the file that is missing or does not fit.
    """
    from safetensors.numpy import load

    path = folder / STATE
    try:
        state = open_sealed(json.loads(path.read_text(encoding="utf-8")))
    except BrokenSealError as error:
        raise SavedLearnerError(f"{path}: damaged: {error}") from error
    except (OSError, ValueError) as error:
        raise SavedLearnerError(f"{path}: no saved learner here ({error})") from error
    if not isinstance(state, dict) or state.pop("format", None) != _FORMAT:
        raise SavedLearnerError(f"{path}: expected a learner of format {_FORMAT}")
    if not {"params", "version"} <= state.keys():
        raise SavedLearnerError(f'{path}: damaged: "params" or "version" is missing')
    digest, version = state.pop("params"), state.pop("version")
    if digest is None:
        return SavedLearner(state, None, version)
    own = folder / _PARAMS.format(str(digest)[:16])
    if not own.exists() and (folder / _EARLIER_PARAMS).exists():
        own = folder / _EARLIER_PARAMS
    try:
        content = own.read_bytes()
    except OSError as error:
        raise SavedLearnerError(f"{own}: cannot be read ({error})") from error
    if hashlib.sha256(content).hexdigest() != digest:
        raise SavedLearnerError(f"{own}: not the parameters saved with {path.name}")
    arrays = load(content)
    of_words = {name: arrays.pop(name) for name in list(arrays) if name.startswith(_WORDS)}
    if of_words and of_words.keys() != {_WORDS + name for name in LatentWords._fields}:
        raise SavedLearnerError(f"{own}: damaged: found {', '.join(of_words)} alone")
    words = LatentWords(*(of_words[_WORDS + n] for n in LatentWords._fields)) if of_words else None
    params = unflatten_dict(arrays, sep="/")
    # Until 0.2 every layer of a transformer had arrays of its own.
    params = stack_layers(params, functools.partial(np.stack, axis=1))  # [M, layers, ...]
    return SavedLearner(state, jax.tree.map(jnp.asarray, params), version, words)


@contextmanager
def damage_named(folder: str | Path) -> Iterator[None]:
    """What is wrong with a stored state, as one kind of error."""
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        reason = f"{error} is missing" if isinstance(error, KeyError) else error
        raise SavedLearnerError(f"{folder}: damaged, or of another version: {reason}") from error
