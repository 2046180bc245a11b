from __future__ import annotations

import io
import itertools
from types import SimpleNamespace

import pytest

from temperance._core import progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def clock(monkeypatch):
    """A clock that goes on by half a second whenever it is read."""
    ticks = itertools.count(step=0.5)
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(ticks))


@pytest.fixture
def terminal(monkeypatch):
    stream = Terminal()
    monkeypatch.setattr(progress, "sys", SimpleNamespace(stderr=stream))
    return stream


@pytest.mark.usefixtures("clock")
def test_terminal_shows_how_far_it_is_and_is_cleaned(terminal):
    assert list(progress.tracked(range(10), "digits")) == list(range(10))
    lines = terminal.getvalue().split("\r\033[K")
    assert lines[-1] == ""
    assert lines[1] == f"[{'#' * 6:<30}] 2/10 digits, 6 s left"
    assert len(lines) == 10  # the first second is silent


@pytest.mark.usefixtures("clock")
def test_unknown_length_is_counted(terminal):
    assert sum(progress.tracked((i for i in range(5)), "digits")) == 10
    assert "4 digits, 2 s" in terminal.getvalue()


@pytest.mark.usefixtures("clock")
def test_terminal_is_cleaned_after_an_error(terminal):
    loop = (1 / (5 - i) for i in progress.tracked(range(10), "digits"))
    with pytest.raises(ZeroDivisionError):
        list(loop)
    assert terminal.getvalue().endswith("\r\033[K")


@pytest.mark.usefixtures("clock")
def test_a_program_without_a_console_is_no_terminal(monkeypatch):
    monkeypatch.setattr(progress, "sys", SimpleNamespace(stderr=None))
    assert list(progress.tracked([1, 2], "digits")) == [1, 2]


def test_quick_loops_show_nothing(terminal):
    assert list(progress.tracked([1, 2], "digits")) == [1, 2]
    assert terminal.getvalue() == ""


@pytest.mark.usefixtures("clock")
def test_files_and_pipes_stay_silent(monkeypatch):
    stream = io.StringIO()
    monkeypatch.setattr(progress, "sys", SimpleNamespace(stderr=stream))
    assert list(progress.tracked(range(10), "digits")) == list(range(10))
    assert stream.getvalue() == ""
