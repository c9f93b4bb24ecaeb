"""Writes the generated pages of docs/ from the code they describe. tests/test_docs.py fails when one is out of date.

python scripts/generate_docs.py
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from gitops.cli import documentation  # noqa: E402


def main() -> None:
    docs = ROOT / "docs"
    for name, text in documentation.pages(docs).items():
        path = docs / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            print(f"wrote docs/{name}")


if __name__ == "__main__":
    main()
