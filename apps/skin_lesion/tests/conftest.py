"""The skin-lesion assistant as users meet it: a real server, a real record, the shipped model."""

from __future__ import annotations

import socket
import threading
from contextlib import contextmanager

import numpy as np
import pytest

collect_ignore = ["every_write.py"]  # a program, which loads a model and changes it


@pytest.fixture(scope="session")
def model():
    """The shipped model."""
    pytest.importorskip("efficientnet_lite_pytorch", reason="the extra 'app' is not installed")
    import torch

    from temperance_skin_lesion import model

    torch.set_num_threads(1)
    return model.load()


@pytest.fixture(scope="session")
def remembering(model):
    """The shipped model, which looks at each picture once in all tests."""
    from temperance_skin_lesion.model import Look, Model

    seen = {}

    class Remembering(Model):
        __slots__ = ()

        def look(self, images):
            new = {image.tobytes(): image for image in images if image.tobytes() not in seen}
            if new:
                found = model.look(np.stack(list(new.values())))
                rows = zip(found.logits, found.views, found.foreign, strict=True)
                seen.update(zip(new, rows, strict=True))
            return Look(*map(np.stack, zip(*(seen[i.tobytes()] for i in images), strict=True)))

    return Remembering(model.net, model.source, model.appearance, model.facts)


@pytest.fixture
def settings(tmp_path):
    """Settings of a server whose record is in a directory of the test."""
    pytest.importorskip("fastapi", reason="the extra 'app' is not installed")
    from temperance_skin_lesion.settings import Settings

    return Settings(data=tmp_path / "record")


@pytest.fixture
def assistant(settings, remembering):
    """The assistant without a server, on a new record."""
    from temperance_skin_lesion.assistant import Assistant
    from temperance_skin_lesion.store import Store

    settings.data.mkdir()
    store = Store(settings.record)
    yield Assistant(remembering, store)
    store.close()


@contextmanager
def listening(app):
    """Run an application on a free port; a context that yields its address."""
    import uvicorn

    from temperance_skin_lesion.web.protocol import OPTIONS

    options = OPTIONS | {"log_level": "error", "timeout_graceful_shutdown": 1}
    config = uvicorn.Config(app, **options)
    server = uvicorn.Server(config)
    with socket.create_server(("127.0.0.1", 0)) as free:  # requests queue until it is up
        run = {"target": server.run, "kwargs": {"sockets": [free]}}
        thread = threading.Thread(**run, daemon=True)  # no request may hold up the other tests
        thread.start()
        try:
            yield f"http://127.0.0.1:{free.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(10)
            server.force_exit = True


@pytest.fixture(scope="session")
def listen():
    """Run any application on a free port; a context that yields its address."""
    return listening


@pytest.fixture
def serve(remembering):
    """Start a server for given settings; a context that yields its address."""
    from temperance_skin_lesion.web.app import create_app

    return lambda settings: listening(create_app(settings, remembering))


@pytest.fixture(scope="session")
def server(remembering, tmp_path_factory):
    """One server for all tests with the usual settings: its application and its address."""
    from temperance_skin_lesion.settings import Settings
    from temperance_skin_lesion.web.app import create_app

    app = create_app(Settings(data=tmp_path_factory.mktemp("server")), remembering)
    with listening(app) as address:
        yield app, address


@pytest.fixture
def address(server, assistant, settings):
    """Address of the server, which keeps a new record for each test."""
    app, address = server
    app.state.assistant, app.state.settings, app.state.oidc = assistant, settings, None
    return address


@pytest.fixture
def client(address):
    """A client of the server."""
    import httpx

    with httpx.Client(base_url=address, timeout=60) as client:
        yield client


@pytest.fixture(scope="session")
def lesions():
    """Picture files drawn by code, each once: ``lesions(3)`` are three of them."""
    pytest.importorskip("PIL", reason="the extra 'app' is not installed")
    from temperance_skin_lesion.drawings import lesion_file

    kept = {}

    def draw(n, first=0):
        return [kept.setdefault(i, lesion_file(i, side=128)) for i in range(first, first + n)]

    return draw


@pytest.fixture(scope="session")
def as_files():
    """Contents as the multipart field that the server reads."""

    def fields(contents, name="lesion{}.jpg"):
        return [
            ("files", (name.format(i), content, "image/jpeg")) for i, content in enumerate(contents)
        ]

    return fields
