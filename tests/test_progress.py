"""Steps that last are said: on a terminal in one line that updates, off it a line each."""

import io
import json
import re
import time

import jax
import jax.numpy as jnp
import pytest

from crabjax import progress
from crabjax.files.read import read_lines
from crabjax.progress import COMPILING, counting, doing, shown, tell


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture(autouse=True)
def _impatient(monkeypatch):
    monkeypatch.setattr(progress, "PATIENCE", 0.3)


def test_nothing_is_said_unless_a_command_asks(capsys):
    with doing("something long"):
        time.sleep(0.5)
    assert capsys.readouterr() == ("", "")


def test_off_a_terminal_a_step_that_lasts_is_a_line():
    stream = io.StringIO()
    with shown(None, stream):
        with doing("something short"):
            pass
        for number in range(2):
            with doing(f"something long {number}", "something long"):
                time.sleep(0.8)
    assert stream.getvalue() == "something long 0 ...\n"


def test_on_a_terminal_one_line_updates_and_goes(capsys):
    stream = Terminal()
    with shown(None, stream), doing("outer"), doing("inner"):
        time.sleep(0.8)
        tell("a result")
    text = stream.getvalue()
    assert "\r\x1b[Kouter: inner, 0 s" in text or "\r\x1b[Kouter: inner, 1 s" in text
    assert "\n" not in text
    assert text.endswith("\r\x1b[K")
    assert capsys.readouterr().out == "a result\n"


def test_json_and_quiet(capsys):
    stream = io.StringIO()
    with shown("json", stream), doing("something long"):
        time.sleep(0.8)
        tell("for people")
        tell("for people", event="x", number=3)
    assert json.loads(stream.getvalue()) == {"event": "step", "text": "something long"}
    assert json.loads(capsys.readouterr().out) == {"event": "x", "number": 3}
    with shown("quiet", stream := io.StringIO()), doing("something long"):
        time.sleep(0.5)
        tell("minor", minor=True)
        tell("major")
    assert stream.getvalue() == ""
    assert capsys.readouterr().out == "major\n"


def test_a_function_can_be_a_step():
    @doing("a function")
    def function():
        time.sleep(0.8)
        return 3

    with shown(None, stream := io.StringIO()):
        assert function() == 3
    assert stream.getvalue() == "a function ...\n"


def test_compiling_is_heard_from_jax(monkeypatch, tmp_path):
    counts = []
    monkeypatch.setattr(progress.Display, "compiling", lambda self, more: counts.append(more))
    with shown("lines", io.StringIO()), doing("a step"):
        before = jax.config.jax_compilation_cache_dir  # type: ignore[attr-defined]
        jax.config.update("jax_compilation_cache_dir", str(tmp_path))
        try:
            jax.jit(lambda x: x * 3 + 17)(jnp.ones(5))
        finally:
            jax.config.update("jax_compilation_cache_dir", before)
    assert counts.count(1) >= 1
    assert counts.count(-1) >= counts.count(1)


def test_compiling_that_lasts_is_said():
    stream = io.StringIO()
    with shown("lines", stream) as display, doing("training"):
        display.compiling(+1)
        time.sleep(0.8)
        display.compiling(-1)
    assert stream.getvalue().splitlines() == ["training ...", f"{COMPILING} ..."]


def test_counted_work_says_how_far_it_is_and_how_long_the_rest_takes(monkeypatch):
    monkeypatch.setattr(progress, "REMINDER", 0.4)
    stream = io.StringIO()
    with shown(None, stream), counting("reading", 2000, 1000) as advance:
        for _ in range(5):
            time.sleep(0.3)
            advance(200)
    lines = stream.getvalue().splitlines()
    assert 2 <= len(lines) <= 5
    assert all(
        re.fullmatch(r"reading: 1,\d00 of 2,000, about \d s left \.\.\.", one) for one in lines
    )


def test_counting_that_nobody_watches_says_nothing(capsys):
    with counting("reading", 10) as advance:
        advance(10)
    assert capsys.readouterr() == ("", "")


def test_a_small_file_that_is_read_slowly_has_a_size(tmp_path):
    path, stream = tmp_path / "small.txt", io.StringIO()
    path.write_text("line\n" * 1100)
    with shown(None, stream):
        for number, _ in enumerate(read_lines(path)):
            if number == 1050:
                time.sleep(0.5)
    assert "of 0" not in stream.getvalue()
    assert "of 1" in stream.getvalue()
