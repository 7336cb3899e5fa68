"""A cache that cannot be read or written costs time, not the run."""

import warnings
from pathlib import Path

import pytest

from rltrain.battles.engine import compile_cache


def double(x):
    return x + x


DAMAGES = {
    "truncated": lambda data: data[:100],
    "empty": lambda data: b"",
    "garbage": lambda data: b"garbage\n" + data,
    "zeros": lambda data: bytes(len(data)),
}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("suffix", ["nbc", "nbi"])
def test_damaged_files_are_compiled_and_written_again(tmp_path, suffix, damage):
    """Defect: a truncated file ended every later command, until it was deleted by hand."""
    for given in (1, 0.5):
        assert compile_cache.compiled(double, tmp_path)(given) == 2 * given
    files = [*tmp_path.rglob(f"*.{suffix}")]
    assert files
    for file in files:
        file.write_bytes(DAMAGES[damage](file.read_bytes()))
    for hits in (0, 1):
        for given in (1, 0.5):
            again = compile_cache.compiled(double, tmp_path)
            assert again(given) == 2 * given
            assert sum(again.stats.cache_hits.values()) == hits


def test_a_cache_that_cannot_be_written_is_one_warning(tmp_path):
    """Defect: a full disk ended the run, without the name of the file."""
    made = [compile_cache.compiled(double, tmp_path / "rltrain" / name) for name in ("a", "b")]
    for each in made:
        place = Path(each.stats.cache_path)
        place.rmdir()
        place.touch()
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("always")
        assert [each(x) for each in made for x in (1, 0.5)] == [2, 1, 2, 1]
    (one,) = shown
    assert f"cannot be kept in {tmp_path}/rltrain (File exists)" in str(one.message)
