"""Every write survives kill -9 at every statement and a full disk: all or nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import contextmanager
from itertools import chain
from pathlib import Path

import pytest

pytest.importorskip("fastapi", reason="the extra 'app' is not installed")


@pytest.mark.slow
def test_every_write_is_whole_or_nothing(tmp_path):
    script = Path(__file__).parent / "every_write.py"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    done = subprocess.run(
        [sys.executable, script, tmp_path],
        env=environment,
        capture_output=True,
        text=True,
        timeout=3600,  # a loaded machine takes more than ten minutes
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(found) == 18
    assert {one["write"]: one["wrong"] for one in found if one["wrong"]} == {}
    assert all(one["killed"] >= 2 for one in found)
    assert all(one["full"] >= 1 for one in found)


def test_a_picture_stays_that_somebody_else_sent_while_the_first_failed(
    tmp_path, remembering, lesions
):
    from temperance_skin_lesion import intake
    from temperance_skin_lesion.assistant import Assistant
    from temperance_skin_lesion.store import Store

    class Failing(Store):
        """Fails in the midst of a write, during which another process has written the same."""

        fails = False

        @contextmanager
        def writing(self):
            with super().writing() as session:
                yield session
                if self.fails:
                    raise OSError("disk full")

    contents = lesions(2)
    pictures = [intake.read(content, "a") for content in contents]
    first, second = (cls(tmp_path / "assistant.sqlite3") for cls in (Failing, Store))
    other = Assistant(remembering, second, tmp_path / "images")
    failing = Assistant(remembering, first, tmp_path / "images")

    def sent():
        other.judge(pictures[:1], contents[:1])
        yield from contents[1:]

    first.fails = True
    with pytest.raises(OSError, match="disk full"):
        failing.judge(pictures, chain(contents[:1], sent()))
    (kept,) = (tmp_path / "images").iterdir()
    assert kept.stem == pictures[0].sha256
    for store in (first, second):
        store.close()


def test_pictures_that_a_killed_process_left_are_forgotten(tmp_path, remembering, lesions):
    """Kept before their cases, they may be left without one; what is under way is not touched."""
    from temperance_skin_lesion import intake
    from temperance_skin_lesion.assistant import Assistant
    from temperance_skin_lesion.store import Store

    store, images = Store(tmp_path / "assistant.sqlite3"), tmp_path / "images"
    contents = lesions(1)
    Assistant(remembering, store, images).judge([intake.read(contents[0], "a")], contents)
    (kept,) = images.iterdir()
    names = (f"{'0' * 64}.jpeg", f"{kept.stem}.9-9.partial", f"{'1' * 64}.jpeg")
    for name in names:
        (images / name).write_bytes(b"x")
    for path in (kept, images / names[0], images / names[1]):
        os.utime(path, (0, 0))
    Assistant(remembering, store, images)
    assert sorted(path.name for path in images.iterdir()) == sorted([kept.name, names[2]])
    store.close()
