"""Runs that the tests of several files play against."""

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def opponent(tmp_path_factory) -> Path:
    """A run on 3m."""
    from tests.integration.test_opponents import made

    folder = tmp_path_factory.mktemp("opponents") / "vdn-3m"
    trainer = made(folder)
    trainer.train()
    trainer.close()
    return folder
