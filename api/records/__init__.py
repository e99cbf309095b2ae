"""What ``--json`` prints: one frozen dataclass per verb, with a ``schema`` that grows when a field changes meaning.

Fields are plain data (text, numbers, lists, objects); a figure that could not be had is null, the reason beside it.
"""

from __future__ import annotations

import json
from typing import Any

from warpconv.codegen.serialise import encode


def to_json(record: Any) -> str:
    """A record as indented JSON text."""
    return json.dumps(encode(record), indent=2, allow_nan=False, default=str)
