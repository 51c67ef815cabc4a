"""pages.c, compiled and loaded: which pages of an emulator's memory are code."""

from __future__ import annotations

import ctypes
from pathlib import Path

from mcutrain_host.toolchain import shared_library


class Pages:
    """Pages of one emulator."""

    def __init__(self, unicorn: ctypes.CDLL) -> None:
        self._library = ctypes.CDLL(str(shared_library(Path(__file__).with_name("pages.c"))))
        pointer = ctypes.c_void_p
        self._library.mct_pages_new.restype = pointer
        self._library.mct_pages_new.argtypes = [pointer] * 2
        self._library.mct_pages_free.argtypes = [pointer]
        self._api = (unicorn.uc_reg_read, unicorn.uc_reg_write)  # called as long as the pages are
        self._handle = self._library.mct_pages_new(*(ctypes.cast(f, pointer) for f in self._api))

    def __del__(self) -> None:
        if hasattr(self, "_handle"):  # the compiler may have failed
            self._library.mct_pages_free(self._handle)

    @property
    def callback(self) -> tuple[ctypes.c_void_p, ctypes.c_void_p]:
        """Function and user data for uc_hook_add."""
        function = ctypes.cast(self._library.mct_pages_access, ctypes.c_void_p)
        return function, ctypes.c_void_p(self._handle)
