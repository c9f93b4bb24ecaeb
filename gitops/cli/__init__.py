"""The command line: one module per command.

Commands import what they need when they run: `gitops validate` in CI must neither load nor need a Kubernetes client,
and `gitops --help` answers at once. Exit codes are in exits.py.
"""

from __future__ import annotations


def main() -> None:
    """Entry point of the `gitops` command."""
    from gitops.cli.application import run_application

    run_application()
