"""Pages of docs/ that are made from code, so that they cannot be wrong; what is for authors is in reference.py."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from gitops.cli import reference
from gitops.cli.errors_page import errors_page
from gitops.cli.exits import Exit
from gitops.cli.onboarding import onboarding_page
from gitops.cli.ownership import ownership_page
from gitops.metrics import PrometheusMetrics
from gitops.settings import CONFIG_VARIABLE, ENV_DELIMITER, ENV_PREFIX, Settings

_MADE = "<!-- Made by scripts/generate_docs.py; edit the code it names. -->\n"


def pages(docs: Path) -> dict[str, str]:
    """File name under the folder `docs` → its text."""
    documents = (docs / "documents.md").read_text(encoding="utf-8")
    return {
        "documents.md": reference.documents_page(documents),
        "errors.md": errors_page(_MADE),
        "exit-codes.md": exits_page(),
        "findings.md": reference.findings_page(),
        "metrics.md": metrics_page(),
        "onboarding.md": onboarding_page(docs / "operator-example.yaml"),
        "ownership.md": ownership_page(),
        "settings.md": settings_page(),
    }


def settings_page() -> str:
    """docs/settings.md, from the docstrings of gitops/settings.py."""
    lines = [
        "# Settings",
        "",
        _MADE,
        f"A YAML file (`--config FILE` or `{CONFIG_VARIABLE}`), environment variables and flags; flags win over the",
        "environment, the environment over the file. The name in the file is the heading below, in nested maps:",
        "",
        "```yaml",
        "repository:",
        "  url: https://git.example/ml/manifests.git",
        "  token_file: /etc/gitops/git/token",
        "credentials_dir: /etc/gitops/clusters",
        "poll_interval: 1m",
        "```",
        "",
        f"As a variable: `{ENV_PREFIX}` and the name in capitals, `{ENV_DELIMITER}` for the dot. As a flag:",
        "`--set NAME=VALUE`; common ones have flags of their own (`gitops run --help`). Durations are written as",
        "`30s`, `1m30s`, `12h`, `500ms` or a number of seconds. Secrets are never values: a setting names the file",
        "that holds one.",
        "",
    ]
    lines += _rows(Settings, "")
    return "\n".join(lines).rstrip() + "\n"


def _rows(model: type[BaseModel], prefix: str) -> list[str]:
    lines: list[str] = []
    groups: list[str] = []
    for name, info in model.model_fields.items():
        inner = info.annotation
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            groups += [f"## {name}", "", " ".join((inner.__doc__ or "").split()), "", *_rows(inner, f"{name}.")]
            continue
        full = prefix + name
        variable = ENV_PREFIX + full.replace(".", ENV_DELIMITER).upper()
        lines += [f"### {full}", "", f"`{variable}` · default: {_default(info)}", ""]
        lines += [" ".join((info.description or "").split()), ""]
    return lines + groups


def _default(info: FieldInfo) -> str:
    value: Any = info.default
    if value is None or value == ():
        return "none"
    if isinstance(value, float) and value >= 3600 and value % 3600 == 0:
        return f"`{value / 3600:g}h`"
    if isinstance(value, Path):
        return f"`{value.as_posix()}`"
    return f"`{value:g}`" if isinstance(value, float) else f"`{value}`"


def metrics_page() -> str:
    """docs/metrics.md, from gitops/metrics.py."""
    lines = [
        "# Metrics",
        "",
        _MADE,
        "At `/metrics`, in Prometheus' text format, beside the usual `process_*` and `python_*`. Histograms have",
        "`_bucket`, `_sum` and `_count`.",
        "",
        "| metric | type | labels | meaning |",
        "|---|---|---|---|",
    ]
    for name, kind, labels, text in PrometheusMetrics().described():
        lines.append(f"| `{name}` | {kind} | {', '.join(labels) or '–'} | {text} |")
    return "\n".join(lines) + "\n"


def exits_page() -> str:
    """docs/exit-codes.md, from gitops/cli/exits.py."""
    lines = ["# Exit codes", "", _MADE, "The same for every `gitops` command.", "", "| code | meaning |", "|---|---|"]
    lines += [f"| {code.value} | {code.meaning} |" for code in Exit]
    return "\n".join(lines) + "\n"
