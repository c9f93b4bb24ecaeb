"""`python -m controlplane_kit build [--if-possible]` builds the control plane; `where` prints the folder it is in."""

import argparse
import sys

from controlplane_kit import binaries


def main() -> int:
    """Exit codes: 0 done (or left out with --if-possible), 1 not possible."""
    parser = argparse.ArgumentParser(prog="controlplane_kit", description=__doc__)
    parser.add_argument("command", choices=["build", "where"])
    parser.add_argument("--if-possible", action="store_true", help="exit 0 with one line when there is no Go")
    arguments = parser.parse_args()
    try:
        found = binaries.obtain() if arguments.command == "build" else binaries.locate()
    except binaries.BinariesMissing as error:
        print(f"controlplane: {error}", file=sys.stderr)
        return 0 if arguments.if_possible else 1
    if found is None:
        print("controlplane: not built yet", file=sys.stderr)
        return 1
    print(found.folder)
    return 0


sys.exit(main())
