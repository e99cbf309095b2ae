"""conv2d and SciPy's calls, remembered by their arguments: a call like one before is its launches alone."""

from __future__ import annotations

import pytest

from tests.runtime.arrays.fake_arrays import torch  # noqa: F401
from tests.runtime.call.quick import ORDINAL, SHAPE, Operands, checked, dense, load  # noqa: F401
from tests.runtime.devices.fake_cuda import PRIMARY, cuda  # noqa: F401
from warpconv.codegen.dtypes import Layout
from warpconv.codegen.errors import ArgumentError, ArgumentTypeError
from warpconv.runtime.call import conv, kernels


class TestConv2d:
    @pytest.fixture(autouse=True)
    def loads(self, cuda, monkeypatch):
        cuda.stack.append(PRIMARY + ORDINAL)
        monkeypatch.setattr(kernels, "_load_cuda", lambda text, ordinal: load(cuda, text.plan, ordinal))
        conv.clear()
        yield
        conv.clear()

    def call(self, operands, **more):
        return conv.conv2d(operands.x, operands.w, out=operands.y, **{"padding": 1, "algorithm": "direct", **more})

    def test_is_remembered_by_its_arguments(self, cuda, torch, checked, monkeypatch):
        long_way = []
        real = conv._conv2d
        monkeypatch.setattr(conv, "_conv2d", lambda *a: long_way.append(a) or real(*a))
        first, second = Operands(torch), Operands(torch, start=1 << 28)
        self.call(first)
        self.call(second)
        assert len(long_way) == len(checked) == 1 and cuda.arguments[1][:3] == second.pointers
        self.call(second, padding=(1, 1))
        self.call(second, activation="relu")
        assert len(long_way) == 3

    @pytest.mark.parametrize("options", [{"padding": True}, {"padding": (1, True)}, {"padding": 1.0},
                                         {"groups": True}, {"stride": True}])
    def test_equal_but_wrong_arguments_are_still_refused(self, torch, options):
        operands = Operands(torch)
        self.call(operands)
        self.call(operands, padding=(1, 1))
        with pytest.raises(ArgumentTypeError):
            self.call(operands, **options)

    def test_unhashable_arguments_work(self, cuda, torch):
        operands = Operands(torch)
        for _ in range(2):
            self.call(operands, padding=[1, 1], epilogue=["relu"])
        assert len(cuda.launched) == 2

    def test_the_order_in_memory_is_the_inputs(self, cuda, torch):
        operands = Operands(torch)
        n, c, h, w = SHAPE.input_shape
        operands.x._strides = (h * w * c, 1, w * c, c)
        n, k, p, q = SHAPE.output_shape
        operands.y._strides = (p * q * k, 1, q * k, k)
        for _ in range(2):
            self.call(operands)
        assert [kernel.spec.layout for kernel in kernels.by_plan.values()] == [Layout.NHWC]
        assert [arguments[:3] for arguments in cuda.arguments] == [operands.pointers] * 2


class TestSciPysCalls:
    @pytest.fixture(autouse=True)
    def loads(self, cuda, torch, monkeypatch):
        cuda.stack.append(PRIMARY + ORDINAL)
        monkeypatch.setattr(kernels, "_load_cuda", lambda text, ordinal: load(cuda, text.plan, ordinal))
        tensor = torch.Tensor

        def reshape(self, *shape):
            shape = shape[0] if isinstance(shape[0], tuple) else shape
            return tensor(shape, str(self.dtype).removeprefix("torch."), ("cuda", ORDINAL), dense(shape),
                          pointer=self._pointer)

        monkeypatch.setattr(tensor, "reshape", reshape, raising=False)
        def part(self, i):
            return tensor(self.shape[1:], "float32", ("cuda", ORDINAL), self._strides[1:],
                          pointer=self._pointer + 4 * i * self._strides[0])

        monkeypatch.setattr(tensor, "__getitem__", part, raising=False)
        monkeypatch.setattr(tensor, "is_cuda", True, raising=False)
        torch.dtype = type(torch.float32)
        made = iter(range(3 << 30, 1 << 40, 1 << 20))
        torch.empty = lambda shape, dtype, device: tensor(shape, str(dtype).removeprefix("torch."), ("cuda", ORDINAL),
                                                          dense(shape), pointer=next(made))
        conv.clear()
        yield
        conv.clear()

    @pytest.fixture
    def image(self, torch):
        return lambda at, shape=(2, 16, 20): torch.Tensor(shape, strides=dense(shape), pointer=at)

    @pytest.mark.parametrize("name, arguments, launches", [
        ("correlate", ([[[1, 2, 3], [4, 5, 6.5]]],), 1), ("gaussian_filter", ((0, 0.6, 0.6),), 1),
        ("gaussian_filter", (0.6,), 2), ("sobel", (), 2), ("uniform_filter", ((1, 3, 3),), 1), ("laplace", (), 2)])
    def test_a_call_like_one_before_is_its_launches(self, cuda, torch, image, checked, monkeypatch, name, arguments,
                                                    launches):
        import warpconv
        call = getattr(warpconv, name)
        call(image(1 << 24), *arguments, algorithm="direct")
        call(image(1 << 25), *arguments, algorithm="direct")        # the first by prepared filters
        before, done = len(cuda.calls), len(checked)
        del cuda.launched[:], cuda.arguments[:]
        monkeypatch.setattr(conv, "_conv2d", None)
        made = call(image(1 << 26), *arguments, algorithm="direct")
        assert len(cuda.launched) == launches and len(cuda.calls) == before and len(checked) == done
        assert cuda.arguments[0][0] == 1 << 26 and cuda.arguments[-1][2] == made.data_ptr()
        assert made.shape == (2, 16, 20) and made.stride() == dense((2, 16, 20))
        assert all(first[2] == second[0] for first, second in zip(cuda.arguments, cuda.arguments[1:])
                   if name != "laplace")

    def test_the_output_is_the_callers_and_overlaps_nothing(self, cuda, image):
        import warpconv
        def call(x, out):
            return warpconv.correlate(x, [[1, 2, 3.5]], out, axes=(1, 2), algorithm="direct")

        out = image(1 << 27)
        for at in (1 << 24, 1 << 25, 1 << 26):
            x = image(at)
            assert call(x, out) is out and cuda.arguments[-1][0] == at and cuda.arguments[-1][2] == 1 << 27
        assert len(cuda.launched) == 3
        near = image((1 << 27) + 8)     # one kernel alone would read what it has written
        assert call(near, out) is out and len(cuda.launched) == 5
        assert cuda.arguments[-1][2] == 1 << 27 and cuda.arguments[-2][2] not in (1 << 27, (1 << 27) + 8)

    def test_images_of_all_sizes_share_a_prepared_filter(self, cuda, image):
        import warpconv
        from warpconv.runtime.ndimage import recipes
        for rows in (16, 17, 18):
            warpconv.gaussian_filter(image(1 << 24, (rows, 20)), 0.6, algorithm="direct")
        filters = {id(step.weight) for recipe in recipes._recipes.values() for step in recipe._steps}
        assert len(recipes._recipes) == 3 and len(filters) == 1
        assert sum(name == "cuStreamSynchronize" for name, _ in cuda.calls) == 2    # the copy's, the preparation's

    def test_what_differs_is_checked(self, cuda, torch, image):
        import warpconv
        def call(x):
            return warpconv.gaussian_filter(x, 0.6, axes=(1, 2), algorithm="direct")

        for _ in range(2):
            call(image(1 << 24))
        for wrong, error in ((image((1 << 24) + 2), ArgumentError), (image(1 << 24), ArgumentTypeError)):
            wrong.requires_grad = error is ArgumentTypeError
            with pytest.raises(error) as caught:
                call(wrong)
            assert caught.value.argument == "input"
        assert len(cuda.launched) == 2
        cuda.capturing.add(501)         # a stream in capture: the call is made, nothing is prepared for later ones
        from warpconv.runtime.ndimage import recipes
        known = len(recipes._recipes)
        warpconv.sobel(image(1 << 24), algorithm="direct")
        assert len(recipes._recipes) == known and len(cuda.launched) == 4

    def test_weights_on_the_gpu_are_read_at_each_call(self, cuda, torch, image):
        import warpconv
        from warpconv.runtime.ndimage import recipes
        weights = image(1 << 20, (3, 3))
        for at in (1 << 24, 1 << 25):
            warpconv.correlate(image(at), weights, axes=(1, 2), algorithm="direct")
        assert [arguments[1] for arguments in cuda.arguments] == [1 << 20] * 2 and not recipes._recipes
