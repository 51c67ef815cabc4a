"""The command line: flags in, pipeline out. Every command is a file of this package.

What a user can cause ends with one sentence on stderr and exit code 2; Ctrl-C with 130. Importing
the commands takes a while, in which Ctrl-C is pressed, too: this module imports next to nothing.
"""

from __future__ import annotations

import gc
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from mcutrain.blas import one_thread

if TYPE_CHECKING:
    from types import FrameType

INTERRUPTED = 130
"""The exit code after Ctrl-C: 128 and the number of SIGINT."""
YOUNG_OBJECTS = 10_000
"""New objects after which Python looks for garbage. Imports make 100,000, of which none is: with
Python's own 700 looking takes a twelfth of the time in which `mcutrain plan` ends.
"""


def main() -> None:
    """The entry point: errors of the user's as one sentence."""
    gc.set_threshold(YOUNG_OBJECTS, *gc.get_threshold()[1:])
    with leaving_at_once():
        os.environ.update(one_thread())  # before numpy is imported
        from mcutrain.cli import commands

        commands.command()
    commands.run()


@contextmanager
def leaving_at_once() -> Iterator[None]:
    """Ctrl-C ends the process: an import may swallow KeyboardInterrupt, and nothing is open yet."""
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, _leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _leave(number: int, frame: FrameType | None) -> None:
    os.write(2, b"mcutrain: interrupted\n")
    os._exit(INTERRUPTED)
