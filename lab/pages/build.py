"""Build the generated pages, tables and figures of the manual into docs/_generated.

    python lab/pages/build.py

Everything is computed from committed records, so that a page cannot differ from its record; the
pictures of shifts are computed from images that come with Python packages. ``make docs`` runs it.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")

import elements
import few_labels
import gallery
import labelfree_tables
import monitoring_tables
import reproduction
import shift_pictures
import shifts_table
import skin_lesion_tables
import speed_tables
import uts_figure
import what_we_found

from temperance_lab.reproduce import EXPERIMENTS
from temperance_lab.reproduce.figures import FIGURES, draw

ROOT = Path(__file__).parents[2]
OUT = ROOT / "docs" / "_generated"
STUDIES = ROOT / "lab" / "experiments"


def main() -> None:
    """Write all of it anew."""
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir()
    records = reproduction.records()
    texts = {
        "reproduction.md": reproduction.reproduction(records),
        "what-we-found.md": what_we_found.what_we_found(records),
        "paper-elements.md": elements.page(records),
    }
    for tables in (
        few_labels,
        labelfree_tables,
        monitoring_tables,
        shifts_table,
        skin_lesion_tables,
        speed_tables,
    ):
        texts |= tables.tables()
    for name, text in texts.items():
        (OUT / name).write_text(text, encoding="utf-8")
    for name in FIGURES:
        experiment = name if name in EXPERIMENTS else name.rpartition("-")[0]
        draw(name, records[experiment], OUT / f"{name}.png")
    shift_pictures.build(OUT)
    gallery.build(OUT / "gallery")
    few_labels.figure(OUT / "few_labels.png")
    uts_figure.weight_map(OUT / "uts_weights.png")
    monitoring_tables.figure(OUT / "monitoring.png")
    skin_lesion_figures()


def skin_lesion_figures() -> None:
    """Draw the figures of the skin-lesion study."""
    sys.path.insert(0, str(STUDIES / "skin_lesion"))
    import figures

    sites = [skin_lesion_tables.read(name) for name in skin_lesion_tables.SITES]
    for site in sites:
        figures.site(site, OUT / f"skin_lesion_{site['site']}.png")
    figures.prior(sites, OUT / "skin_lesion_prior.png")
    figures.cases(skin_lesion_tables.read("cases"), OUT / "skin_lesion_cases.png")


if __name__ == "__main__":
    main()
