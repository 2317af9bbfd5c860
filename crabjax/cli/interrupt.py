"""Ctrl-C that is heard within two seconds, whatever the main thread is doing."""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

STATUS = 130  # what shells expect of a command that Ctrl-C ended
_PATIENCE = 1.5  # seconds for an orderly end


@contextmanager
def interruptible(say: Callable[[], None]) -> Iterator[threading.Event]:
    """Ends the process where Python itself cannot yet: while XLA compiles, say.

    Python raises KeyboardInterrupt between two of its own instructions only. A thread that the
    system wakes at once waits a moment for that, and then leaves: what is on the disk is whole at
    any moment.

    Args:
      say: called before the process ends in this way.

    Yields:
      An event that is set once Ctrl-C was pressed.
    """
    heard = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield heard
        return
    over = threading.Event()
    reader, writer = os.pipe()
    os.set_blocking(writer, False)

    def watch() -> None:
        while signals := os.read(reader, 64):
            if signal.SIGINT in signals and not over.wait(_PATIENCE):
                say()
                os._exit(STATUS)
        os.close(reader)

    def interrupt(*_) -> None:
        heard.set()
        raise KeyboardInterrupt

    handler = signal.signal(signal.SIGINT, interrupt)
    before = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    threading.Thread(target=watch, daemon=True).start()
    try:
        yield heard
    finally:
        over.set()
        signal.signal(signal.SIGINT, handler)
        signal.set_wakeup_fd(before)
        os.close(writer)
