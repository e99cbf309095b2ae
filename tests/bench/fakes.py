"""A device and a kernel that compute on the host and need no compiler, for the tests of the studies."""

import numpy as np

from bench import harness
from bench.devices import HostDevice
from bench.report import environment, files as report


class FakeKernel:
    """Computes in float64 on the host, as a kernel that is right would."""

    program = report = None

    def __init__(self, shape, wrong=0.0):
        self.shape, self.wrong = shape, wrong

    def prepare(self, weight):
        return weight.copy()

    def only(self, step):
        return self

    def __call__(self, x, w, out=None):
        found = harness.reference(HostDevice(), x, w, self.shape, images=range(self.shape.n)).exact + self.wrong
        if out is None:
            return found.astype(np.float32)
        out[...] = found
        return out


class FakeDevice(HostDevice):
    name, wrong = "a fake", 0.0

    def specialize(self, shape, plan):
        return FakeKernel(shape, self.wrong)


def open_report(tmp_path, **options):
    made = report.Report.open("demo", tmp_path, **options)
    made.runs.append(environment.record(FakeDevice(), ["demo"]))
    return made
