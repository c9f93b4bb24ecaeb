"""`python -m gitops.cli` is `gitops`."""

from gitops.cli import main

main()
