"""``bench.not_finite``: the data that it times."""

from __future__ import annotations

import torch

from bench import not_finite


def test_what_each_kind_of_data_has():
    torch.manual_seed(1)
    x = torch.ones(4, 8, 16, 16)
    kinds = dict(not_finite.kinds(torch, x))
    broken = {name: int((~data.isfinite()).sum()) for name, data in kinds.items()}
    every_thousandth = broken.pop("one element in 1000 NaN")
    assert broken == {"finite": 0, "an image of NaN": 8 * 256, "a NaN in each image": 4, "one infinity": 1,
                      "an image of infinities": 8 * 256}
    assert 1 <= every_thousandth < 30 and x.isfinite().all()
