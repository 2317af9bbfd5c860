"""Load, faults and bad input for as long as one likes: python tests/soak/soak.py --minutes 30

Kills go on beside all other parts, for two cores. Every part runs in a process of its own, gets its
share of the time that is left and reports what it tried; what a part does not need goes to those
after it. The exit status is 1 if anything failed.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from outcome import HEAD, Outcome

ROOT = Path(__file__).resolve().parents[2]
LANES = ({"kill": 1.0}, {"damage": 0.1, "memory": 0.1, "fuzz": 0.25, "faults": 0.55})
PARTS = [part for lane in LANES for part in lane]
BEGIN, END = "<!-- soak begin -->", "<!-- soak end -->"


def main() -> int:
    """Runs the parts one after another."""
    arguments = _parser().parse_args()
    if arguments.part:
        return _one_part(arguments)
    began, chosen = time.monotonic(), arguments.only or PARTS
    lanes = [{part: lane[part] for part in lane if part in chosen} for lane in LANES]
    end = began + 60 * arguments.minutes
    with ThreadPoolExecutor(len(lanes)) as side_by_side:
        found = side_by_side.map(lambda lane: _one_after_another(lane, end, arguments.seed), lanes)
        outcomes = [outcome for lane in found for outcome in lane]
    table = "\n".join([HEAD, *(one.row() for one in outcomes)])
    took = (time.monotonic() - began) / 60
    print(table)
    for outcome in outcomes:
        for failure in outcome.failures:
            print(f"FAILED: {outcome.what}: {failure}", file=sys.stderr)
    if arguments.write:
        busy = sum(os.times()[2:4]) / 60
        said = (
            f"`make soak MINUTES={arguments.minutes:g}`, seed {arguments.seed}: {took:.0f} minutes "
            f"on {os.cpu_count()} cores, {busy:.0f} of processor time; load of "
            f"the machine at the end {os.getloadavg()[2]:.1f}."
        )
        _write(arguments.write, f"\n{said}\n\n{table}\n")
    return int(any(outcome.failures for outcome in outcomes))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0, help="default: %(default)s")
    parser.add_argument("--only", nargs="+", choices=PARTS, help="these parts")
    parser.add_argument("--seed", type=int, default=0, help="of what is drawn (default: 0)")
    parser.add_argument("--write", type=Path, help="put the table into this Markdown file")
    parser.add_argument("--part", choices=PARTS, help=argparse.SUPPRESS)
    parser.add_argument("--report", type=Path, help=argparse.SUPPRESS)
    return parser


def _one_after_another(lane: dict[str, float], end: float, seed: int) -> list[Outcome]:
    """Runs parts; of the time that is left each gets its share against those still to come."""
    outcomes, parts = [], list(lane)
    for number, part in enumerate(parts):
        left = (end - time.monotonic()) / 60
        minutes = left * lane[part] / sum(lane[later] for later in parts[number:])
        print(f"{part}: {minutes:.1f} minutes", flush=True)
        outcomes += _in_own_process(part, minutes, seed)
    return outcomes


def _in_own_process(part: str, minutes: float, seed: int) -> list[Outcome]:
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        command = [sys.executable, __file__, "--part", part, "--minutes", str(minutes)]
        command += ["--seed", str(seed), "--report", str(report)]
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu"}
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        if not report.is_file():
            failed = Outcome(part, "ends")
            failed.failures.append(f"status {done.returncode}: {done.stderr[-2000:]}")
            return [failed]
        return [Outcome(**one) for one in json.loads(report.read_text())]


def _one_part(arguments: argparse.Namespace) -> int:
    import importlib

    work = getattr(importlib.import_module(arguments.part), arguments.part)
    deadline = time.monotonic() + 60 * arguments.minutes
    chance = [random.Random(arguments.seed)] if arguments.part in ("kill", "damage") else []
    with tempfile.TemporaryDirectory() as folder:
        outcomes = work(Path(folder).resolve(), deadline, *chance)
    arguments.report.write_text(json.dumps([asdict(one) for one in outcomes]))
    return 0


def _write(path: Path, said: str) -> None:
    text = path.read_text(encoding="utf-8")
    start, end = text.index(BEGIN) + len(BEGIN), text.index(END)
    path.write_text(text[:start] + said + text[end:], encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
