"""Files are replaced whole, by one writer or by many at once; the ends of errors."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from filelock import Timeout

from crabjax.files import atomic_write, check_writable, did_you_mean, lock, write_text


def test_a_writer_cut_off_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "kept.txt"
    write_text(path, "old")
    with pytest.raises(TypeError), atomic_write(path) as file:
        file.writelines([b"half of the n", "no bytes"])  # type: ignore[list-item]
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_writers_at_once_do_not_collide(tmp_path):
    path, start, failures = tmp_path / "kept.txt", threading.Barrier(4), []

    def write(letter):
        start.wait()
        for _ in range(50):
            try:
                write_text(path, letter * 1000)
            except OSError as error:
                failures.append(error)

    writers = [threading.Thread(target=write, args=(letter,)) for letter in "abcd"]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert not failures
    assert path.read_text() in {letter * 1000 for letter in "abcd"}
    assert list(tmp_path.iterdir()) == [path]


def test_a_full_disk_names_the_file(tmp_path):
    path = tmp_path / "kept.txt"
    for said in ("no file was written", "the old file is intact"):
        full = rf"No space left; {said}.*kept\.txt"
        with pytest.raises(OSError, match=full), atomic_write(path):
            raise OSError(28, "No space left")
        write_text(path, "old")
    # An error of another file keeps its name.
    with pytest.raises(FileNotFoundError, match=r"other\.txt"), atomic_write(path):
        (tmp_path / "other.txt").read_bytes()


def test_what_could_not_be_written_is_known_before_the_work(tmp_path):
    check_writable(tmp_path / "new" / "out.csv")
    assert list((tmp_path / "new").iterdir()) == []
    with pytest.raises(IsADirectoryError, match="found a folder"):
        check_writable(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match=r"cannot be written.*out\.csv"):
        check_writable(tmp_path / "file" / "out.csv")


def test_a_lock_keeps_others_out_and_lets_go(tmp_path):
    with lock(tmp_path), pytest.raises(BlockingIOError, match="locked by another process"):
        threaded(lambda: lock(tmp_path, wait=False).__enter__())
    with lock(tmp_path, wait=False):
        pass


def test_an_error_inside_a_lock_is_passed_on_as_it_is(tmp_path):
    with pytest.raises(Timeout, match="somewhere else"), lock(tmp_path):
        raise Timeout("somewhere else")
    with lock(tmp_path, wait=False):
        pass


def threaded(work):
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(work).result()


@pytest.mark.parametrize(
    ("name", "more", "end"),
    [
        ("crap", {}, "; did you mean crab?"),
        ("crap", {"quote": '"'}, '; did you mean "crab"?'),
        ("besar", {"cutoff": 0.9}, ""),
        ("zzz", {}, ""),
        ("zzz", {"otherwise": "there are two"}, "; there are two"),
    ],
)
def test_the_nearest_name_ends_an_error(name, more, end):
    assert did_you_mean(name, iter(("besra", "crab")), **more) == end
