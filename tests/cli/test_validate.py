"""`gitops validate`: exit codes, places, formats, and what it must not import."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SPEC = "functions/llama-chat/deployment.yaml"


@pytest.fixture
def broken(template: Path) -> Path:
    file = template / SPEC
    file.write_text(file.read_text().replace("minInstances: 2", 'minInstances: "two"'))
    return template


def test_template_is_fine(gitops: Any, template: Path) -> None:
    result = gitops("validate", template)
    assert (result.code, result.err) == (0, "")
    assert result.out.endswith("5 units on 2 clusters\n")


def test_error_names_file_and_line_and_shows_it(gitops: Any, broken: Path) -> None:
    result = gitops("validate", broken)
    assert result.code == 1
    lines = result.out.splitlines()
    number = next(i for i, line in enumerate((broken / SPEC).read_text().splitlines(), 1) if '"two"' in line)
    at = next(i for i, line in enumerate(lines) if line.startswith(f"{SPEC}:{number}: error GO"))
    assert lines[at + 1] == f'{number:>5} |       minInstances: "two" # in total, spread over the clusters that fit'
    assert lines[at + 2] == "      |       ^^^^^^^^^^^^"
    assert lines[at + 3].startswith("   hint: ")
    assert "1 error" in lines[-1]


TOKEN = "nvapi-" + "k" * 60


@pytest.mark.parametrize(
    "text",
    [
        f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: c, namespace: platform}}\ndata:\n  key: {TOKEN}\n",
        f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: c}}\ndata:\n  key: a\n  key: {TOKEN}\n",
        "apiVersion: v1\nkind: Secret\nmetadata: {name: c, namespace: platform}\ndata: {key: aHVudGVyMg==}\n",
    ],
    ids=["credential", "another error on the line of a credential", "data of a Secret"],
)
def test_a_line_with_a_secret_is_named_and_not_shown(gitops: Any, template: Path, text: str) -> None:
    (template / "bundles/platform-base/manifests/leak.yaml").write_text(text)
    for format in ("text", "json", "sarif", "markdown"):
        result = gitops("validate", template, "--format", format)
        assert result.code == 1
        assert "bundles/platform-base/manifests/leak.yaml" in result.out
        assert TOKEN not in result.out
        assert "aHVudGVyMg==" not in result.out


def test_x01_values_of_secrets_in_a_document_are_not_shown(gitops: Any, template: Path) -> None:
    file = template / "functions/embed/function.yaml"
    file.write_text(file.read_text() + "  secrets: [{name: KEY, value: hunter2}]\n")
    for format in ("text", "json", "sarif", "markdown"):
        result = gitops("validate", template, "--format", format)
        assert result.code == 1
        assert "GO4204" in result.out
        assert "hunter2" not in result.out


def test_what_authors_write_cannot_command_a_terminal_or_a_ci_system(gitops: Any, template: Path) -> None:
    with (template / SPEC).open("a") as file:
        file.write('"\\e[31m\\n::error::forged": 1\n')
    result = gitops("validate", template)
    assert result.code == 1
    assert "\x1b" not in result.out
    assert not any(line.startswith("::") for line in result.out.splitlines())


def test_json_has_stable_keys(gitops: Any, broken: Path) -> None:
    result = gitops("validate", broken, "--format", "json")
    assert result.code == 1
    body = json.loads(result.out)
    assert set(body) == {"complete", "units", "errors", "findings", "verdicts"}
    found = next(f for f in body["findings"] if f["severity"] == "error")
    assert set(found) == {"code", "severity", "file", "line", "message", "hint", "workload", "object", "path"}
    assert (found["file"], found["workload"]) == (SPEC, "function/llama-chat")


def test_other_workloads_are_still_counted(gitops: Any, broken: Path) -> None:
    assert json.loads(gitops("validate", broken, "-f", "json").out)["units"] == 3


@pytest.mark.parametrize("what", ["missing", "file"])
def test_folder_that_cannot_be_read_is_a_usage_error(gitops: Any, tmp_path: Path, what: str) -> None:
    (tmp_path / "file").write_text("x")
    result = gitops("validate", tmp_path / what)
    assert result.code == 2
    assert result.err.startswith("gitops: ")
    assert "Traceback" not in result.err


def test_folder_without_a_repository_document_has_a_finding(gitops: Any, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    result = gitops("validate", tmp_path / "empty")
    assert result.code == 1
    assert "gitops.yaml" in result.out


@pytest.mark.parametrize("format", ["text", "json", "sarif", "markdown"])
def test_every_format_has_the_same_exit_codes_and_findings(gitops: Any, template: Path, format: str) -> None:
    assert gitops("validate", template, "--format", format).code == 0
    for file in (SPEC, "functions/embed/deployment.yaml"):
        text = (template / file).read_text()
        (template / file).write_text(text.replace("minInstances:", "minInstance:"))
    (template / "bundles/platform-base/manifests/empty.yaml").write_text("")
    (template / "clusters/dgx-c.yaml").write_text("a: [")
    result = gitops("validate", template, "--format", format)
    assert (result.code, result.err) == (1, "")
    for file in (SPEC, "functions/embed/deployment.yaml", "manifests/empty.yaml", "clusters/dgx-c.yaml"):
        assert file in result.out
    assert gitops("validate", template, "--format", format).out == result.out
    assert gitops("validate", template / "none", "--format", format).code == 2


def test_sarif_names_the_line(gitops: Any, broken: Path) -> None:
    result = gitops("validate", broken, "--format", "sarif")
    run = json.loads(result.out)["runs"][0]
    (physical,) = [r["locations"][0]["physicalLocation"] for r in run["results"] if r["level"] == "error"]
    number = next(i for i, line in enumerate((broken / SPEC).read_text().splitlines(), 1) if '"two"' in line)
    assert physical == {
        "artifactLocation": {"uri": SPEC, "uriBaseId": "%SRCROOT%"},
        "region": {"startLine": number},
    }


def test_markdown_has_a_row_for_each_finding(gitops: Any, broken: Path) -> None:
    out = gitops("validate", broken, "--format", "markdown").out
    assert out.startswith("### gitops: 1 error, 3 info\n")
    assert f"| error | `{SPEC}:" in out


@pytest.mark.parametrize("command", ["validate", "plan"])
def test_types_that_the_settings_allow(gitops: Any, template: Path, tmp_path: Path, command: str) -> None:
    policy = template / "policies/validation/research.yaml"
    policy.write_text(f"{policy.read_text()}  extraKubernetesTypes: [{{group: batch, version: v1, kind: Job}}]\n")
    refused = gitops(command, template)
    assert refused.code == 1
    assert "batch/v1 Job is not among the daemon's extra_kubernetes_types" in refused.out
    assert gitops(command, template, "--set", "extra_kubernetes_types=v1/Pod, batch/v1/Job").code == 0
    (tmp_path / "settings.yaml").write_text("extra_kubernetes_types: [batch/v1/Job]\n")
    assert gitops(command, template, "--config", tmp_path / "settings.yaml").code == 0
    assert gitops(command, template, "--set", "extra_kubernetes_types=Job").code == 2


@pytest.mark.parametrize("command", ["validate", "plan"])
@pytest.mark.parametrize("format", ["xml", "", "TEXT"])
def test_unknown_format_is_a_usage_error(gitops: Any, template: Path, command: str, format: str) -> None:
    result = gitops(command, template, "--format", format)
    assert (result.code, result.out) == (2, "")
    assert "'json'" in result.err


@pytest.mark.parametrize("format", ["sarif", "markdown"])
def test_plan_has_text_and_json_only(gitops: Any, template: Path, format: str) -> None:
    assert gitops("plan", template, "--format", format).code == 2


def test_control_characters_of_a_file_do_not_reach_the_terminal(gitops: Any, template: Path) -> None:
    file = template / SPEC
    file.write_text(file.read_text().replace("minInstances: 2", 'minInstances: "\\e[31m" # \x85\u202e'))
    out = gitops("validate", template).out
    assert not any(c in out for c in "\x1b\x85\u202e")


@pytest.mark.parametrize("format", ["text", "sarif", "markdown"])
def test_neither_kubernetes_nor_asyncio_http_is_imported(template: Path, format: str) -> None:
    code = (
        "import sys; from gitops.cli.application import run_application\n"
        "try: run_application(['validate', sys.argv[1], '-f', sys.argv[2]])\n"
        "except SystemExit as end: assert not end.code, end.code\n"
        "print([m for m in ('kubernetes', 'aiohttp', 'apscheduler', 'prometheus_client') if m in sys.modules])"
    )
    command = [sys.executable, "-c", code, str(template), format]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=Path(__file__).resolve().parents[2])
    assert done.stdout.splitlines()[-1] == "[]", done.stderr
