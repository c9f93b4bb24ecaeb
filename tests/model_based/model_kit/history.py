"""What follows from a story's commits: what must be live, what may go, which commit a unit may say. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field

from model_kit.declaring import Entry, Tree


@dataclass(slots=True)
class History:
    """The commits of a story, oldest first."""

    commits: list[tuple[str, Tree]] = field(default_factory=list)

    def add(self, commit: str, tree: Tree) -> None:
        self.commits.append((commit, tree))

    @property
    def head(self) -> str:
        return self.commits[-1][0]

    @property
    def tree(self) -> Tree:
        return self.commits[-1][1] if self.commits else Tree()

    def tree_of(self, commit: str) -> Tree | None:
        return next((tree for sha, tree in self.commits if sha == commit), None)

    def keeps(self, commit: str) -> set[str]:
        """What must not be deleted while this commit is in force: what it declares, and what a broken bundle is held
        at. A daemon that did not see every commit may hold more, never less."""
        index = next(i for i, (sha, _) in enumerate(self.commits) if sha == commit)
        tree = self.commits[index][1]
        held = {slot for bundle in tree.broken for slot in self._last_good(bundle, index)}
        return {*tree.objects, *held}

    def _last_good(self, bundle: str, index: int) -> dict[str, Entry]:
        for _, tree in reversed(self.commits[: index + 1]):
            if bundle not in tree.broken:
                return tree.of(bundle)
        return {}

    def said_by(self, bundle: str) -> set[str]:
        """The commits that a unit may name which is as the head declares it: those that declared just that."""
        now = content(self.tree, bundle)
        return {sha for sha, tree in self.commits if bundle not in tree.broken and content(tree, bundle) == now}

    def held_at(self, bundle: str) -> dict[str, dict[str, Entry]]:
        """What a broken bundle may be held at, by commit."""
        return {sha: tree.of(bundle) for sha, tree in self.commits if bundle not in tree.broken}

    def contended(self) -> set[str]:
        """Objects that a broken bundle may be held with and that another one has declared at some time: who has them
        depends on what was seen of it, until all is mended."""
        broken = self.tree.broken
        theirs = {slot for bundle in broken for at in self.held_at(bundle).values() for slot in at}
        return {
            s for _, tree in self.commits for s, e in tree.objects.items() if s in theirs and e.bundle not in broken
        }

    def contending(self) -> set[str]:
        """Bundles that declare what a broken one may be held with: who has it now keeps it, and the other one is
        troubled and held too, which goes on from there."""
        tree, held = self.tree, set(self.tree.broken)
        while True:
            theirs = {slot for bundle in held for at in self.held_at(bundle).values() for slot in at}
            found = {e.bundle for slot, e in tree.objects.items() if slot in theirs} if held else set()
            if found <= held:
                return held - tree.broken.keys()
            held |= found


def content(tree: Tree, bundle: str) -> dict[str, Entry]:
    return tree.of(bundle)
