"""Published win rates on SMAC's maps, which ``benchmarks.calibrate`` compares with its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

PAPER, PYMARL2, BETA = "SMAC paper", "PyMARL2", "first QMIX paper"

SOURCES: Mapping[str, str] = {
    PAPER: "Samvelyan et al. 2019, StarCraft 4.6.2, 2 million steps, medians",
    PYMARL2: "Hu et al. 2021, README of PyMARL2, StarCraft 4.10, about 10 million steps",
    BETA: "Rashid et al. 2018, about StarCraft 4.1.2, earlier maps and another script",
}


class Anchor(NamedTuple):
    """One published win rate in percent."""

    source: str
    map_name: str
    player: str  # heuristic, or the algorithm that learned
    win: int
    confidence: str
    comparable: bool = True  # played on the maps of today by the script of today


HEURISTIC_CONFIDENCE: Mapping[str, str] = {
    "2s3z": "medium: quoted from memory",
    "1c3s5z": "medium: quoted from memory",
    "3s5z": "medium: quoted from memory",
    "10m_vs_11m": "medium: quoted from memory",
    "bane_vs_bane": "medium: quoted from memory",
    "MMM2": "medium: quoted from memory",
    "6h_vs_8z": "medium: quoted from memory",
    "corridor": "medium: quoted from memory",
    "27m_vs_30m": "high: confirmed by an index of results",
    "3s5z_vs_3s6z": "high: confirmed by an index of results",
}

_HEURISTIC = {
    "2s3z": 90,
    "1c3s5z": 81,
    "3s5z": 42,
    "10m_vs_11m": 12,
    "bane_vs_bane": 43,
    "27m_vs_30m": 0,
    "3s5z_vs_3s6z": 0,
    "MMM2": 0,
    "6h_vs_8z": 0,
    "corridor": 0,
}

_BETA = {"3m": 76, "8m": 95, "2s3z": 82, "3s5z": 45, "1c3s5z": 70}

_LEARNED = {  # IQL, VDN, QMIX
    "2s_vs_1sc": (100, 100, 100),
    "2s3z": (75, 97, 99),
    "3s5z": (10, 84, 97),
    "1c3s5z": (21, 91, 97),
    "10m_vs_11m": (34, 97, 97),
    "2c_vs_64zg": (7, 21, 58),
    "bane_vs_bane": (99, 94, 85),
    "5m_vs_6m": (49, 70, 70),
    "3s_vs_5z": (45, 91, 87),
    "3s5z_vs_3s6z": (0, 2, 2),
    "6h_vs_8z": (0, 0, 3),
    "27m_vs_30m": (0, 0, 49),
    "MMM2": (0, 1, 69),
    "corridor": (0, 0, 1),
}

_PYMARL2 = {  # QMIX with batches of 128 episodes
    "8m_vs_9m": 84,
    "5m_vs_6m": 84,
    "3s_vs_5z": 96,
    "bane_vs_bane": 100,
    "2c_vs_64zg": 100,
    "corridor": 0,
    "MMM2": 98,
    "3s5z_vs_3s6z": 3,
    "27m_vs_30m": 56,
    "6h_vs_8z": 0,
}

ANCHORS: tuple[Anchor, ...] = (
    *(
        Anchor(PAPER, name, "heuristic", win, HEURISTIC_CONFIDENCE[name])
        for name, win in _HEURISTIC.items()
    ),
    *(
        Anchor(BETA, name, "heuristic", win, "low: quoted from memory", comparable=False)
        for name, win in _BETA.items()
    ),
    *(
        Anchor(PAPER, name, player, win, "high: repeated by a second source")
        for name, row in _LEARNED.items()
        for player, win in zip(("IQL", "VDN", "QMIX"), row, strict=True)
    ),
    *(Anchor(PYMARL2, name, "QMIX", win, "high") for name, win in _PYMARL2.items()),
)


def heuristic_anchors() -> dict[str, int]:
    """Comparable win rates of SMAC's heuristic policy by map: those of the criterion."""
    rows = (a for a in ANCHORS if a.player == "heuristic" and a.comparable)
    return {a.map_name: a.win for a in rows}
