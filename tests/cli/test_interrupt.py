"""Ctrl-C: one line, exit status 130, within two seconds, also where Python cannot hear it."""

import signal
import subprocess
import sys
import time

import pytest

# A step that Python does not leave for ten seconds, as a compiler would not: one call into C that
# holds no lock. `re` gives none back either, so sleep is done by the C library itself.
BUSY = "import ctypes; ctypes.CDLL(None).sleep(10)"
POLITE = "import time; time.sleep(10)"


@pytest.mark.parametrize("work", [BUSY, POLITE])
def test_it_is_answered_within_two_seconds(work):
    code = (
        "import sys\n"
        "from crabjax.cli.common import run_command\n"
        f"def work():\n    print('begun', flush=True)\n    {work}\n"
        "sys.exit(run_command(work, 'nothing was lost'))"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "begun\n"
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    start = time.monotonic()
    _, error = process.communicate(timeout=9)
    assert time.monotonic() - start < 4  # two, and room for a busy machine
    assert process.returncode == 130
    assert error.strip() == "stopped; nothing was lost"
