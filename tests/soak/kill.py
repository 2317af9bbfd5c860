"""SIGKILL at random moments, and while a checkpoint is written; alone and as two processes."""

import random
import shutil
import socket
import time
from pathlib import Path

from outcome import Outcome
from work import Command, timeless, write_config

KILLS = 50
_PAIR_SHARE = 0.3  # of the time, for two processes
_LONGEST = 900.0  # seconds that a start may take on a busy machine


def kill(folder: Path, deadline: float, chance: random.Random) -> list[Outcome]:
    """Kills runs until there were 50 kills or time is over; each goes on to the same records."""
    write_config(folder)
    words = ("train", "--config", "small.yaml", "--output")
    alone = Outcome("SIGKILL of a run", "the same command goes on; records bit for bit the same")
    _finish(Command(folder, *words, "whole"))
    whole, began = timeless(folder / "whole"), time.monotonic()
    # The second finds compiled programs, as all after it do; it also shows that runs are alike.
    _goes_on(alone, _finish(Command(folder, *words, "again")), folder / "again", whole)
    length = time.monotonic() - began
    saves = 0
    number = 0
    until = deadline - _PAIR_SHARE * max(0.0, deadline - time.monotonic())
    while alone.tried < KILLS and time.monotonic() < until:
        output = f"killed{number}"
        for _ in range(chance.randint(1, 4)):
            process = Command(folder, *words, output)
            in_save = chance.random() < 0.5
            if _kill_at(process, folder / output, in_save, chance.uniform(0, length)):
                alone.tried += 1
                saves += _half_written(folder / output)
        _goes_on(alone, _finish(Command(folder, *words, output)), folder / output, whole)
        shutil.rmtree(folder / output, ignore_errors=True)
        number += 1
    alone.notes.append(f"{saves} of them left half a checkpoint")
    return [alone, _two_processes(folder, deadline, length, chance)]


def _two_processes(folder: Path, deadline: float, length: float, chance) -> Outcome:
    pair = Outcome("SIGKILL of one of two processes", "both go on; records bit for bit the same")
    if time.monotonic() > deadline:
        return pair
    said = [_finish(one) for one in _start_pair(folder, "whole_pair")]
    if any(said):
        pair.failures.append(f"whole_pair: {'; '.join(filter(None, said))}")
        return pair
    whole, number = timeless(folder / "whole_pair"), 0
    while pair.tried < KILLS // 5 and time.monotonic() < deadline:
        output = f"pair{number}"
        processes = _start_pair(folder, output)
        time.sleep(chance.uniform(0.3, 2.0) * length)
        victim = chance.randrange(2)
        processes[victim].kill()
        time.sleep(1.0)
        processes[1 - victim].kill()  # what a person would do with the one that waits
        pair.tried += 1
        said = [_finish(one) for one in _start_pair(folder, output)]
        _goes_on(pair, "; ".join(filter(None, said)), folder / output, whole)
        shutil.rmtree(folder / output, ignore_errors=True)
        number += 1
    return pair


def _start_pair(folder: Path, output: str) -> list[Command]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    shared = ("--set", f"devices.coordinator=127.0.0.1:{port}", "--set", "devices.processes=2")
    words = ("train", "--config", "small.yaml", "--output", output, *shared)
    return [Command(folder, *words, "--set", f"devices.process={one}") for one in range(2)]


def _kill_at(process: Command, output: Path, in_save: bool, wait: float) -> bool:
    """Kills a run after a while, or as soon as a checkpoint is half written; false if it ended."""
    end = time.monotonic() + (_LONGEST if in_save else wait)
    while time.monotonic() < end and not process.ended():
        if in_save and _half_written(output):
            break
        time.sleep(0.002)  # a checkpoint takes fifty times as long
    if process.ended():
        process.wait()
        return False
    process.kill()
    return True


def _half_written(output: Path) -> bool:
    return any((output / "checkpoints").glob("*.orbax-checkpoint-tmp*"))


def _finish(process: Command) -> str:
    """Waits for a command; what it said if it failed, else nothing."""
    try:
        status, said = process.wait(_LONGEST)
    except TimeoutError as error:
        return str(error)
    return "" if status == 0 else f"status {status}: {said[-300:]}"


def _goes_on(outcome: Outcome, failed: str, folder: Path, whole: list[dict]) -> None:
    if failed:
        outcome.failures.append(f"{folder.name}: {failed}")
    elif timeless(folder) != whole:
        outcome.failures.append(f"{folder.name}: other records than a run never killed")
