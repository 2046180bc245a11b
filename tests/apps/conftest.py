"""The skin-lesion assistant as users meet it: a real server, a real record, the shipped model."""

from __future__ import annotations

import socket
import threading
from contextlib import contextmanager

import pytest


@pytest.fixture(scope="session")
def model():
    """The shipped model."""
    pytest.importorskip("efficientnet_lite_pytorch", reason="the extra 'app' is not installed")
    import torch

    from temperance_skin_lesion import model

    torch.set_num_threads(1)
    return model.load()


@pytest.fixture
def settings(tmp_path):
    """Settings of a server whose record is in a directory of the test."""
    pytest.importorskip("fastapi", reason="the extra 'app' is not installed")
    from temperance_skin_lesion.settings import Settings

    return Settings(data=tmp_path / "record")


@pytest.fixture
def assistant(settings, model):
    """The assistant without a server."""
    from temperance_skin_lesion.assistant import Assistant
    from temperance_skin_lesion.store import Store

    settings.data.mkdir()
    store = Store(settings.data / "assistant.sqlite3")
    yield Assistant(model, store)
    store.close()


@pytest.fixture
def serve(model):
    """Start a server for given settings on a free port; a context that yields its address."""
    import uvicorn

    from temperance_skin_lesion.web.app import create_app

    @contextmanager
    def running(settings):
        app = create_app(settings, model)
        config = uvicorn.Config(app, log_level="error", timeout_graceful_shutdown=1)
        server = uvicorn.Server(config)
        with socket.create_server(("127.0.0.1", 0)) as listening:  # requests queue until it is up
            thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
            thread.start()
            try:
                yield f"http://127.0.0.1:{listening.getsockname()[1]}"
            finally:
                server.should_exit = True
                thread.join()

    return running


@pytest.fixture
def client(serve, settings):
    """A client of a server with the usual settings."""
    import httpx

    with serve(settings) as address, httpx.Client(base_url=address, timeout=60) as client:
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
