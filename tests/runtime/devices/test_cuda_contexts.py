"""Devices and contexts over a stand-in for the driver: why none can be used, and who is current when."""

from __future__ import annotations

import builtins
import ctypes
import sys
import threading
import types

import pytest

from tests.runtime.devices.fake_cuda import PRIMARY, FakeCuda, cuda, fake_driver  # noqa: F401
from warpconv.codegen.errors import ArgumentError, DeviceError
from warpconv.runtime.devices.cuda import contexts


class TestReasons:
    def test_usable(self, cuda):
        assert contexts.usable() is None
        assert (contexts.count(), contexts.arch(0), contexts.arch(1), contexts.name(1)) == (2, "sm_90", "sm_80", "A100")
        report = contexts.describe()
        assert report["usable"] and report["cuda_driver"] == "13.1" and report["devices"][1]["arch"] == "sm_80"

    def test_newer_than_the_table(self, cuda, monkeypatch):
        """No architecture that may be asked for by name, and planned for as the newest that is known."""
        module = fake_driver()
        module.device_attribute = types.SimpleNamespace(MULTIPROCESSOR_COUNT=0, L2_CACHE_SIZE=1)
        monkeypatch.setattr(module.Device, "compute_capability", lambda self: (14, 0))
        monkeypatch.setitem(sys.modules, "pycuda.driver", module)
        sys.modules["pycuda"].driver = module
        assert contexts.arch(0) == "sm_140" and str(contexts.hardware(0).arch) == "sm_140"
        assert contexts.hardware(0).multiprocessors == 132

    def test_no_library(self, monkeypatch):
        contexts.forget()
        monkeypatch.setattr(ctypes, "CDLL", lambda name: (_ for _ in ()).throw(OSError("libcuda.so.1: not there")))
        assert "no NVIDIA driver" in contexts.usable() and "device='cpu'" in contexts.usable()
        assert contexts.describe() == {"usable": False, "reason": contexts.usable(), "devices": []}
        with pytest.raises(DeviceError):
            contexts.default_device()
        contexts.forget()

    @pytest.mark.parametrize("error, words", [
        (ModuleNotFoundError("No module named 'pycuda'", name="pycuda"), 'pip install "warpconv[gpu]"'),
        (ModuleNotFoundError("No module named 'pytools'", name="pytools"), "pip install pytools"),
        (ImportError("libcuda.so.1: cannot open shared object file"), "no NVIDIA driver"),
        (ImportError("GLIBC_2.38 not found"), "GLIBC_2.38")])
    def test_no_pycuda(self, cuda, monkeypatch, error, words):
        genuine = builtins.__import__

        def refuse(name, *rest, **more):
            if name == "pycuda.driver":
                raise error
            return genuine(name, *rest, **more)

        monkeypatch.setattr(builtins, "__import__", refuse)
        assert words in contexts.usable()

    def test_no_gpu(self, cuda, monkeypatch):
        monkeypatch.setitem(sys.modules, "pycuda.driver", fake_driver(gpus=0))
        sys.modules["pycuda"].driver = sys.modules["pycuda.driver"]
        assert "no NVIDIA GPU" in contexts.usable()

    def test_does_not_start(self, cuda):
        sys.modules["pycuda"].driver = sys.modules["pycuda.driver"] = fake_driver(error="cuInit failed: unknown")
        assert "cuInit failed" in contexts.usable()

    @pytest.mark.parametrize("ordinal, error", [(2, DeviceError), (-1, DeviceError), ("0", ArgumentError)])
    def test_no_such_gpu(self, cuda, ordinal, error):
        with pytest.raises(error):
            contexts.arch(ordinal)


class TestActivate:
    def test_nothing_current(self, cuda):
        assert contexts.default_device() == 0
        for _ in range(2):
            with contexts.activate(1):
                assert cuda.stack == [PRIMARY + 1] and contexts.default_device() == 1
            assert cuda.stack == []
        assert cuda.retained == {1: 1}

    def test_pycuda_sees_what_it_pushed_itself(self, cuda):
        with contexts.activate(0):              # nothing was current: PyCUDA pushes
            assert contexts.pycuda_sees_current()
        cuda.stack.append(PRIMARY)              # made current by PyTorch, say
        with contexts.activate(0):
            assert not contexts.pycuda_sees_current()
        with contexts.activate(1):              # another context is current: PyCUDA's stack stays out of it
            assert not contexts.pycuda_sees_current()

    def test_the_current_context_is_used(self, cuda):
        cuda.device_of[55], cuda.number_of[55] = 0, 3
        cuda.stack.append(55)
        with contexts.activate(0):
            assert cuda.stack == [55]
        with contexts.activate(1):
            assert cuda.stack == [55, PRIMARY + 1]
        assert cuda.stack == [55] and cuda.retained == {1: 1}

    def test_the_context_of_the_memory_wins(self, cuda):
        cuda.device_of[55] = 0
        cuda.stack.append(55)
        cuda.memory = {4096: (PRIMARY, 64), 8192: (55, 64)}
        with contexts.activate(0, 4096):
            assert cuda.stack == [55, PRIMARY]
        with contexts.activate(0, 8192):
            assert cuda.stack == [55]
        with contexts.activate(0, 12345):       # memory of no context
            assert cuda.stack == [55]

    def test_popped_after_an_error(self, cuda):
        with pytest.raises(KeyError), contexts.activate(0), contexts.activate(1):
            raise KeyError
        assert cuda.stack == []

    def test_a_failing_push_pops_nothing(self, cuda):
        cuda.fail["cuCtxPushCurrent_v2"] = 709
        with pytest.raises(DeviceError, match="CUDA_ERROR_709 - in the driver's words"), contexts.activate(0):
            raise AssertionError("entered")
        assert not any(name == "cuCtxPopCurrent_v2" for name, _ in cuda.calls)

    def test_threads_have_their_own(self, cuda):
        seen = []

        def work(ordinal):
            with contexts.activate(ordinal):
                seen.append((ordinal, list(cuda.stack)))

        with contexts.activate(0):
            threads = [threading.Thread(target=work, args=(i % 2,)) for i in range(8)]
            [t.start() for t in threads]
            [t.join() for t in threads]
            assert cuda.stack == [PRIMARY]
        assert all(stack == [PRIMARY + ordinal] for ordinal, stack in seen) and len(seen) == 8
        assert cuda.retained == {0: 1, 1: 1}

    def test_key_tells_a_reused_handle(self, cuda):
        with pytest.raises(DeviceError):
            contexts.context_key()
        cuda.stack.append(PRIMARY)
        before = contexts.context_key()
        cuda.number_of[PRIMARY] = 9         # destroyed, and another one made at the same address
        assert contexts.context_key() != before

    def test_key_before_cuda_12(self, cuda, monkeypatch):
        monkeypatch.delattr(FakeCuda, "cuCtxGetId")
        with pytest.raises(DeviceError, match="no CUDA context|201"):
            contexts.context_key()
        cuda.stack.append(PRIMARY)
        assert contexts.context_key() == ("handle", PRIMARY)
