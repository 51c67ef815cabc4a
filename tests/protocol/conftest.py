"""The device under test, compiled once."""

import ctypes

import pytest

from tests.protocol.device import FakeDevice, compile_c


@pytest.fixture(scope="session")
def device_library(c_compilers, tmp_path_factory) -> ctypes.CDLL:
    path = tmp_path_factory.mktemp("protocol") / "device.so"
    compile_c(c_compilers[0], path, "-shared", "-fPIC")
    return ctypes.CDLL(str(path))


@pytest.fixture
def device(device_library) -> FakeDevice:
    return FakeDevice(device_library)
