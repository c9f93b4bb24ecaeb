"""Generated pages are up to date and cover everything; documents name only what exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gitops.cli import documentation
from gitops.cli.application import application
from gitops.cli.exits import Exit
from gitops.metrics import PrometheusMetrics
from gitops.settings import known_settings

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"


@pytest.mark.parametrize("name", sorted(documentation.pages(DOCS)))
def test_generated_page_is_up_to_date(name: str) -> None:
    text = (DOCS / name).read_text(encoding="utf-8")
    assert text == documentation.pages(DOCS)[name], "run: python scripts/generate_docs.py"


def test_every_setting_has_a_meaning() -> None:
    page = documentation.settings_page()
    for name in known_settings():
        section = page.partition(f"### {name}\n")[2].partition("\n#")[0]
        assert "default:" in section, name
        assert len(section.strip().partition("\n\n")[2]) > 15, name


def test_every_exit_code_has_a_meaning() -> None:
    assert all(code.meaning for code in Exit)


def test_every_metric_is_described() -> None:
    described = list(PrometheusMetrics().described())
    assert len(described) > 10
    assert all(name.startswith("gitops_") and text for name, _, _, text in described)


COMMANDS = re.compile(r"`gitops ([a-z]+)")


@pytest.mark.parametrize("name", ["README.md", "docs/architecture.md"])
def test_documents_name_only_what_exists(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    known = {entry.name for entry in (*application.registered_commands, *application.registered_groups)}
    assert set(COMMANDS.findall(text)) <= known
    for link in re.findall(r"\]\(([^)#:]+)\)", text):
        assert ((ROOT / name).parent / link).exists(), f"{name} links to {link}"
    for target in re.findall(r"(?:^|`)make ([a-z]+)(?=`| +#)", text, re.MULTILINE):
        assert f"\n{target}:" in (ROOT / "Makefile").read_text(encoding="utf-8"), target


def test_readme_lists_every_command() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for command in (*application.registered_commands, *application.registered_groups):
        assert f"| `gitops {command.name} " in text or f"| `gitops {command.name}`" in text, command.name
