"""Ctrl-C is answered within two seconds, also while a compiler is at work."""

import os
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

GRACE = 1.5  # seconds in which Python itself may answer


@contextmanager
def answered(when_stopped: str) -> Iterator[None]:
    """Ends the process if Ctrl-C has not reached the work inside the block after a moment.

    Python hears of a signal between two of its own instructions, and compiling a program is one
    instruction that may take a minute. The system tells the socket below at once; a thread waits
    there. Every file is written whole or not at all, so ending at any moment is safe.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    told, tell = socket.socketpair()
    tell.setblocking(False)
    over = threading.Event()

    def wait() -> None:
        while heard := told.recv(16):
            if signal.SIGINT in heard and not over.wait(GRACE):
                print(f"\nstopped; {when_stopped}", file=sys.stderr, flush=True)
                os._exit(130)

    thread = threading.Thread(target=wait, daemon=True)
    before = signal.set_wakeup_fd(tell.fileno(), warn_on_full_buffer=False)
    thread.start()
    try:
        yield
    finally:
        over.set()
        signal.set_wakeup_fd(before)
        tell.close()
        thread.join()
        told.close()
