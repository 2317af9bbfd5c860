"""Imports point down only, heavy packages load only where they are used."""

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import crabjax

PACKAGE = Path(__file__).resolve().parent.parent / "crabjax"
FILES = sorted(PACKAGE.rglob("*.py"))

# What each room, or file of the root, may import besides itself; a room only from lines above it.
ROOMS = {
    "checks": "",
    "keys": "",
    "progress": "",
    "files": "progress",
    "metrics": "checks",
    "thresholds": "checks",
    "scoring": "checks",
    "config": "files",
    "devices": "checks config files",
    "data": "checks config files progress",
    "models": "checks config devices files",
    "inputs": "config data files models",
    "ensemble": "checks config devices files models progress",
    "pool": "config data devices files keys scoring",
    "strategies": "checks config files keys pool scoring",
    "report": "files",
    "experiments": "config data devices ensemble files inputs keys metrics models pool"
    " progress report strategies thresholds",
    "labelling": "checks config data ensemble files inputs keys metrics models pool progress"
    " report strategies thresholds",
    "integrations": "checks config keys scoring strategies",
    "benchmarks": "config data devices ensemble experiments integrations models pool scoring",
    "cli": "benchmarks config data devices experiments files integrations labelling"
    " progress report",
    "__main__": "cli",
    "__init__": "config devices ensemble experiments labelling metrics models scoring strategies",
}  # fmt: skip
LAZY = {"huggingface_hub", "tokenizers", "safetensors", "matplotlib", "torch", "orbax"}


def part(path):
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node, node.module
        elif isinstance(node, ast.Import):
            for alias in node.names:
                yield node, alias.name


def rooms_imported(path):
    """The other rooms a file imports from."""
    found = set()
    for node, module in imported(ast.parse(path.read_text(encoding="utf-8"))):
        if module == "crabjax" and isinstance(node, ast.ImportFrom):
            found |= {alias.name for alias in node.names}
        elif module.startswith("crabjax."):
            found.add(module.split(".")[1])
    return found - {part(path)}


def test_imports_point_down():
    above: set[str] = set()
    for room, allowed in ROOMS.items():
        assert set(allowed.split()) <= above, f"{room} may only import what stands above it"
        above.add(room)


def test_the_rooms_are_those_of_the_package():
    assert {part(path) for path in FILES} == set(ROOMS)
    assert len([path for path in FILES if path.parent == PACKAGE]) <= 10


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_file_imports_what_its_room_may(path):
    assert rooms_imported(path) <= set(ROOMS[part(path)].split())


@pytest.mark.parametrize("room", [room for room in ROOMS if ROOMS[room]])
def test_no_room_may_import_more_than_it_does(room):
    files = [path for path in FILES if part(path) == room]
    assert set().union(*map(rooms_imported, files)) == set(ROOMS[room].split())


@pytest.mark.parametrize("path", sorted((PACKAGE / "scoring").glob("*.py")), ids=lambda p: p.stem)
def test_kernels_need_little(path):
    modules = [module for _, module in imported(ast.parse(path.read_text(encoding="utf-8")))]
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


def test_public_names_come_from_where_the_types_say():
    tree = ast.parse((PACKAGE / "__init__.py").read_text(encoding="utf-8"))
    (typed,) = [node for node in tree.body if isinstance(node, ast.If)]
    homes = {node.names[0].name: node.module for node in typed.body}  # type: ignore[attr-defined]
    assert {name: f"crabjax.{home}" for name, home in crabjax._HOME_OF.items()} == homes
    assert set(homes) <= set(dir(crabjax))
    for name, home in homes.items():
        assert getattr(crabjax, name) is getattr(importlib.import_module(home), name)
    with pytest.raises(AttributeError, match="no attribute 'nosuch'"):
        _ = crabjax.nosuch
