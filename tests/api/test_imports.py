"""Imports point one way, api -> runtime -> codegen -> templates, and importing warpconv needs nothing but Python."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LAYERS = {"templates": (), "codegen": ("templates",), "runtime": ("codegen", "templates"),
          "api": ("runtime", "codegen", "templates")}
FILES = [(layer, path) for layer in LAYERS for path in sorted((ROOT / layer).rglob("*.py"))]
PURE = {"codegen": {"pycuda", "subprocess", "ctypes", "time", "datetime", "random", "socket", "os", "shutil",
                    "tempfile", "numpy", "torch", "cupy"}}
OF_TORCH = ROOT / "runtime" / "torch"       # imports PyTorch when it is itself imported, which nothing does but late
LATE = {"pycuda", "torch", "cupy", "cuda", "PIL", "matplotlib", "rich", "jinja2", "dask", "distributed", "zarr"}


def imported(path: Path, layer: str) -> list[tuple[str, bool]]:
    """Absolute names of what a file imports, and whether it does so when it is itself imported."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    late = {id(inner) for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
            for inner in ast.walk(node)}
    package = ["warpconv"] + ([] if layer == "api" else [layer]) + list(path.relative_to(ROOT / layer).parts[:-1])
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [(alias.name, id(node) not in late) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(package[:len(package) - node.level + 1]) if node.level else ""
            module = ".".join(part for part in (base, node.module) if part)
            found += [(f"{module}.{alias.name}", id(node) not in late) for alias in node.names]
    return found


@pytest.mark.parametrize("layer, path", FILES, ids=lambda value: getattr(value, "stem", value))
def test_layers_and_purity(layer, path):
    for name, at_import in imported(path, layer):
        parts = name.split(".")
        if parts[0] == "warpconv" and len(parts) > 1:
            target = parts[1] if parts[1] in LAYERS else "api"
            assert target == layer or target in LAYERS[layer], f"{path.relative_to(ROOT)} imports {name}"
        assert parts[0] not in PURE.get(layer, ()), f"{path.relative_to(ROOT)} imports {name}"
        late = parts[0] in LATE - {"torch"} if path.parent == OF_TORCH else parts[0] in LATE
        assert not (at_import and late and layer != "api"), f"{path.relative_to(ROOT)}: {name} not late"
        assert not (at_import and name.startswith("warpconv.runtime.torch") and path.parent != OF_TORCH
                    and path.parent != ROOT / "api" / "torch"), f"{path.relative_to(ROOT)}: {name} not late"
        assert name != "pycuda.autoinit"


SCRIPT = """
import sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {blocked!r}: raise ImportError("blocked: " + name)
sys.meta_path.insert(0, Blocked())
import warpconv
before = set(sys.modules)
warpconv.ConvShape(c=1, h=9, w=9, k=1, r=3, s=3)
plan = warpconv.plan_layer(warpconv.ConvShape(c=1, h=99, w=99, k=1, r=3, s=3))
print(plan)
names = [getattr(warpconv, name) for name in ("conv2d", "specialize", "Kernel", "Filter", "explain")]
print(sorted(set(sys.modules) & {blocked!r}))
"""


def test_import_and_plan_without_any_extra():
    blocked = {"pycuda", "jinja2", "click", "rich", "PIL", "matplotlib", "cuda", "torch", "cupy"}
    done = subprocess.run([sys.executable, "-c", SCRIPT.format(blocked=blocked)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip().endswith("[]")


def test_import_is_light():
    script = "import sys, warpconv; print(sorted(m for m in sys.modules if m.split('.')[0] in " \
             "('numpy', 'jinja2', 'pycuda', 'click', 'rich', 'ctypes', 'subprocess', 'PIL')))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_unknown_names_are_attribute_errors_and_all_names_resolve():
    import warpconv
    with pytest.raises(AttributeError, match="convolution"):
        getattr(warpconv, "convolution")        # noqa: B009 (what a person types)
    missing = []
    for name in warpconv.__all__:
        try:
            getattr(warpconv, name)
        except (AttributeError, ImportError) as error:
            missing.append(f"{name}: {error}")
    assert not missing
