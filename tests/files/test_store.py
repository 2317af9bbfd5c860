"""Arrays in files: whole or made again, gone on with, mapped and not read, never half a file."""

import json
import os
import resource
import signal
import subprocess
import sys
import textwrap
import time
import warnings
from pathlib import Path

import numpy as np
import pytest

from crabjax.files import DataWarning, store
from crabjax.files.seals import open_sealed, seal
from crabjax.files.store import HEADER, Plan, blocks_of, kept

PLAN = Plan("texts one", (10, 3), "int32")
WHOLE = np.arange(30, dtype=np.int32).reshape(10, 3)


def blocks(start=0, size=2, calls=None):
    for first in range(start, 10, size):
        if calls is not None:
            calls.append(first)
        yield slice(first, min(first + size, 10)), WHOLE[first : first + size]


def make(path, plan=PLAN, calls=None):
    return kept(path, plan, lambda start: blocks(start, calls=calls), "making it")


def test_made_once_then_mapped_and_the_same_as_in_memory(tmp_path):
    calls = []
    first = make(tmp_path / "a", calls=calls)
    again = make(tmp_path / "a", calls=calls)
    np.testing.assert_array_equal(first, WHOLE)
    np.testing.assert_array_equal(again, make(None))
    assert calls == [0, 2, 4, 6, 8]
    assert not again.flags.writeable
    assert type(again) is np.ndarray
    assert (tmp_path / "a").stat().st_size == HEADER + WHOLE.nbytes
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_rows_may_come_in_any_order(tmp_path):
    order = np.random.default_rng(0).permutation(10)

    def scattered(start):
        for first in range(start, 10, 3):
            rows = order[first : first + 3]
            yield rows, WHOLE[rows]

    np.testing.assert_array_equal(kept(tmp_path / "a", PLAN, scattered, ""), WHOLE)


@pytest.mark.parametrize(
    ("rows", "shape"),
    [
        (slice(0, 10), (10, 4)),
        (slice(0, 10), (10, 2)),
        (slice(0, 10), (5, 6)),
        (slice(2, 12), (10, 3)),
        (slice(0, 9), (10, 3)),
        (np.arange(10), (10, 4)),
        (np.arange(9), (10, 3)),
    ],
)
def test_a_block_of_another_shape_is_refused(tmp_path, rows, shape):
    block = lambda start: iter([(rows, np.zeros(shape, np.int32))])
    with pytest.raises(ValueError, match=r"expected a block \(.*\), found \("):
        kept(tmp_path / "a", PLAN, block, "")
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize("stop", range(0, 10, 2))
def test_what_was_stopped_goes_on_where_it_was(tmp_path, stop):
    def stopped(start):
        for rows, block in blocks(start):
            if rows.start == stop:
                raise KeyboardInterrupt
            yield rows, block

    with pytest.raises(KeyboardInterrupt):
        kept(tmp_path / "a", PLAN, stopped, "")
    assert [path.name for path in tmp_path.iterdir()] == ["a.part"]
    calls = []
    np.testing.assert_array_equal(make(tmp_path / "a", calls=calls), WHOLE)
    assert calls == list(range(stop, 10, 2))


KILLED = """
import sys, time
import numpy as np
from pathlib import Path
from crabjax.files import store
store._SECONDS = 0.0
plan = store.Plan("of this", (1000, 4), "float32")
def blocks(start):
    print(start, flush=True)
    for first in range(start, 1000, 10):
        if len(sys.argv) > 2:
            time.sleep(0.01)
        yield slice(first, first + 10), np.full((10, 4), first, np.float32)
array = store.kept(Path(sys.argv[1]), plan, blocks, "")
assert (array == np.arange(0, 1000, 10).repeat(10)[:, None]).all()
"""


def test_killed_half_way_the_second_start_goes_on(tmp_path):
    path, environment = (
        tmp_path / "a",
        os.environ | {"PYTHONPATH": str(Path(store.__file__).parents[2])},
    )
    command = [sys.executable, "-c", KILLED, str(path)]
    first = subprocess.Popen([*command, "slowly"], env=environment, stdout=subprocess.DEVNULL)
    part, deadline = tmp_path / "a.part", time.monotonic() + 400
    while time.monotonic() < deadline:
        if part.exists() and _done(part) >= 50:
            break
        time.sleep(0.02)
    first.send_signal(signal.SIGKILL)
    first.wait()
    assert not path.exists()
    done = _done(part)
    second = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert int(second.stdout) == done >= 50


def _done(path):
    try:
        return json.loads(path.read_bytes()[len(store._MAGIC) : HEADER])["done"]
    except ValueError:  # being written this moment
        return -1


def rewritten(path, **changes):
    """The file with other facts in its header, under a right sum."""
    content = path.read_bytes()
    about = open_sealed(json.loads(content[len(store._MAGIC) : HEADER]))
    header = store._MAGIC + json.dumps(seal(about | changes)).encode()
    path.write_bytes(header.ljust(HEADER) + content[HEADER:])


DAMAGES = {
    "cut short: expected": lambda path: os.truncate(path, HEADER + 50),
    "its header is damaged": lambda path: os.truncate(path, 100),
    "of another version or no file of ours": lambda path: path.write_bytes(
        path.read_bytes().replace(b"array 1", b"array 9", 1)
    ),
    "of another version or no file": lambda path: path.write_bytes(b""),
    "header is damaged": lambda path: path.write_bytes(
        path.read_bytes().replace(b'"done": 10', b'"done": 11', 1)
    ),
    "made from other documents or settings": lambda path: rewritten(path, origin="others"),
    r"expected int32 \(10, 3\), found int32 \(5, 6\)": lambda path: rewritten(path, shape=[5, 6]),
    "found float32": lambda path: rewritten(path, dtype="float32"),
    "only 4 of 10 rows were written": lambda path: rewritten(path, done=4),
    "its content is not what was written": lambda path: path.write_bytes(
        path.read_bytes()[:-1] + b"\xff"
    ),
}


@pytest.mark.parametrize("said", DAMAGES)
def test_a_damaged_file_is_noticed_said_and_made_again(tmp_path, said):
    make(tmp_path / "a")
    DAMAGES[said](tmp_path / "a")
    with pytest.warns(DataWarning, match=f"a: .*{said}.*; made again") as caught:
        np.testing.assert_array_equal(make(tmp_path / "a"), WHOLE)
    assert len(caught) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_array_equal(make(tmp_path / "a"), WHOLE)


@pytest.mark.parametrize("origin", ["texts one", "texts two"])
def test_a_part_of_other_texts_is_not_gone_on_with(tmp_path, origin):
    def stopped(start):
        yield slice(0, 4), np.full((4, 3), 7, np.int32)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        kept(tmp_path / "a", PLAN._replace(origin=origin), stopped, "")
    calls = []
    if origin == PLAN.origin:
        make(tmp_path / "a", calls=calls)
        assert calls[0] == 4
    else:
        with pytest.warns(DataWarning, match=r"a\.part: made from other documents"):
            np.testing.assert_array_equal(make(tmp_path / "a", calls=calls), WHOLE)
        assert calls[0] == 0


def test_a_full_disk_names_the_folder_and_the_room_and_leaves_nothing(tmp_path):
    plan = Plan("much", (1 << 20, 64), "float32")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, before[1]))
    try:
        with pytest.raises(OSError, match=r"a needs 0\.27 GB in this folder") as caught:
            kept(tmp_path / "a", plan, lambda start: iter(()), "")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert caught.value.filename == str(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_disk_that_fills_up_later_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.delattr(os, "posix_fallocate")  # as on systems that cannot take the room at once
    monkeypatch.setattr(os, "ftruncate", lambda *_: None)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (HEADER + 60, before[1]))
    try:
        with pytest.raises(OSError, match="a needs"):
            make(tmp_path / "a")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_refuses_is_said_and_the_array_is_in_memory(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.warns(DataWarning, match="cannot be kept: Not a directory"):
        np.testing.assert_array_equal(make(tmp_path / "file" / "a"), WHOLE)


def test_an_error_of_the_maker_is_not_taken_for_the_disk(tmp_path):
    def broken(start):
        yield slice(0, 2), WHOLE[:2]
        raise OSError(28, "texts.jsonl is on a full disk of its own")

    with pytest.raises(OSError, match="of its own"):
        kept(tmp_path / "a", PLAN, broken, "")


GATHER = """
import os, sys
import numpy as np
from pathlib import Path
from crabjax.files.store import Plan, kept

path, rows, width = Path(sys.argv[1]), 200_000, 256
plan = Plan("much", (rows, width), "int32")
def blocks(start):
    for first in range(start, rows, 10_000):
        numbers = np.arange(first, first + 10_000)
        yield slice(first, first + 10_000), numbers[:, None].repeat(width, 1)
array = kept(path, plan, blocks, "")
file = os.open(path, os.O_RDONLY)
os.fsync(file)
os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
about = lambda name, key: int(
    next(line for line in open(f"/proc/self/{name}") if line.startswith(key)).split()[1]
)
wanted = np.sort(np.random.default_rng(0).choice(rows, 3000, replace=False))
read, resident = about("io", "read_bytes"), about("status", "RssFile")
found = array[wanted]
assert (found == wanted[:, None]).all()
print(about("io", "read_bytes") - read, 1024 * (about("status", "RssFile") - resident))
"""


@pytest.mark.skipif(not Path("/proc/self/io").exists(), reason="needs /proc")
def test_a_gather_reads_its_rows_and_not_the_file(tmp_path):
    environment = os.environ | {"PYTHONPATH": str(Path(store.__file__).parents[2])}
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(GATHER), str(tmp_path / "a")],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    read, resident = map(int, done.stdout.split())
    size = 200_000 * 256 * 4
    assert read < 0.15 * size  # 3,000 pages are 6% of it; nothing at all on tmpfs
    assert resident < 0.3 * size


def test_blocks_cover_an_array_and_let_it_go(tmp_path):
    array = make(tmp_path / "a")
    for one in (array, array[:, :2], array[3:], WHOLE):
        np.testing.assert_array_equal(np.concatenate(list(blocks_of(one, 4))), one)
        assert all(block.flags.c_contiguous for block in blocks_of(one, 4))


def test_what_a_user_wrote_into_a_map_of_their_own_stays(tmp_path):
    np.save(tmp_path / "own.npy", WHOLE)
    own = np.load(tmp_path / "own.npy", mmap_mode="c")
    own[3] = 7
    assert sum(len(block) for block in blocks_of(own, 4)) == 10
    np.testing.assert_array_equal(own[3], 7)
