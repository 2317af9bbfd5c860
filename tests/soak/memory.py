"""Two hundred rounds: does memory grow?"""

import shutil
import time
from pathlib import Path

from outcome import Outcome

ROUNDS, SETTLED, ALLOWED = 200, 20, 1.05


def memory(folder: Path, deadline: float) -> list[Outcome]:
    """Resident memory at the end of a run against that after round 20."""
    import psutil

    from crabjax.config import from_dict
    from crabjax.experiments import loop

    outcome = Outcome(
        f"rounds of one run, {ROUNDS} in all", f"memory at most {ALLOWED} x round 20's"
    )
    process, resident, plain = psutil.Process(), [], loop.step

    class TimeIsOverError(Exception):
        pass

    def step(*arguments):
        if time.monotonic() > deadline:
            raise TimeIsOverError
        result = plain(*arguments)
        resident.append(process.memory_info().rss)
        return result

    tree = {
        "data": {
            "validation_size": 40,
            "max_tokens": 16,
            "synthetic": {"documents": 600, "test_documents": 50, "mean_ir": 5.0},
        },
        "model": {"embedding": 4, "kernels": 4, "widths": [2]},
        "devices": {"cache": False},
        "ensemble": {"members": 2, "epochs": 2, "batch_size": 20},
        "loop": {"rounds": ROUNDS, "initial_size": 20, "query_size": 2, "seeds": [0]},
    }
    loop.step = step
    try:
        loop.run(from_dict(tree), folder / "long")
    except TimeIsOverError:
        outcome.notes.append("the time was over before the last round")
    finally:
        loop.step = plain
        shutil.rmtree(folder / "long", ignore_errors=True)
    outcome.tried = len(resident)
    if len(resident) > SETTLED:
        growth = resident[-1] / resident[SETTLED]
        first, last = resident[SETTLED] / 1e6, resident[-1] / 1e6
        outcome.notes.append(
            f"{first:.0f} MB after round 20, {last:.0f} MB at the end: {growth:.3f} x"
        )
        if growth > ALLOWED:
            outcome.failures.append(f"memory grew {growth:.3f} x")
    return [outcome]
