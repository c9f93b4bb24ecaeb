from pathlib import Path

import pytest

from gitops.cluster.credentials import Credentials, CredentialsFolder, MissingCredentials


@pytest.mark.parametrize("file", ["dgx-a", "dgx-a.yaml", "dgx-a.kubeconfig"])
def test_finds_a_kubeconfig_by_name(tmp_path: Path, file: str) -> None:
    (tmp_path / file).write_text("x")
    folder = CredentialsFolder(tmp_path)
    found = folder.find("dgx-a")
    assert isinstance(found, Credentials)
    assert found.path == tmp_path / file
    assert folder.names() == ("dgx-a",)


@pytest.mark.parametrize("name", ["../x", "a/b", "/etc/passwd", "", ".", "..", "A", "a" * 64, "a\n", "a.yaml", "x\0"])
def test_a_name_never_leads_out_of_the_folder(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "credentials"
    folder.mkdir()
    (tmp_path / "x").write_text("secret")
    (folder / "a.yaml.yaml").write_text("x")
    assert isinstance(CredentialsFolder(folder).find(name), MissingCredentials)


def test_missing_is_a_value_with_a_sentence(tmp_path: Path) -> None:
    missing = CredentialsFolder(tmp_path / "nowhere").find("dgx-a")
    assert isinstance(missing, MissingCredentials)
    assert "dgx-a" in missing.sentence
    assert CredentialsFolder(tmp_path / "nowhere").names() == ()
    (tmp_path / "dgx-b").mkdir()
    assert isinstance(CredentialsFolder(tmp_path).find("dgx-b"), MissingCredentials)


def test_a08_a_changed_file_is_noticed(tmp_path: Path) -> None:
    # As a mounted Secret does it: `..data` is a link that moves to a new folder.
    for version in ("one", "two"):
        (tmp_path / version).mkdir()
        (tmp_path / version / "dgx-a").write_text(version)
    (tmp_path / "..data").symlink_to("one")
    (tmp_path / "dgx-a").symlink_to("..data/dgx-a")
    folder = CredentialsFolder(tmp_path)
    known = folder.find("dgx-a")
    assert isinstance(known, Credentials)
    assert not folder.changed(known)
    (tmp_path / "..data").unlink()
    (tmp_path / "..data").symlink_to("two")
    assert folder.changed(known)
    (tmp_path / "dgx-a").unlink()
    assert folder.changed(known)
