"""The table that planning takes on a GPU: what is shipped and the user's own, and what tells of it."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.runtime.tuning.test_tune_database import ARCH, LAYER, database, origin, subject, timing
from warpconv.cli import cli
from warpconv.codegen.select import plan_layer
from warpconv.runtime import env
from warpconv.runtime.devices.cuda import contexts
from warpconv.runtime.tuning import choice, files


@pytest.fixture
def gpu(monkeypatch):
    monkeypatch.setattr(contexts, "name", lambda ordinal: "NVIDIA H200")
    monkeypatch.setattr(contexts, "arch", lambda ordinal: "sm_90")
    shipped = database((subject(), timing(9.0, origin(), block_size_x=8), origin()))
    monkeypatch.setattr(choice, "shipped", lambda: shipped)
    choice._table.cache_clear()
    yield
    choice._table.cache_clear()


def test_a_gpus_table_is_what_is_shipped_and_the_users_own(gpu, tmp_path):
    path, where = tmp_path / "tuning.json", origin(date="2026-11-21 00:00")
    with env.scope(tune_db=path):
        assert choice.table(None) is None
        assert choice.table(0).best(LAYER, ARCH) == ("direct", {"block_size_x": 8})
        assert choice.table(0) is choice.table(0)
        files.add_to(path, database((subject(), timing(5.0, where, block_size_x=16), where)))
        assert choice.table(0).best(LAYER, ARCH) == ("direct", {"block_size_x": 16})
        files.add_to(path, database((subject(), timing(6.0, where, block_size_x=64), where)))
        assert choice.table(0).best(LAYER, ARCH) == ("direct", {"block_size_x": 16})


def test_a_damaged_file_of_the_user_is_warned_of_once_and_the_rest_serves(gpu, tmp_path):
    path = tmp_path / "tuning.json"
    path.write_text("{}")
    with env.scope(tune_db=path):
        with pytest.warns(RuntimeWarning, match="no tuning database"):
            assert choice.table(0).best(LAYER, ARCH) == ("direct", {"block_size_x": 8})
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            choice.table(0)


def test_what_is_shipped_can_be_read_and_is_small():
    database = choice.shipped()
    assert all(s.device != "CPU device" for s in database.subjects())
    for path in Path(choice.__file__).parent.glob("*.json"):
        assert path.stat().st_size < 2_000_000 and files.text_of(files.read(path)) == path.read_text()


def explained(*options):
    record = CliRunner().invoke(cli, ["explain", "--input", "4,2,40,50", "--filter", "2,3,3", "--padding", "1",
                                      "--groups", "2", *options, "--json"])
    assert record.exit_code == 0, record.output
    return json.loads(record.stdout)


def test_the_command_explain_says_what_it_follows(gpu, tmp_path, monkeypatch):
    monkeypatch.setattr(contexts, "usable", lambda: "no driver")
    by_rule = explained()
    assert by_rule["tuning"].startswith("no GPU here") and by_rule["chosen"] == plan_layer(LAYER).spec.algorithm
    monkeypatch.setattr(contexts, "usable", lambda: None)
    monkeypatch.setattr(contexts, "default_device", lambda: 0)
    with env.scope(tune_db=tmp_path / "none.json"):
        found = explained()
        assert found["tuning"] == "measured: 9 us on NVIDIA H200, 2026-11-20" and found["chosen"] == "direct"
        assert found["candidates"][0]["reason"] == found["tuning"] and found["candidates"][0]["chosen"]
        assert explained("--arch", "sm_80")["tuning"].startswith("the GPU here is no sm_80")
        assert explained("--stride", "2")["tuning"] == "not measured on NVIDIA H200: the rule chooses"
        assert explained("--algorithm", "direct")["tuning"] == "not asked: the options choose"
        stale = database((subject(), timing(9.0, origin(), tile_of_old=8), origin()))
        monkeypatch.setattr(choice, "shipped", lambda: stale)
        choice._table.cache_clear()
        found = explained()
        assert found["tuning"].endswith("that this version refuses: the rule chooses")
        assert found["chosen"] == by_rule["chosen"]
