import numpy as np

from rltrain.report.report_tables import Table, as_csv, as_latex, cell_text
from rltrain.report.statistics import Interval

E = Interval(np.array(12.345), np.array(1.0), np.array(20.0))
ALONE = Interval(np.array(3.0), np.array(np.nan), np.array(np.nan))


def test_cells_as_a_person_reads_them():
    cells = (E, ALONE, 0.1234, 123.45, 12345.6, np.inf, 50000, "dqn")
    expected = "12.35 [1.00, 20.00] | 3.00 | 0.123 | 123.5 | 12,346 | – | 50,000 | dqn"
    assert " | ".join(cell_text(cell) for cell in cells) == expected


def test_csv_has_all_digits_and_intervals_in_columns():
    table = Table("t", "", ["label", "score", "steps"], [["a,b", E, np.inf], ["=x", 1.5, 2.0]])
    assert as_csv(table).splitlines() == [
        "label,score,score low,score high,steps",
        '"a,b",12.345,1.0,20.0,',
        "'=x,1.5,,,2.0",
    ]


def test_latex_escapes_and_aligns():
    table = Table(
        "t", "", ["label", "95%"], [["dqn batch_size=32", 1.5], ["a > b|c<d\x1b[31m", 2.5]]
    )
    text = as_latex(table)
    assert (
        r"a \textgreater{} b\textbar{}c\textless{}d\textbackslash{}x1b[31m" in text
    )  # defect: ¿, — and ¡ in print
    assert r"\begin{tabular}{lr}" in text
    assert r"dqn batch\_size=32 & 1.50 \\" in text
    assert r"95\%" in text
