"""The n-th file operation fails, for every n: of a run, a report and a labelling project."""

import errno
import os
import resource
import shutil
import signal
import sys
import time
from pathlib import Path

from outcome import Outcome
from work import call, timeless, write_config, write_data

ERRORS = (errno.ENOSPC, errno.EIO, errno.EACCES)
EVENTS = {"open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.chmod", "os.listdir"}
EVENTS |= {"os.scandir", "shutil.rmtree"}


class Faults:
    """Counts the file operations below a folder, and makes one of them fail."""

    def __init__(self, folder: Path):
        self.folder, self.count, self.fails_at, self.error = str(folder), 0, -1, 0
        sys.addaudithook(self._hook)

    def arm(self, at: int, error: int) -> None:
        """The operation number ``at`` fails from now on; -1 for none."""
        self.count, self.fails_at, self.error = 0, at, error

    def _hook(self, event: str, arguments: tuple) -> None:
        if event not in EVENTS or not arguments or not isinstance(arguments[0], str | bytes):
            return
        path = os.fsdecode(arguments[0])
        if not path.startswith(self.folder):
            return
        self.count += 1
        if self.count - 1 == self.fails_at:
            raise OSError(self.error, os.strerror(self.error), path)


def faults(folder: Path, deadline: float) -> list[Outcome]:
    """Tries every operation with every error, as long as there is time."""
    os.environ["CRABJAX_CACHE"] = str(folder / "cache")
    os.chdir(folder)
    _leave_pictures_blank()
    hooked = Faults(folder / "work")
    parts = (_project, _report, _short_writes, _run)
    outcomes = []
    for number, part in enumerate(parts):
        left = deadline - time.monotonic()
        outcomes.append(part(folder, hooked, time.monotonic() + left / (len(parts) - number)))
    return outcomes


def _leave_pictures_blank() -> None:
    """Half the time of a small run is its picture; how the file is written stays as it is."""
    from matplotlib.figure import Figure

    Figure.draw = lambda self, renderer: None


def _every(outcome: Outcome, hooked: Faults, until: float, once) -> None:
    """Calls ``once(n, error)`` for every n until nothing failed any more, or time is over."""
    for at in range(10_000):
        reached = False
        for error in ERRORS:
            if time.monotonic() > until:
                outcome.notes.append(f"the first {at} operations, then the time was over")
                return
            reached = once(at, error) or reached
        if not reached:
            outcome.notes.append(f"all {at} operations, {len(ERRORS)} errors each")
            return


def _say(outcome: Outcome, what: str, status: int, said: str) -> None:
    """One line beside warnings and what is going on (said when it takes long), no traceback."""
    lines = [line for line in said.strip().splitlines() if not line.startswith("warning: ")]
    lines = [line for line in lines if not line.endswith(" ...")]
    if "Traceback" in said or (status != 0 and len(lines) != 1):
        outcome.failures.append(f"{what}: status {status}: {said.strip()[-300:]}")


def _train(folder: Path, output: Path) -> tuple[str, ...]:
    config = str(write_config(folder))
    words = ("train", "--config", config, "--set", "devices.cache=false", *write_data(folder))
    return (*words, "--output", str(output))


def _run(folder: Path, hooked: Faults, until: float) -> Outcome:
    outcome = Outcome(
        "one file operation of a run of two rounds fails",
        "one line; the next start goes on to the same records",
    )
    work = folder / "work" / "run"
    words = (*_train(folder, work), "--set", "loop.rounds=2")
    _say(outcome, "whole", *call(*words))
    whole = timeless(work)

    def once(at: int, error: int) -> bool:
        shutil.rmtree(work, ignore_errors=True)
        hooked.arm(at, error)
        status, said = call(*words)
        reached = hooked.count > at
        hooked.arm(-1, 0)
        outcome.tried += reached
        what = f"operation {at}, {errno.errorcode[error]}"
        _say(outcome, what, status, said)
        again = call(*words)
        if again[0] != 0 or timeless(work) != whole:
            outcome.failures.append(f"{what}: does not go on: {again[1][-300:]}")
        return reached

    _every(outcome, hooked, until, once)
    return outcome


def _report(folder: Path, hooked: Faults, until: float) -> Outcome:
    outcome = Outcome("one file operation of a report fails", "one line; the next one is whole")
    fixture = Path(__file__).parents[1] / "fixtures" / "before_reliability" / "run"
    runs, page = folder / "work" / "runs", folder / "work" / "page"
    shutil.copytree(fixture, runs)
    words = ("report", str(runs), "--output", str(page))

    def once(at: int, error: int) -> bool:
        shutil.rmtree(page, ignore_errors=True)
        hooked.arm(at, error)
        status, said = call(*words)
        reached = hooked.count > at
        hooked.arm(-1, 0)
        outcome.tried += reached
        what = f"operation {at}, {errno.errorcode[error]}"
        _say(outcome, what, status, said)
        if (page / "report.html").exists() and not (page / "report.html").read_text().strip():
            outcome.failures.append(f"{what}: half a page")
        if call(*words)[0] != 0:
            outcome.failures.append(f"{what}: no report afterwards")
        return reached

    _every(outcome, hooked, until, once)
    return outcome


def _project(folder: Path, hooked: Faults, until: float) -> Outcome:
    outcome = Outcome(
        "one file operation of init and add fails",
        "one line; what was confirmed is there, nothing by half",
    )
    texts = folder / "pool.csv"
    texts.write_text("id,text\n" + "".join(f"d{n},words of text {n}\n" for n in range(20)))
    answers = folder / "answers.csv"
    answers.write_text("id,labels\n" + "".join(f"d{n},a\n" for n in range(5)))
    work = folder / "work" / "project"
    init = ("init", "--project", str(work), "--texts", str(texts), "--labels", "a,b")
    add = ("add", str(answers), "--project", str(work))

    def once(at: int, error: int) -> bool:
        shutil.rmtree(work, ignore_errors=True)
        hooked.arm(at, error)
        confirmed = []
        for words in (init, add):
            status, said = call(*words)
            _say(outcome, f"operation {at}, {errno.errorcode[error]}: {words[0]}", status, said)
            confirmed.append(status == 0)
        reached = hooked.count > at
        hooked.arm(-1, 0)
        outcome.tried += reached
        _check_answers(outcome, work, confirmed, init, add, f"operation {at}, error {error}")
        return reached

    _every(outcome, hooked, until, once)
    return outcome


def _check_answers(outcome, work: Path, confirmed: list[bool], init, add, what: str) -> None:
    from crabjax.labelling import Project

    if not confirmed[0]:  # begun again, as a person would
        status, said = call(*init)
        if status != 0 and "there is a project already" not in said:
            outcome.failures.append(f"{what}: cannot be begun again: {said[-300:]}")
            return
    found = len(Project.open(work).answers())
    if found not in (0, 5) or (confirmed[1] and found != 5):
        outcome.failures.append(f"{what}: {found} of 5 answers, confirmed {confirmed}")
    if call(*add)[0] != 0 or len(Project.open(work).answers()) != 5:
        outcome.failures.append(f"{what}: add fails afterwards")


def _short_writes(folder: Path, hooked: Faults, until: float) -> Outcome:
    """No file may grow beyond a size: the system itself cuts writes short, in C++ code too."""
    outcome = Outcome(
        "files of a run cut off by the system at a size",
        "one line; the next start goes on to the same records",
    )
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    work = folder / "work" / "cut"
    words = _train(folder, work)
    call(*words)
    whole = timeless(work)
    largest = max(path.stat().st_size for path in work.rglob("*") if path.is_file())
    size, before = 16, resource.getrlimit(resource.RLIMIT_FSIZE)
    while size < 2 * largest and time.monotonic() < until:
        shutil.rmtree(work, ignore_errors=True)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
        status, said = call(*words)
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        outcome.tried += 1
        _say(outcome, f"{size} bytes", status, said)
        if call(*words)[0] != 0 or timeless(work) != whole:
            outcome.failures.append(f"{size} bytes: does not go on")
        size = size * 5 // 4 + 1
    outcome.notes.append(f"sizes 16 to {size:,} bytes; the largest file has {largest:,}")
    return outcome
