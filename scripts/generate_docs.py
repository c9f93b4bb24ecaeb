"""Writes the generated pages of docs/ from the code they describe. tests/test_docs.py fails when one is out of date.

python scripts/generate_docs.py
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

sys.path.insert(0, str(ROOT / "scripts"))

import findings  # noqa: E402

from gitops.cli import documentation  # noqa: E402


def main() -> None:
    pages = {ROOT / "docs" / name: text for name, text in documentation.pages().items()} | findings.pages()
    for path, text in pages.items():
        path.parent.mkdir(exist_ok=True)
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            print(f"wrote {path.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
