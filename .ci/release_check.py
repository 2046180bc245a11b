"""Build the three distributions, look inside them, install each and run it.

``python .ci/release_check.py DIRECTORY`` leaves wheels and source archives in DIRECTORY, ready to
be uploaded, or stops with the first thing that is wrong. Needs `build` and `twine`.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
LARGEST = 25_000_000
DRAW = "from PIL import Image; Image.radial_gradient('L').convert('RGB').save('picture.png')"

# Folder, import name, files that must be inside, and a command for an environment of its own.
DISTRIBUTIONS = {
    "temperance": (
        ROOT,
        {"py.typed", "cli/demo_data/mnist_source.npz", "report/templates/report.html.jinja"},
        "[cli,report]",
        ["temperance", "demo"],
    ),
    "temperance_lab": (
        ROOT / "lab",
        {"reproduce/reported.json"},
        "",
        ["temperance-lab", "reproduce", "cost", "--quick"],
    ),
    "temperance_skin_lesion": (
        ROOT / "apps" / "skin_lesion",
        {"weights/LICENSE.md", "weights/model.json", "web/templates/base.html"},
        "",
        ["temperance-skin-lesion", "predict", "--data", "record", "picture.png"],
    ),
}


def run(*command: str | Path, cwd: str | None = None) -> None:
    """Run a command, or stop with what it wrote."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=cwd)  # noqa: S603
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")


def check_wheel(name: str, wheel: Path, needed: set[str]) -> None:
    """Stop where a wheel holds anything but its package, or lacks a file of it."""
    with zipfile.ZipFile(wheel) as archive:
        inside = archive.namelist()
        (metadata,) = (archive.read(f).decode() for f in inside if f.endswith("/METADATA"))
    broken = [link for link in re.findall(r"\]\(([^)]+)\)", metadata) if "://" not in link]
    if broken and name == "temperance":
        sys.exit(f"{wheel.name}: links of its README that lead nowhere, {broken[:5]}")
    own = (f"{name}/", f"{name}-", f"{name}_command.py")  # the last starts the command
    strangers = [f for f in inside if not f.startswith(own)]
    tests = [f for f in inside if Path(f).name.startswith(("test_", "conftest"))]
    missing = [f for f in needed if f"{name}/{f}" not in inside]
    licences = [f for f in inside if ".dist-info/licenses/" in f]
    if strangers or tests or missing or not licences:
        sys.exit(f"{wheel.name}: {strangers=} {tests=} {missing=} {licences=}")
    if wheel.stat().st_size > LARGEST:
        sys.exit(f"{wheel.name} has {wheel.stat().st_size:,} bytes; at most {LARGEST:,}")


def check_sdist(sdist: Path) -> None:
    """Stop where a source archive holds no licence, or what belongs to one machine."""
    with tarfile.open(sdist) as archive:
        inside = archive.getnames()
    built = [f for f in inside if {"__pycache__", "_build", ".git"} & set(Path(f).parts)]
    if built or not any(Path(f).name == "LICENSE" for f in inside):
        sys.exit(f"{sdist.name}: {built[:5]=}, or no LICENSE")


def install_and_run(wheel: Path, extra: str, command: list[str], built: Path) -> None:
    """Install a wheel into an empty environment and run its command there."""
    with tempfile.TemporaryDirectory() as place:
        run(sys.executable, "-m", "venv", place)
        pip = [f"{place}/bin/python", "-m", "pip", "install", "-q", "--find-links", str(built)]
        if not wheel.name.startswith("temperance-"):
            run(*pip, "torch==2.13.0")  # first and pinned, as everywhere
        run(*pip, f"{wheel}{extra}")
        if "picture.png" in command:
            run(f"{place}/bin/python", "-c", DRAW, cwd=place)
        run(f"{place}/bin/{command[0]}", *command[1:], cwd=place)


def main(built: Path) -> None:
    """Check all three distributions."""
    for folder, *_ in DISTRIBUTIONS.values():
        run(sys.executable, "-m", "build", "--outdir", built, folder)
    run(sys.executable, "-m", "twine", "check", "--strict", *sorted(built.iterdir()))
    for name, (_, needed, extra, command) in DISTRIBUTIONS.items():
        (wheel,), (sdist,) = built.glob(f"{name}-*.whl"), built.glob(f"{name}-*.tar.gz")
        check_wheel(name, wheel, needed)
        check_sdist(sdist)
        install_and_run(wheel, extra, command, built)
        print(f"{wheel.name}: {wheel.stat().st_size:,} bytes; {' '.join(command)} runs")


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
