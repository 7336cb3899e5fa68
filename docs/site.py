"""Additions to the documentation site: settings, API reference, linked files, formulas.

MkDocs calls the functions ``on_…`` while it builds the site (``hooks`` in mkdocs.yml).
"""

from __future__ import annotations

import html
import importlib
import posixpath
import re
from collections.abc import Iterator
from pathlib import Path

from latex2mathml.converter import convert
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.pages import Page

from rltrain.config.catalog import Catalog

ROOT = Path(__file__).parents[1]
COPIED = {
    "README.md": "index.md",
    "docs/index.md": "overview.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "CHANGELOG.md": "changelog.md",
    "rltrain/battles/README.md": "battle_package.md",
}
"""Pages with another name on the site; the README is its home."""
GROUPS = {"algorithms": "algo", "environments": "env"}
"""Folders with a page for each choice of a configuration group."""
REFERENCE = {
    "rltrain": "Python interface",
    "rltrain.algo": "Algorithms",
    "rltrain.env": "Environments",
    "rltrain.env.smac": "SMAC",
    "rltrain.battles": "Battles",
    "rltrain.buffer": "Buffers",
    "rltrain.callback": "Callbacks",
    "rltrain.interfaces": "Interfaces",
    "rltrain.types": "Types",
    "rltrain.migrate": "Other libraries",
}
"""Modules of the API reference."""
LINK = re.compile(r"(?<=\]\()([^)#:\s]+)(?=[)#])")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Fill the sections of the navigation that list a folder."""
    for section in config.nav or []:
        for title, pages in section.items():
            if pages == []:
                pages += sorted(_section(title.lower()), key=lambda page: "index.md" not in page)
    return config


def _section(folder: str) -> list[str]:
    if folder == "reference":
        return [f"reference/{module}.md" for module in REFERENCE]
    return [f"{folder}/{path.name}" for path in sorted((ROOT / "docs" / folder).glob("*.md"))]


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are not in docs/: the reference, the repository's pages, linked files."""
    files.remove(files.src_uris["index.md"])
    for name, page in COPIED.items():
        text = (ROOT / name).read_text(encoding="utf-8")
        moved = text if name.startswith("docs/") else LINK.sub(_from_root, text)
        files.append(File.generated(config, page, content=moved))
    for path in (ROOT / "examples").glob("*.*"):
        name = path.relative_to(ROOT).as_posix()
        files.append(File.generated(config, name, abs_src_path=str(path)))
    seen: set[str] = set()  # a class that two modules name is on the page of the first
    for module, title in REFERENCE.items():
        members = [member for member in _members(module) if member not in seen]
        seen.update(members)
        text = f"# {title}: {module}\n\n" + "\n".join(members)
        files.append(File.generated(config, f"reference/{module}.md", content=text))
    for path in sorted(_linked_sources()):
        text = f"# {path}\n" + "".join(map(_code, sorted(_files(ROOT / path))))
        file = File.generated(
            config, f"source/{path}.md", content=text, inclusion=InclusionLevel.NOT_IN_NAV
        )
        files.append(file)
    return files


def _members(module: str) -> Iterator[str]:
    found = importlib.import_module(module)
    for name in getattr(found, "__all__", None) or [None]:
        owner = getattr(getattr(found, name), "__module__", module) if name else None
        yield f"::: {owner}.{name}\n" if name else f"::: {module}\n"


def _files(path: Path) -> list[Path]:
    return [path] if path.is_file() else [file for file in path.iterdir() if file.is_file()]


def _code(path: Path) -> str:
    language = path.suffix.removeprefix(".")
    return f'\n```{language} title="{path.name}"\n{path.read_text(encoding="utf-8")}```\n'


def _linked_sources() -> set[Path]:
    """The files and folders of code and configuration that pages link to."""
    found = set()
    for page in (ROOT / "docs").rglob("*.md"):
        for link in LINK.findall(page.read_text(encoding="utf-8")):
            path = (page.parent / link).resolve()
            if path.is_dir() or path.suffix in (".py", ".yaml"):
                found.add(path.relative_to(ROOT))
    return found


def _from_root(link: re.Match[str]) -> str:
    """A link of a page in the repository's root, for a page in docs/."""
    return COPIED.get(link[0], link[0].removeprefix("docs/"))


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Point links at pages of the site, and add the settings of a choice to its page."""
    here = posixpath.dirname(page.file.src_uri)

    def on_site(link: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join("docs", here, link[0]))
        place = COPIED.get(target, f"source/{target}.md")
        if target.startswith("docs/") and target not in COPIED:
            return link[0]
        return posixpath.relpath(place, here or ".")

    folder, _, name = page.file.src_uri.removesuffix(".md").partition("/")
    group = GROUPS.get(folder)
    settings = _settings(group, name) if group and name != "index" else ""
    return LINK.sub(on_site, markdown) + settings


def _settings(group: str, option: str) -> str:
    """A table of every key of a choice with its default and its comment."""
    catalog = Catalog()
    if option not in catalog.options(group):
        return ""
    keys = catalog.keys({group: option}, group)
    rows = [
        f"| `{path}` | `{key.value}` | {key.meaning.replace('|', '&#124;')} |"
        for path, key in keys.items()
        if path.startswith(f"{group}.") and not path.endswith("_target_")
    ]
    head = (
        f"\n## Settings of `{group}={option}`\n\n| key | default | meaning |\n| --- | --- | --- |\n"
    )
    return head + "\n".join(rows) + "\n" if rows else ""


def on_page_content(content: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Write formulas as MathML, which browsers draw without a script."""

    def mathml(found: re.Match[str]) -> str:
        inline = found["open"] == r"\("
        formula = html.unescape(found["formula"]).strip()
        made = str(convert(formula, display="inline" if inline else "block"))
        if unknown := re.search(r"\\[a-zA-Z]+", made):
            raise ValueError(f"{unknown[0]} in {formula}: latex2mathml does not know this command.")
        return made

    pattern = r'<(span|div) class="arithmatex">(?P<open>\\[(\[])(?P<formula>.*?)\\[)\]]</\1>'
    return re.sub(pattern, mathml, content, flags=re.DOTALL)
