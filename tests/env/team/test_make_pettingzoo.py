"""Ids of PettingZoo environments that cannot be imported."""

import pytest

from rltrain.env.team.make_pettingzoo import find_maker


@pytest.mark.parametrize("id", ["", ":Name", ".module:Name"])
def test_an_id_without_a_module_is_refused_with_what_is_expected(id):
    said = rf"env\.id={id} cannot be created: .*Expected an installed"
    with pytest.raises(ValueError, match=said):
        find_maker(id)


def test_a_module_that_fails_is_named_with_its_error(tmp_path, monkeypatch):
    (tmp_path / "broken_team.py").write_text("boats = 1 / 0\n")
    monkeypatch.chdir(tmp_path)
    said = r"broken_team:Boats cannot be created: ZeroDivisionError: d"
    with pytest.raises(ValueError, match=said):
        find_maker("broken_team:Boats")
