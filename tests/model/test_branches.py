"""Branch names: those that Git takes, but for what a program could take for something else."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pygit2 import reference_is_valid_name

from gitops.model.branches import is_branch_name

_PARTS = st.sampled_from(
    ["a", "lock", ".lock", ".", "..", "/", "@", "{", "-", "refs/", "heads/", "é", "~", "\\", " ", "\x7f"]
)


def taken_by_git(name: str) -> bool:
    try:
        return bool(reference_is_valid_name(f"refs/heads/{name}"))
    except ValueError:  # a null character
        return False


@given(st.lists(_PARTS, max_size=6).map("".join) | st.text(max_size=6))
@example("a.lock/b")
@example("a/.b")
@example("@")
@example("a@{b")
def test_names_are_those_that_git_takes(name: str) -> None:
    ours = re.search(r"^-|^refs/|[+:*]|^@$", name) or not name
    assert is_branch_name(name) == (taken_by_git(name) and not ours)


@pytest.mark.parametrize("name", ["gitops-status", "team/a.b", "v1.2", "été", "a@b", "x-"])
def test_usual_names(name: str) -> None:
    assert is_branch_name(name)
