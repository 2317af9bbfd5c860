"""Imports point down only, heavy packages load only where they are used."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parent.parent / "crabjax"
FILES = sorted(PACKAGE.rglob("*.py"))

# A module may import from its own layer and the ones below it.
LAYERS = [
    {"settings", "checks", "keys", "cores"},
    {"config", "scoring", "metrics"},
    {"data"},
    {"sharding", "distributed", "memory"},
    {"models", "pool", "records", "compilation", "word_rows", "batches"},
    {
        "strategies",
        "training",
        "optimizer",
        "sharded",
        "groups",
        "prediction",
        "ensemble",
        "checkpoint",
        "comparison",
        "report",
        "report_tables",
        "report_page",
        "progress",
    },
    {
        "problem",
        "run_folder",
        "texts",
        "answers",
        "labelled_texts",
        "cross_validation",
        "saved_learner",
        "suggestion",
    },
    {"loop", "learner"},
    {"experiment", "labelling", "benchmarks", "__init__"},
]
LAZY = {"transformers", "safetensors", "matplotlib", "torch", "orbax"}


def part(path):
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node, node.module
        elif isinstance(node, ast.Import):
            for alias in node.names:
                yield node, alias.name


def level(name):
    found = [number for number, layer in enumerate(LAYERS) if name in layer]
    assert found, f"{name} has no layer; give it one in LAYERS"
    return found[0]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_point_down(path):
    for _, module in imported(ast.parse(path.read_text(encoding="utf-8"))):
        if module.startswith("crabjax."):
            assert level(module.split(".")[1]) <= level(part(path)), module


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_kernels_and_models_keep_apart(path):
    own = part(path)
    modules = [m for _, m in imported(ast.parse(path.read_text(encoding="utf-8")))]
    inside = {m.split(".")[1] for m in modules if m.startswith("crabjax.")}
    if own == "models":
        assert "scoring" not in inside
    if own == "scoring":
        assert inside <= {"scoring", "checks"}
        assert {m.split(".")[0] for m in modules} <= {
            "crabjax", "jax", "numpy", "scipy", "functools", "math", "typing", "dataclasses",
            "collections",
        }  # fmt: skip


# The PyTorch models of the benchmark are a file that only a comparison with PyTorch imports.
EAGER = [path for path in FILES if path.name != "torch_models.py"]


@pytest.mark.parametrize("path", EAGER, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_heavy_packages_are_imported_where_they_are_used(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    outside = [n for n in tree.body if not isinstance(n, ast.FunctionDef | ast.ClassDef)]
    for _, module in imported(ast.Module(outside, [])):
        assert module.split(".")[0] not in LAZY, module


def test_importing_the_package_loads_none_of_them():
    code = f"import sys, crabjax; print([m for m in {sorted(LAZY)!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
