"""What the site adds to the pages of this folder: the files of the root, and the command line.

mkdocs calls these functions while it builds (`hooks` in mkdocs.yml).
"""

import re
import subprocess
import sys
from pathlib import Path

from mkdocs.exceptions import PluginError  # pyright: ignore[reportMissingImports]
from mkdocs.structure.files import File  # pyright: ignore[reportMissingImports]

ROOT = Path(__file__).resolve().parents[1]
# Pages whose source stands in the root, where a clone shows them.
OUTSIDE = {
    "index.md": "README.md",
    "results.md": "RESULTS.md",
    "contributing.md": "CONTRIBUTING.md",
    "changelog.md": "CHANGELOG.md",
}
INTRODUCTION = """# The command line

`crabjax COMMAND --help` prints what stands here. `python -m crabjax` is the same. In a clone
`train_loop.py`, `report.py`, `prepare_data.py`, `benchmark.py` and `query.py` in `scripts/` are
`train`, `report`, `prepare`, `benchmark` and the commands of a labelling project.
"""


def on_files(files, config):
    """Adds the pages that do not lie in this folder."""
    for page, source in OUTSIDE.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        files.append(File.generated(config, page, content=text))
    files.append(File.generated(config, "command.md", content=_command_page()))
    return files


def on_page_markdown(markdown, page, config, files):
    """Links between the root and this folder, as they are on the site."""
    for target, source in OUTSIDE.items():
        markdown = re.sub(rf"\]\((?:\.\./)?{re.escape(source)}(?=[#)])", f"]({target}", markdown)
    if page.file.src_uri in OUTSIDE:
        markdown = re.sub(r"\]\(docs/", "](", markdown)
    return markdown


def on_page_content(html, page, config, files):
    """Names in docstrings without the role that Sphinx would read."""
    return re.sub(r":(?:func|class|meth|mod):(?=<code>)", "", html)


def _command_page() -> str:
    """The help of every command, as it is printed."""
    from crabjax.cli.main import COMMANDS

    parts = [INTRODUCTION]
    for name in COMMANDS:
        command = [sys.executable, "-m", "crabjax", name, "--help"]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        if done.returncode:
            raise PluginError(f"crabjax {name} --help failed: {done.stderr}")
        parts.append(f"## {name}\n\n```text\n{done.stdout.rstrip()}\n```\n")
    return "\n".join(parts)
