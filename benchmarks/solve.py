"""Training results: several seeds on a map, run to the end, left alone, and put into a table.

    python -m benchmarks.solve run 3m:1-5 8m:1-3 vdn:2s3z:1
    python -m benchmarks.solve table 3m 8m

`run` trains two at a time, one thread each; finished runs are skipped, interrupted ones resumed.
Every run is the command it prints: the default settings but for map, seed and one thread. `table`
prints what is there and draws docs/solve.png.
"""

from __future__ import annotations

import sys
from pathlib import Path

from benchmarks.runs import folders, record_of, run_all, seed_of, seeds
from rltrain.logger.curve import rows, series

OUTPUT = Path("outputs/solve")
THRESHOLD = 0.95
IN_A_ROW = 3


def solved_at(steps: list[int], wins: list[float]) -> int | None:
    """Env steps at the third test in a row with a win rate of 95 % or more."""
    for i in range(IN_A_ROW, len(wins) + 1):
        if min(wins[i - IN_A_ROW : i]) >= THRESHOLD:
            return steps[i - 1]
    return None


def table(algo: str, map_name: str) -> str:
    """A Markdown table of all seeds of a map."""
    lines = [
        "| map | seed | env steps | solved at | mean of the last 10 tests | best test | minutes |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    last = []
    for folder in folders(OUTPUT, f"{algo}-{map_name}"):
        record = record_of(folder)
        steps, wins = series(rows(folder / "metrics.jsonl"), "test/win_rate")
        at = solved_at(steps, wins)
        last.append(sum(wins[-10:]) / len(wins[-10:]))
        lines.append(
            f"| {map_name} | {seed_of(folder)} | {record['env_steps']:,} | "
            f"{'never' if at is None else f'{at:,}'} | {last[-1]:.1%} | {max(wins):.1%} | "
            f"{record['seconds'] / 60:.0f} |"
        )
    lines.append(f"| {map_name} | all | | | {sum(last) / len(last):.1%} | | |")
    return "\n".join(lines)


def draw(algo: str, map_names: list[str], path: Path) -> None:
    """Win rates of every seed, and their mean, over env steps."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.ticker import EngFormatter

    figure = Figure(figsize=(4.4 * len(map_names), 3.2), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(1, len(map_names), sharey=True, squeeze=False)[0]
    for axes, map_name in zip(panels, map_names, strict=True):
        curves = []
        for folder in folders(OUTPUT, f"{algo}-{map_name}"):
            steps, wins = series(rows(folder / "metrics.jsonl"), "test/win_rate")
            axes.plot(steps, wins, color="C0", alpha=0.25, linewidth=1)
            curves.append(wins)
        shortest = min(map(len, curves))
        mean = [sum(c[i] for c in curves) / len(curves) for i in range(shortest)]
        axes.plot(steps[:shortest], mean, color="C0", linewidth=2, label="mean of the seeds")
        axes.set_title(f"{algo} on {map_name}, {len(curves)} seeds", fontsize=10)
        axes.set_xlabel("environment steps")
        axes.xaxis.set_major_formatter(EngFormatter(sep=""))
        axes.grid(alpha=0.3)
        axes.set_ylim(-0.03, 1.03)
    panels[0].set_ylabel("test win rate")
    panels[0].legend(frameon=False, loc="lower right")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)


def jobs(words: list[str]) -> list[tuple[Path, list[str]]]:
    """``vdn:3m:1-5`` to five folders and what is typed for them; without a name it is qmix."""
    out = []
    for word in words:
        *names, map_name, numbers = word.split(":")
        algo = names[0] if names else "qmix"
        for seed in seeds(numbers):
            typed = [f"algo={algo}", "env=smac", f"env.map_name={map_name}", f"seed={seed}"]
            out.append((OUTPUT / f"{algo}-{map_name}-s{seed}", typed))
    return out


def main() -> None:
    if len(sys.argv) < 3 or sys.argv[1] not in ("run", "table"):
        sys.exit(__doc__)
    if sys.argv[1] == "run":
        run_all(jobs(sys.argv[2:]))
    else:
        for map_name in sys.argv[2:]:
            print(table("qmix", map_name), end="\n\n")
        draw("qmix", sys.argv[2:], Path("docs/solve.png"))


if __name__ == "__main__":
    main()
