"""One byte changed in a file of ours: noticed and named, or without any effect."""

import random
import shutil
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from outcome import Outcome

FLIPS = 2000
FIXTURES = Path(__file__).parents[1] / "fixtures" / "before_reliability"


def damage(folder: Path, deadline: float, chance: random.Random) -> list[Outcome]:
    """Changes a byte of a checkpoint, a cache, a project and a learner, over and over."""
    makers = (_checkpoint, _cache, _project, _learner)
    outcomes = []
    for number, make in enumerate(makers):
        until = time.monotonic() + (deadline - time.monotonic()) / (len(makers) - number)
        name, place, read = make(folder)
        outcomes.append(_flip(name, place, read, until, chance, FLIPS // len(makers)))
    return outcomes


def _flip(
    name: str, place: Path, read: Callable[[Path], Any], until: float, chance, flips: int
) -> Outcome:
    outcome = Outcome(f"a byte changed in {name}", "noticed and named, or without effect")
    whole, work = read(place), place.parent / f"{place.name}_work"
    files = sorted(path.relative_to(place) for path in place.rglob("*") if path.is_file())
    files = [path for path in files if (place / path).stat().st_size]
    noticed = 0
    while outcome.tried < flips and time.monotonic() < until:
        shutil.rmtree(work, ignore_errors=True)
        shutil.copytree(place, work)
        path = work / chance.choice(files)
        content = bytearray(path.read_bytes())
        at = chance.randrange(len(content))
        content[at] ^= 1 << chance.randrange(8)
        path.write_bytes(content)
        outcome.tried += 1
        what = f"{path.relative_to(work)}, byte {at}"
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            try:
                found = read(work)
            except (ValueError, RuntimeError, OSError) as error:
                noticed += 1
                if work.name not in str(error):
                    outcome.failures.append(f"{what}: not named: {error}")
                continue
            except Exception as error:
                outcome.failures.append(f"{what}: {type(error).__name__}: {error}")
                continue
        noticed += bool(said) and found != whole
        if found != whole and not any(work.name in str(one.message) for one in said):
            outcome.failures.append(f"{what}: used in silence")
    outcome.notes.append(f"{noticed:,} noticed, {outcome.tried - noticed:,} without effect")
    return outcome


def _checkpoint(folder: Path):
    import logging

    import numpy as np

    from crabjax.experiments.checkpoint import Checkpoints, Saved

    logging.getLogger("crabjax.experiments.checkpoint").setLevel(logging.ERROR)
    like = {"labelled": np.zeros((2, 40), bool)}
    arrays = {"labelled": np.arange(80).reshape(2, 40) % 3 == 0}
    records = [{"seed": 0, "micro_f1": 0.125, "selected": [1, 2, 3]}]
    with Checkpoints(folder / "checkpoints") as checkpoints:
        checkpoints.save(Saved(3, arrays, records))

    def read(place: Path):
        with Checkpoints(place) as checkpoints:
            saved = checkpoints.restore(like)
        return saved and (saved.round, saved.arrays["labelled"].tolist(), saved.records)

    return "a checkpoint", folder / "checkpoints", read


def _cache(folder: Path):
    import numpy as np

    from crabjax.files.store import Plan, kept, usable

    array, plan = np.arange(60, dtype=np.int32).reshape(6, 10), Plan("texts", (6, 10), "int32")
    path = folder / "kept" / "tokens"
    path.parent.mkdir()
    kept(path, plan, lambda start: iter([(slice(start, 6), array[start:])]), "")

    def read(place: Path):
        if usable(place / "tokens", plan) is None:
            return None
        return kept(place / "tokens", plan, lambda start: iter(()), "").tolist()

    return "a cache of arrays", folder / "kept", read


def _project(folder: Path):
    from crabjax.config import from_overrides, to_dict
    from crabjax.labelling import Project
    from crabjax.labelling.answers import Answer

    (folder / "texts.csv").write_text("id,text\nd0,some words\nd1,other words\nd2,more\n")
    project = Project.create(
        folder / "flipped", folder / "texts.csv", ["a", "b"], from_overrides([])
    )
    project.add([Answer("x", "d0", ["a"]), Answer("x", "d1", "skipped")])
    (folder / "flipped" / ".lock").unlink(missing_ok=True)
    (folder / "flipped" / "label_studio.xml").unlink()  # for people; nothing here reads it

    def read(place: Path):
        found = Project.open(place)
        said = {text: one.labels for text, one in found.answers().items()}
        return found.ids, found.texts, found.label_names, to_dict(found.config), said

    return "a project", folder / "flipped", read


def _learner(folder: Path):
    from crabjax.labelling.learner import Learner

    learner = Learner.load(FIXTURES / "learner")
    learner.save(folder / "learner")

    def read(place: Path):
        import jax

        found = Learner.load(place)
        leaves = [leaf.tolist() for leaf in jax.tree.leaves(found._params)]
        return found.fingerprint(), leaves

    return "a saved learner (JSON, safetensors)", folder / "learner", read
