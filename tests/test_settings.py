"""Settings: priority of their sources, mistakes told by name, no secret as a value."""

from __future__ import annotations

from pathlib import Path

import pytest

from gitops.settings import Settings, SettingsError, known_settings, load_settings, parse_duration, split_listen


def test_defaults_need_nothing() -> None:
    settings = load_settings(environ={})
    assert settings.poll_interval == 60
    assert settings.webhook.secret_file is None
    assert settings.state_dir == Path.home() / ".local/state/gitops"


def test_flags_win_over_environment_over_file_over_defaults(tmp_path: Path) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text(
        "repository: {url: 'https://file.example/x', branch: file}\nlisten: 127.0.0.1:1\nlog: {level: error}\n"
    )
    environ = {"GITOPS_REPOSITORY__BRANCH": "env", "GITOPS_LISTEN": "127.0.0.1:2", "HOME": "/x"}
    settings = load_settings(config=file, environ=environ, flags={"listen": "127.0.0.1:3", "path": None})
    assert settings.repository.url == "https://file.example/x"
    assert settings.repository.branch == "env"
    assert settings.listen == "127.0.0.1:3"
    assert settings.log.level == "error"
    assert settings.log.format == "auto"
    assert settings.poll_interval == 60


def test_file_may_be_named_by_the_environment(tmp_path: Path) -> None:
    file = tmp_path / "s.yaml"
    file.write_text("poll_interval: 1m30s\n")
    assert load_settings(environ={"GITOPS_CONFIG": str(file)}).poll_interval == 90


def test_environment_values_are_text_and_still_typed() -> None:
    environ = {"GITOPS_PARALLEL_UNITS": "8", "GITOPS_WEBHOOK__RATE": "0.5", "GITOPS_REPOSITORY__ALLOW_HTTP": "true"}
    settings = load_settings(environ=environ)
    assert (settings.parallel_units, settings.webhook.rate, settings.repository.allow_http) == (8, 0.5, True)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("poll_intervall: 3s", "unknown setting poll_intervall; did you mean poll_interval?"),
        ("repository: {urll: x}", "unknown setting repository.urll; did you mean repository.url?"),
        ("zzz: 1", "unknown setting zzz; docs/settings.md lists all"),
        ("poll_interval: soon", "poll_interval: write a duration as 30s"),
        ("poll_interval: 0", "poll_interval: Input should be greater than 0"),
        ("poll_interval: .inf", "poll_interval: Input should be a finite number"),
        ("listen: 8080", "listen: write text; put quotes around a number"),
        ("parallel_units: 0", "parallel_units: "),
        ("- a", "must be a map of settings"),
        ("a: [", "not valid YAML"),
        ("log: {level: loud}", "log.level: "),
        ("repository: https://x", "repository: write a map of its settings"),
        ("path: a\npath: b", "line 2: path is written twice"),
        ("log: {level: info, level: debug}", "line 1: level is written twice"),
        ("{[a]: 1}", "not valid YAML"),
        ("repository: {url: 'https://bot:s3cr3t@git.example/x'}", "repository.url: holds a password"),
    ],
)
def test_mistakes_in_the_file_are_told_by_name(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text(text)
    with pytest.raises(SettingsError) as caught:
        load_settings(config=file, environ={})
    assert str(caught.value).startswith(f"{file}: ")
    assert message in str(caught.value)
    assert "s3cr3t" not in str(caught.value)


def test_every_mistake_is_told_with_its_source() -> None:
    with pytest.raises(SettingsError) as caught:
        load_settings(environ={"GITOPS_PARALLEL_UNITS": "many"}, flags={"listen": "nowhere", "log.format": "xml"})
    told = str(caught.value).splitlines()
    assert [line.partition(": ")[0] for line in told] == ["flags", "environment", "flags"]


def test_file_that_is_missing_is_a_settings_error(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="cannot be read"):
        load_settings(config=tmp_path / "none.yaml", environ={})


def test_near_miss_in_the_environment_is_an_error() -> None:
    with pytest.raises(SettingsError, match="GITOPS_POLL_INTERVALL; did you mean GITOPS_POLL_INTERVAL"):
        load_settings(environ={"GITOPS_POLL_INTERVALL": "3"})


def test_variables_that_kubernetes_adds_for_services_are_left_alone() -> None:
    """A Service `gitops` and one `gitops-webhook` in the pod's namespace."""
    environ = {
        "GITOPS_PORT": "tcp://10.0.0.1:80",
        "GITOPS_SERVICE_HOST": "10.0.0.1",
        "GITOPS_SERVICE_PORT_HTTP": "80",
        "GITOPS_PORT_80_TCP_ADDR": "10.0.0.1",
        "GITOPS_WEBHOOK_PORT": "tcp://10.0.0.2:80",
        "GITOPS_WEBHOOK_SERVICE_HOST": "10.0.0.2",
    }
    assert load_settings(environ=environ) == load_settings(environ={})


def test_repository_and_folder_exclude_each_other() -> None:
    with pytest.raises(SettingsError, match=r"^settings: repository\.url and path exclude each other"):
        load_settings(environ={}, flags={"repository.url": "https://x.example/y", "path": "/z"})


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("30s", 30), ("1m30s", 90), ("12h", 43200), ("500ms", 0.5), ("1h500ms", 3600.5), ("2.5", 2.5), ("1.5m", 90)],
)
def test_durations(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "s", "30 s", "1s1m", "-3s", "1d", "30sec"])
def test_durations_that_are_none(text: str) -> None:
    with pytest.raises(ValueError, match="duration"):
        parse_duration(text)


def test_negative_number_of_seconds_is_refused() -> None:
    with pytest.raises(SettingsError, match="greater than 0"):
        load_settings(environ={}, flags={"poll_interval": "-3"})


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("127.0.0.1:80", ("127.0.0.1", 80)),
        (":0", ("0.0.0.0", 0)),
        ("[::1]:65535", ("::1", 65535)),
        ("host:1", ("host", 1)),
    ],
)
def test_listen_address(text: str, parts: tuple[str, int]) -> None:
    assert split_listen(text) == parts


@pytest.mark.parametrize("text", ["", "8080", "host:", "host:70000", "::1:80", "host:http"])
def test_listen_addresses_that_are_none(text: str) -> None:
    with pytest.raises(ValueError, match=r"127\.0\.0\.1|bracket"):
        split_listen(text)


def test_secrets_are_only_ever_files() -> None:
    secret_words = ("password", "token", "secret", "key", "passphrase")
    names = [n for n in known_settings() if any(w in n.rpartition(".")[2] for w in secret_words)]
    assert len(names) == 5
    assert all(name.endswith("_file") for name in names)


def test_settings_cannot_be_changed_afterwards() -> None:
    settings = load_settings(environ={})
    with pytest.raises(ValueError, match="frozen"):
        settings.listen = "x"  # type: ignore[misc]
    assert isinstance(settings, Settings)


def test_schemas_are_files_and_folders(tmp_path: Path) -> None:
    """In the environment and with --set they are separated as in PATH."""
    wanted = [tmp_path / "a.yaml", tmp_path / "b"]
    for given in ([str(path) for path in wanted], ":".join(map(str, wanted))):
        assert load_settings(flags={"schemas": given}, environ={}).schemas == wanted
    assert load_settings(flags={}, environ={"GITOPS_SCHEMAS": str(wanted[0])}).schemas == wanted[:1]
    assert load_settings(flags={}, environ={}).schemas == []
