"""Load the assistant: two workers, twenty requests in flight, for a minute; record the figures.

    python lab/experiments/skin_lesion/load.py [--seconds 60] [--out records/load.json]

Every request sends one drawn photograph of 600 x 450 pixels to /api/v1/predict, and counts as good
only if it comes back with status 200 and one case. At the end the record must hold as many cases.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from temperance_skin_lesion.drawings import lesion_file

HERE = Path(__file__).parent
IN_FLIGHT = 20
WORKERS = 2


async def load(address: str, seconds: float) -> dict[str, Any]:
    """Keep requests in flight and take the time of each."""
    pictures = [lesion_file(seed, side=450) for seed in range(8)]
    times: list[float] = []
    errors: list[str] = []
    end = time.monotonic() + seconds

    async def client(number: int) -> None:
        async with httpx.AsyncClient(base_url=address, timeout=60) as http:
            turn = number
            while time.monotonic() < end:
                turn += 1
                file = ("lesion.jpg", pictures[turn % len(pictures)], "image/jpeg")
                start = time.monotonic()
                try:
                    answer = await http.post("/api/v1/predict", files={"files": file})
                    if answer.status_code != 200 or len(answer.json()["cases"]) != 1:
                        errors.append(f"status {answer.status_code}")
                except httpx.HTTPError as error:
                    errors.append(type(error).__name__)
                times.append(time.monotonic() - start)

    await asyncio.gather(*(client(number) for number in range(IN_FLIGHT)))
    async with httpx.AsyncClient(base_url=address, timeout=60) as http:
        recorded = (await http.get("/api/v1/health")).json()["cases"]
    p50, p95, p99 = np.quantile(times, [0.5, 0.95, 0.99])
    return {
        "seconds": seconds,
        "workers": WORKERS,
        "in_flight": IN_FLIGHT,
        "cores": len(os.sched_getaffinity(0)),
        "requests": len(times),
        "errors": len(errors),
        "kinds_of_errors": sorted(set(errors)),
        "cases_recorded": recorded,
        "requests_per_second": round(len(times) / seconds, 1),
        "latency_seconds": {"p50": round(p50, 3), "p95": round(p95, 3), "p99": round(p99, 3)},
    }


def main() -> None:
    """Start a server, load it, write what happened."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--out", type=Path, default=HERE / "records" / "load.json")
    arguments = parser.parse_args()
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory() as data:
        command = [sys.executable, "-m", "temperance_skin_lesion", "serve", "--data", data]
        command += ["--port", str(port), "--workers", str(WORKERS)]
        busy = os.getloadavg()[0]  # by others, before anything is asked of the server
        server = subprocess.Popen(command, start_new_session=True)  # noqa: S603 - our own
        try:
            address = f"http://127.0.0.1:{port}"
            first_page = wait_for(address)
            found = asyncio.run(load(address, arguments.seconds))
            found["first_page_seconds"] = round(first_page, 1)
            found["load_of_others"] = round(busy, 1)
            found["niceness"] = os.nice(0)
        finally:
            os.killpg(server.pid, signal.SIGTERM)
            server.wait()
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps(found, indent=1) + "\n", "utf-8")
    print(json.dumps(found, indent=1))
    sys.exit(1 if found["errors"] or found["cases_recorded"] != found["requests"] else 0)


def wait_for(address: str, seconds: float = 300) -> float:
    """Wait until the server answers; return how long that took."""
    start = time.monotonic()
    while True:
        try:
            httpx.get(f"{address}/api/v1/health")
        except httpx.TransportError:
            if time.monotonic() > start + seconds:
                raise
            time.sleep(0.1)
        else:
            return time.monotonic() - start


if __name__ == "__main__":
    main()
