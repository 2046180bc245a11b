"""Print the oldest versions that pyproject.toml promises, as constraints for pip."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

# Extras of tools and frameworks are left out: their oldest versions exclude each other.
EXTRAS = ("cli", "fast", "parquet", "report")

project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
needed = [*project["dependencies"]]
for extra in EXTRAS:
    needed += project["optional-dependencies"][extra]
for requirement in needed:
    name, version = re.fullmatch(r"([\w.-]+)>=([\w.]+)", requirement).groups()
    print(f"{name}=={version}.*")
print("pyparsing<3.3")  # whose later versions warn of the oldest matplotlib
