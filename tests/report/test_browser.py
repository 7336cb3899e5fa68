"""The page in a browser: it draws and fits, on narrow and wide screens."""

import html
import json
import re
import shutil
import subprocess

import pytest

from tests.report.test_page import page

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
WIDTHS = (360, 768, 1600)
MEASURE = """
const found = [...document.querySelectorAll("iframe")].map(frame => {
  const page = frame.contentDocument, root = page.documentElement;
  const color = frame.contentWindow.getComputedStyle(page.body).backgroundColor;
  const figures = [...page.images].filter(image => image.naturalWidth > 0).length;
  return {width: root.clientWidth, needs: root.scrollWidth, figures, color};
});
document.title = JSON.stringify(found);
"""


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")
@pytest.mark.parametrize(("dark", "color"), [(1, "rgb(255, 255, 255)"), (0, "rgb(20, 23, 27)")])
def test_page_fits_every_screen(tmp_path, dark, color):
    text = html.escape(page(tmp_path, env="an environment of a long name " * 4))
    frames = "".join(f'<iframe width={w} height=900 srcdoc="{text}"></iframe>' for w in WIDTHS)
    script = f"<script>onload = () => {{ {MEASURE} }}</script>"
    harness = f"<!doctype html><style>iframe {{ border: 0 }}</style>{script}{frames}"
    (tmp_path / "screens.html").write_text(harness, encoding="utf-8")
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--dump-dom"]
    options += [f"--blink-settings=preferredColorScheme={dark}", f"--user-data-dir={tmp_path}/p"]
    command = [CHROMIUM, *options, f"file://{tmp_path}/screens.html"]
    shown = subprocess.run(command, capture_output=True, text=True, timeout=120).stdout
    (found,) = re.findall("<title>(.*?)</title>", shown.partition("<iframe")[0])
    assert json.loads(found) == [
        {"width": w, "needs": w, "figures": 5, "color": color} for w in WIDTHS
    ]
