"""Twenty requests in flight for a minute: every answer is looked at, and its time is kept.

``python apps/skin_lesion/tests/in_flight.py --out FILE`` starts a server of two processes with a
record of its own, sends it drawn pictures of 600 x 450 pixels, and prints the times in seconds.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import httpx
import numpy as np
from PIL import Image

AT_ONCE, PICTURES = 20, 40


def picture(seed):
    """Draw a brown spot on skin, as a JPEG."""
    y, x = np.mgrid[:450, :600]
    skin = np.array([222, 178, 155]) + np.random.default_rng(seed).normal(0, 4, (450, 600, 3))
    inside = 1 / (1 + np.exp(8 * (((x - 300) / 120) ** 2 + ((y - 225) / 90) ** 2 - 1)))[..., None]
    drawn = skin * (1 - inside) + np.array([120, 75, 60]) * inside
    file = io.BytesIO()
    Image.fromarray(drawn.clip(0, 255).astype(np.uint8)).save(file, "JPEG", quality=90)
    return file.getvalue()


async def measure(address, seconds):
    """Keep so many requests in flight; return their times and what went wrong."""
    pictures, times, errors = [picture(seed) for seed in range(PICTURES)], [], []
    limits = httpx.Limits(max_connections=AT_ONCE)
    async with httpx.AsyncClient(base_url=address, timeout=120, limits=limits) as client:

        async def judge(number):
            file = ("files", ("a.jpg", pictures[number % PICTURES], "image/jpeg"))
            return await client.post("/api/v1/predict", files=[file])

        for _ in range(240):
            try:
                await judge(0)
                break
            except httpx.TransportError:  # the server does not listen yet
                await asyncio.sleep(0.5)
        await asyncio.gather(*(judge(i) for i in range(3 * AT_ONCE)))  # both processes are warm
        end = time.monotonic() + seconds

        async def go_on(number):
            while (start := time.monotonic()) < end:
                try:
                    answer = await judge(number)
                    if answer.status_code != httpx.codes.OK:
                        errors.append(answer.status_code)
                except httpx.HTTPError as error:
                    errors.append(repr(error))
                times.append(time.monotonic() - start)
                number += AT_ONCE

        await asyncio.gather(*map(go_on, range(AT_ONCE)))
    return times, errors


def _main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory() as record:
        command = [sys.executable, "-m", "temperance_skin_lesion", "serve", "--data", record]
        server = subprocess.Popen(
            [*command, "--port", str(port), "--workers", "2"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            times, errors = asyncio.run(measure(f"http://127.0.0.1:{port}", given.seconds))
        finally:
            server.terminate()
            server.wait(30)
    shares = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "longest": 1.0}
    facts = {
        "in_flight": AT_ONCE,
        "requests": len(times),
        "errors": len(errors),
        "per_second": round(len(times) / given.seconds, 1),
        **{name: round(float(np.quantile(times, share)), 2) for name, share in shares.items()},
        "load_average": round(os.getloadavg()[0], 1),
    }
    text = json.dumps(facts, indent=1)
    print(text)
    if given.out is not None:
        given.out.write_text(text + "\n")
    return int(bool(errors))


if __name__ == "__main__":
    sys.exit(_main())
