"""Modules and launches over a stand-in for the driver: look-ups, argument blocks, refusals."""

from __future__ import annotations

import ctypes
import struct
import threading

import pytest

from tests.runtime.devices.fake_cuda import PRIMARY, cuda  # noqa: F401
from warpconv.codegen.errors import ArgumentError, ArgumentTypeError, DeviceError
from warpconv.runtime.devices.cuda import modules


class TestModules:
    @pytest.fixture
    def module(self, cuda):
        cuda.stack.append(PRIMARY)
        return modules.CudaModule(b"\x7fELF\0cubin")

    def test_look_ups(self, cuda, module):
        assert module.attributes("conv") == (40, 8, 1024, 64, 1024)
        assert module.attributes("conv").local_bytes == 8
        assert module.constant("weights") == (77, 36)
        assert sum(name == "cuModuleGetFunction" for name, _ in cuda.calls) == 1
        for look_up in (module.function, module.constant):
            with pytest.raises(DeviceError, match="has no"):
                look_up("other")

    def test_wrong_architecture(self, cuda):
        cuda.stack.append(PRIMARY + 1)
        cuda.fail["cuModuleLoadData"] = 209
        with pytest.raises(DeviceError, match=r"A100 \(sm_80\): it is built for another architecture"):
            modules.CudaModule(b"")

    def test_launch(self, cuda, module):
        launch = module.launcher("conv", ("pointer", "int", "long long", "float", "int"), (32, 4), 256)
        assert launch((7, 8), (0xdeadbeef000, -3, 1 << 40, 0.5, 9), 77) is None
        function, extents, shared, stream, pointers = cuda.launched[0]
        assert (function, extents, shared, stream) == (901, (7, 8, 1, 32, 4, 1), 256, 77)
        formats = ("P", "i", "q", "f", "i")
        values = [struct.unpack(f, ctypes.string_at(p, struct.calcsize(f)))[0] for p, f in zip(pointers, formats)]
        assert values == [0xdeadbeef000, -3, 1 << 40, 0.5, 9]
        assert [p - pointers[0] for p in pointers] == [0, 8, 16, 24, 28]
        assert not any(name == "cuFuncSetAttribute" for name, _ in cuda.calls)

    @pytest.mark.parametrize("version, begins", [(13000, True), (12030, True), (12020, False)])
    def test_an_early_launch(self, cuda, module, version, begins):
        cuda.version = version
        early = module.launcher("conv", ("int", "pointer"), (32, 4), 256, early=True)
        early((7, 8), (5, 1 << 40), 77)
        module.launcher("conv", ("int",), (32,))((7,), (5,), 77)
        (function, extents, shared, stream, pointers), _ = cuda.launched
        assert (function, extents, shared, stream) == (901, (7, 8, 1, 32, 4, 1), 256, 77)
        assert struct.unpack("P", ctypes.string_at(pointers[1], 8)) == (1 << 40,)
        assert cuda.early == [begins, False]

    def test_an_early_launch_that_is_refused(self, cuda, module):
        cuda.fail["cuLaunchKernel"] = 400
        with pytest.raises(DeviceError, match="launching conv with grid"):
            module.launcher("conv", (), (32,), early=True)((1,), (), 0)

    def test_threads_do_not_share_arguments(self, cuda, module):
        launch = module.launcher("conv", ("int",), (32,), 0)
        launch((1, 1, 1), (5,), 0)
        other = threading.Thread(target=launch, args=((1, 1, 1), (6,), 0))
        other.start()
        other.join()
        assert cuda.launched[0][4] != cuda.launched[1][4]

    def test_no_arguments(self, cuda, module):
        module.launcher("conv", (), (32,), 0)((1,), (), 0)
        assert len(cuda.launched) == 1

    def test_much_shared_memory(self, cuda, module):
        module.launcher("conv", (), (32,), 48 * 1024)       # with the static kilobyte it is over
        assert ("cuFuncSetAttribute", (901, 8, 48 * 1024)) in cuda.calls
        cuda.fail["cuFuncSetAttribute"] = 1
        with pytest.raises(DeviceError, match="shared memory.*H200"):
            module.launcher("conv", (), (32,), 1 << 20)

    def test_errors(self, cuda, module):
        launch = module.launcher("conv", ("int",), (32,), 0)
        for arguments in ((), (1, 2), (1 << 31,)):
            with pytest.raises(ArgumentTypeError, match=r"conv takes \(int\)"):
                launch((1, 1, 1), arguments, 0)
        with pytest.raises(ArgumentError, match="kind of kernel argument"):
            module.launcher("conv", ("double",), (32,), 0)
        cuda.fail["cuLaunchKernel"] = 400
        with pytest.raises(DeviceError, match=r"launching conv with grid \(0, 1, 1\).*another context"):
            launch((0, 1, 1), (1,), 0)
