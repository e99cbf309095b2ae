"""Studies of whole networks: their rows, and their tables of played rows."""

from __future__ import annotations

from bench.studies import training, whole_networks


def test_rows_are_distinct():
    for study, count in ((whole_networks, 35), (training, 17)):
        keys = [row.key for row in study.rows_of(False)]
        assert len(set(keys)) == len(keys) == count
        assert {row.key for row in study.rows_of(True)} < set(keys)


def test_networks_by_format():
    row = {"status": "ok", "dtype": "float16", "layout": "NHWC", "rule": "all", "converted": 3, "layers": 4, "ms": 1.0,
           "error": 1e-3, "stock_error": 9e-4}
    rows = {"a": row | {"network": "a", "stock_ms": 4.0, "ratio": 4.0}, "b": row | {"network": "b", "stock_ms": 1.0,
                                                                                   "ratio": 1.0},
            "c": row | {"network": "c", "status": "WRONG: no"}}
    table, = whole_networks.tables(rows)
    assert table.title == "float16, NHWC, all" and "2.00" in table.text
    assert table.rows == (("a", "3 of 4", 4.0, 1.0, 4.0, "1.0e-03", "9.0e-04"),
                          ("b", "3 of 4", 1.0, 1.0, 1.0, "1.0e-03", "9.0e-04"))


def test_training_by_kind():
    kind = next(iter(training.KINDS))
    row = {"status": "ok", "kind": kind, "network": "a", "converted": 1, "layers": 2, "stock_eager_ms": 9.0,
           "eager_ms": 3.0, "eager_ratio": 3.0, "stock_graph_ms": 8.0, "graph_ms": 2.0, "graph_ratio": 4.0,
           "graph_converted": 2}
    table, = training.tables({"a": row})
    assert table.title == kind and table.rows == (("a", "1 of 2", 9.0, 3.0, 3.0, "2 of 2", 8.0, 2.0, 4.0),)
    assert "eager 3.00, as a graph 4.00" in table.text
