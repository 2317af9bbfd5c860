"""Ctrl-C ends a command in one line, with status 130, within two seconds."""

import signal
import subprocess
import sys
import time

import pytest

BUSY = """
import sys, time
from crabjax.cli.common import run_command
def work():
    print("busy", flush=True)
    {work}
sys.exit(run_command(work, "nothing was lost"))
"""
WORK = {
    "python": "time.sleep(60)",
    # One long call into compiled code that lets other threads run, as compiling is.
    "compiled code": "import hashlib; hashlib.pbkdf2_hmac('sha256', b'x', b'y', 400_000_000)",
    "a library that gives its own error": """
    try: time.sleep(60)
    except KeyboardInterrupt: raise ImportError("numpy failed to import") from None""",
}


@pytest.mark.parametrize("work", WORK.values(), ids=list(WORK))
def test_one_line_and_no_traceback_within_two_seconds(work):
    process = subprocess.Popen(
        [sys.executable, "-c", BUSY.format(work=work)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "busy\n"
    time.sleep(0.2)
    began = time.monotonic()
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=30)
    assert time.monotonic() - began < 2.5  # the clock of a busy machine
    assert process.returncode == 130
    assert said == "\nstopped; nothing was lost\n"


def test_a_command_that_is_not_interrupted_ends_as_ever():
    ended = subprocess.run(
        [sys.executable, "-c", BUSY.format(work="pass")], capture_output=True, text=True
    )
    assert (ended.returncode, ended.stderr) == (0, "")
