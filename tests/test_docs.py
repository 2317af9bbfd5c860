"""What the documents say runs, and they leave no public name out."""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

import crabjax
from crabjax.config import Config
from crabjax.config.build import keys_of
from crabjax.config.document import settings_page
from crabjax.data.sources import SOURCES

ROOT = Path(__file__).resolve().parent.parent
BLOCKS = re.findall(
    r"^## ([^\n]+)\n(?:(?!^## ).)*?^```python\n(.*?)^```$",
    (ROOT / "docs" / "extending.md").read_text(encoding="utf-8"),
    re.MULTILINE | re.DOTALL,
)
PAGES = {path.name: path for path in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))}
LINES = 30


def public_names():
    tree = ast.parse((ROOT / "crabjax" / "__init__.py").read_text(encoding="utf-8"))
    (typed,) = [node for node in tree.body if isinstance(node, ast.If)]
    imports = [node for node in typed.body if isinstance(node, ast.ImportFrom)]
    return [alias.asname or alias.name for node in imports for alias in node.names]


def test_every_kind_of_extension_has_a_block():
    titles = [title for title, _ in BLOCKS]
    assert titles == ["A strategy", "A scoring rule", "A classifier", "A data source"]


@pytest.mark.parametrize(("title", "block"), BLOCKS, ids=[title for title, _ in BLOCKS])
def test_a_block_is_short_and_runs_as_it_stands(tmp_path, title, block):
    assert len(block.splitlines()) < LINES
    # A process of its own: what one block registers, no other test should find.
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", block],
        cwd=tmp_path,
        env={**os.environ, "CRABJAX_CACHE": str(tmp_path / "cache")},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, f"{title}: {done.stderr}"


@pytest.mark.parametrize("name", public_names())
def test_every_public_name_is_mentioned(name):
    mention = rf"`(?:crabjax\.)?{name}[`(.]|\bcrabjax\.{name}\b|from crabjax import .*\b{name}\b"
    assert any(re.search(mention, path.read_text(encoding="utf-8")) for path in PAGES.values())


@pytest.mark.parametrize("page", PAGES)
def test_links_between_pages_lead_somewhere(page):
    path = PAGES[page]
    for target, anchor in re.findall(r"\]\(([^)#:]*)(?:#([^)]*))?\)", path.read_text("utf-8")):
        found = path.parent / target if target else path
        assert found.exists(), f"{page}: {target}"
        if anchor:
            titles = re.findall(r"^#+ (.+)$", found.read_text(encoding="utf-8"), re.MULTILINE)
            anchors = [re.sub(r"[^\w -]", "", one).lower().replace(" ", "-") for one in titles]
            assert anchor in anchors, f"{page}: {target}#{anchor}"


def test_the_page_of_settings_is_what_the_dataclasses_say():
    page = PAGES["settings.md"].read_text(encoding="utf-8")
    assert page == settings_page(), "out of date: make settings"
    for key in keys_of(Config):
        assert f"| `{key.rpartition('.')[2]}` |" in page


def test_docstrings_point_to_sections_of_the_method_that_exist():
    sections = set(re.findall(r"^## (\d+)", PAGES["method.md"].read_text("utf-8"), re.MULTILINE))
    source = [path.read_text(encoding="utf-8") for path in (ROOT / "crabjax").rglob("*.py")]
    pointers = re.findall(r"docs/method\.md (\d+(?:(?:, | and | to )\d+)*)", "\n".join(source))
    assert len(pointers) > 12
    assert {number for one in pointers for number in re.findall(r"\d+", one)} <= sections


def test_the_architecture_lists_the_rooms_as_the_imports_test_does():
    page = PAGES["architecture.md"].read_text("utf-8")
    listed = re.findall(r"^\| `(\w+)(?:\.py)?` \|[^|]*\| ?([a-z ]*?) ?\|$", page, re.MULTILINE)
    source = (ROOT / "tests" / "test_imports.py").read_text("utf-8")
    rooms = ast.literal_eval(re.search(r"^ROOMS = (\{.*?^\})", source, re.MULTILINE | re.DOTALL)[1])
    assert dict(listed) == rooms


def test_the_reference_has_every_public_name_and_no_other():
    listed = re.findall(r"^::: crabjax\.(\w+)$", PAGES["api.md"].read_text("utf-8"), re.MULTILINE)
    assert listed == public_names()
    for name in listed:
        assert getattr(crabjax, name).__doc__, name


def test_the_data_page_has_every_configuration_and_source():
    page = PAGES["data.md"].read_text("utf-8")
    for path in (ROOT / "configs").glob("*.yaml"):
        stem = re.sub(r"_t10_\d+", "_t10_5", path.stem)  # listed as _5, _10, _20, _50
        assert f"`{stem}.yaml`" in page, path.name
    for path in (ROOT / "configs" / "results").glob("*.yaml"):
        data = yaml.safe_load(path.read_text("utf-8")).get("data", {})
        assert "train" not in data or f"`results/{path.name}`" in page
    for name in SOURCES:
        assert f"crabjax prepare {name} " in page or f"`{name}`" in page
