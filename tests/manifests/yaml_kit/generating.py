"""Files of YAML in many styles, by a seeded author who knows how people write and not what it means.

Texts are written, not dumped: a dumper has one style, and knows only values that its reader gives back. `odd` is the
chance, at every turn, of something that one reader or the other may refuse or read in its own way.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import TypeVar

T = TypeVar("T")

HEAD = "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {}}}\n"
FLOW_HEAD = "apiVersion: v1, kind: ConfigMap, metadata: {{name: {}}}"
JSON_HEAD = '"apiVersion": "v1", "kind": "ConfigMap", "metadata": {{"name": "{}"}}'

WORDS = [
    *("a", "text", "two words", "a b  c", "x:z", ":x", "http://x/y?z=1", "a#b", "-x", "é", "日本", "😀", "\xa0"),
    *("true", "False", "yes", "No", "on", "OFF", "null", "~", "Null", "nULL", "oN", "=", "<<", "$(A)", "x=y", "a'b"),
    *("0", "1", "-1", "+1", "007", "0644", "-0644", "0o17", "0x1F", "-0x1f", "0b101", "0b-11", "1_000", "1__0", "0_7"),
    *("1.0", "1.20", "1e3", "1E400", "-0.0", "-0", ".5", "._5", "5.", "+.5", "1e-400", "0.1e-6", "1e-05", "_1", "0x"),
    *("9007199254740993", "1.2345678901234567e18", "9223372036854775807", "-9223372036854775808", "0b12", "0o8", "e1"),
    *("12:30", "22:22", "2030-01-02", "2030-01-02T03:04:05Z", "1.2.3", "10Gi", "500m", "Infinity", "nan", "+", "--"),
    *("\\n", "x ---", "a#  b", "a\tb", "x%", "x@y", "x!", "x&y", "x*", "k=v;w", "/a/b", "(a)", "1 2", ".", "1e", 'a"b'),
]
ODD_WORDS = [
    *("y", "N", "08", "-09", "0_8", ".inf", "-.INF", ".nan", "1.5e300", "9223372036854775808", "1e30", "0x" + "f" * 16),
    *("- x", "? x", "?x", "?", "x?", "@x", "`x", "!x", "*x", "|x", ">x", "'x", '"x', "[x", "]x", "{x", "}x", ",x"),
    *("a: b", "a:", ":", "a #b", "#x", "-", "---", "...", "--- x", "{{ a }}", "{% x %}", "%x", "\x7f", "x\ufeffy"),
    *("x\u2028y", "x\x85y", "x\x85", "\t", "a\x01", "1\u2029", "=x", "<<x", "x\x80", "a,b", "%"),
]
KEYS = ["a b", "x.y/z", "é", "http://k", "a-b", "'q'", '"d"', "'it''s'", '"\\x61\\u00e9"', "~x", "_", "k/*", '"a: b"']
ODD_KEYS = [
    *("1", "true", "on", "null", "~", "0644", "1.0", ".inf", "08", "", "? a", "[a]", "{a: b}", "<<", "= ", "a #x"),
    *("'on'", '"1"', "a:b", "-a", "!!str 1", "!!int 1", "'<<'", "2030-01-02", "k", "k", "? ", "*a1", "&k z", "- a"),
    *("1e3", "a?b", '"\\/"', "k\u2028", "x" * 1030, f'"{"x" * 1030}"', "a\tb", "|", "y"),
]
ESCAPES = [
    *(r"\n", r"\t", r"\"", r"\\", r"\x41", r"\u00e9", r"\U0001F600", r"\0", r"\a", r"\b", r"\e", r"\_", r"\N", r"\L"),
    *(r"\P", r"\v", r"\f", r"\r", "\\ ", "\\\t"),
]
ODD_ESCAPES = [r"\/", r"\\/", r"\ud83d\ude00", r"\ud800", r"\q", r"\x4", r"\'", r"\U00110000"]
TAGS = ["!!int", "!!float", "!!bool", "!!null", "!!map", "!!seq", "!x", "!", "!<tag:yaml.org,2002:str>", "!!binary"]
LETTERS = [*"abc xyz 019 .:,#-!?*&%@|><=~_$(){}[]'/", "é", "日", "😀", "\xa0", "  ", ": ", " #"]
ODD_LETTERS = ["\u2028", "\x85", "\u2029", "\t", "\x7f", "\ufeff"]
NUMERIC = "0012345678901_._-+eExXoObBaAfF"
LINES = ["x", "text here", "# no comment", "- a", "k: v", "'q'", "é", "---", "*a", '"']
FOLLOWING = ["two", "2", "x:y", "- z", "a#b", "'q'", "three four", "null", "é", "--- x", "&z", "!z", "[z"]
SEPARATORS = ["---\n", "---\n", "--- # c\n", "---  \n", "...\n---\n", "---\nnull\n---\n"]
ODD_SEPARATORS = [
    *("...\n", "--- ", "---#c\n", "---\xa0\n", "--- {}\n---\n", "---\t# c\n", "---\r\n", "%YAML 1.1\n---\n"),
    *("---\n---\n", "\ufeff---\n"),
]
PIECES = [
    *"\t\n\r \"'#%&*,-:<>?@[]`{|}!~.=\\0aé\x85\u2028\ufeff",
    *("\n---\n", "\n...\n", "---", "...", "\n\t", "\r\n", ": ", "- ", "? ", "<<: ", "&a1 ", "*a1", "!!str ", " #"),
    *("\n--- #\n", "\n---\t\n", "\n---\r\n", "\n--- a\n", "\x85---\n", "\u2028...\n", "\n  "),
]


class Author:
    """Writes one file after another. `indent` is always that of the parent of what is written."""

    def __init__(self, rng: Random, odd: float) -> None:
        self.rng = rng
        self.odd = odd
        self.anchors: dict[str, str] = {}  # name → kind, of what is written in full
        self.keys = self.named = 0  # so many so far

    def chance(self, share: float) -> bool:
        return self.rng.random() < share

    def strange(self) -> bool:
        return self.rng.random() < self.odd

    def pick(self, usual: Sequence[T], odd: Sequence[T] = ()) -> T:
        return self.rng.choice(odd if odd and self.strange() else usual)

    def some(self, most: int, least: int = 0) -> range:
        return range(self.rng.randint(least, most))

    # -- files and documents -----------------------------------------------------------------------------------------

    def file(self, name: str) -> str:
        """A file of one to three documents, the first called `name`, the others `name-1`, `name-2`."""
        if self.chance(0.06):
            then = self.pick(["", "\n"], [f"\n---\n{self.document(f'{name}-1')}", "\n# c\n", " x", "\n...\n"])
            text = self.json(name) + then
        else:
            before = self.pick(
                ["", "", "", "---\n", "# c\n", "\n"], ["\ufeff", "--- # c\n", "%YAML 1.1\n---\n", "--- "]
            )
            text = before + self.document(name)
            for number in range(1, self.pick([1, 1, 1, 2, 3])):
                separator = self.pick(SEPARATORS, ODD_SEPARATORS)
                text = _ended(text) + separator + self.document(f"{name}-{number}")
            text = _ended(text) + self.pick(["", "", "", "---\n", "...\n", "# c\n", "\n\n"], ["---", "# c", "--- x\n"])
        if self.strange():
            text = self.mutated(text)
        if self.chance(0.1):
            text = text.replace("\r\n", "\n").replace("\n", "\r\n")
        if self.chance(0.2):
            text = text.removesuffix("\n").removesuffix("\r")
        return text

    def mutated(self, text: str) -> str:
        for _ in self.some(3, 1):
            at, way = self.rng.randrange(len(text) + 1), self.rng.random()
            cut = at if way < 0.5 else at + self.rng.randint(1, 3)
            text = text[:at] + ("" if way > 0.8 else self.rng.choice(PIECES)) + text[cut:]
        return text

    def document(self, name: str) -> str:
        self.anchors.clear()
        self.keys = self.named = 0
        head = HEAD.format(name)
        style = self.rng.random()
        if style < 0.6:
            return head + "".join(f"v{n}:{self.block(0, 1)}" for n in self.some(3, 1))
        if style < 0.75:
            return head + self.mapping(0, 1)
        if style < 0.85:
            return f"v:{self.block(0, 1)}{head}"
        return f"{{{FLOW_HEAD.format(name)}, v: {self.flow(0, 1)}}}{self.line_end()}"

    def json(self, name: str) -> str:
        return f'{{{JSON_HEAD.format(name)}, "v": {self.json_value(0)}}}'

    def json_value(self, depth: int) -> str:
        kind = self.rng.random()
        if depth < 3 and kind < 0.2:
            return "[" + ", ".join(self.json_value(depth + 1) for _ in self.some(3)) + "]"
        if depth < 3 and kind < 0.4:
            return "{" + ",\n ".join(f"{self.json_text()}: {self.json_value(depth + 1)}" for _ in self.some(3)) + "}"
        if kind < 0.6:
            numbers = ["1", "-0", "1.0", "1E2", "0.1e-6", "true", "null", "1.2345678901234567e18"]
            return self.pick(numbers, ["1e400", "01"])
        return self.json_text()

    def json_text(self) -> str:
        letters = [*"ab :#-'{}[],", "é", "😀"]
        escapes = ["\\n", '\\"', "\\\\", "\\u00e9", "\\ud83d\\ude00", "\\u2028", "\\u0085", "\\b", "\\u0000"]
        odd = ["\\/", "\\\\/", "\x85", "\u2028", "\x7f", "\\ud800", "\\x41", "\t"]
        self.keys += 1
        return f'"{self.keys}{"".join(self.pick(letters + escapes, odd) for _ in self.some(6))}"'

    # -- scalars -----------------------------------------------------------------------------------------------------

    def scalar(self, indent: int, *, in_flow: bool = False) -> str:
        kind = self.rng.random()
        if kind < 0.5:
            return self.plain(in_flow=in_flow)
        if kind < 0.63:
            return self.single(indent)
        if kind < 0.78:
            return self.double(indent)
        if kind < 0.82:
            return ""
        if in_flow:
            return self.plain(in_flow=True)
        return self.block_scalar(indent) if kind < 0.92 else self.many_lines(indent)

    def plain(self, *, in_flow: bool) -> str:
        if not self.strange() and self.chance(0.3):
            return self.number()
        word = self.pick(WORDS, ODD_WORDS)
        return word if not in_flow or self.strange() or not set(word) & set("?,[]{}:") else "flow"

    def number(self) -> str:
        rng = self.rng
        if self.chance(0.5):
            text = "".join(rng.choice(NUMERIC) for _ in self.some(9, 1))
            return text if text not in ("-", "---", "...") else "0"
        forms = [
            str(rng.randint(0, 10 ** rng.randint(1, 18))),
            f"0b{rng.getrandbits(40):b}",
            f"0x{rng.getrandbits(62):x}",
            f"0o{rng.getrandbits(20):o}",
            f"0{rng.getrandbits(20):o}",
            f"{rng.random() * 10.0 ** rng.randint(-10, 18):.17g}",
            f"{rng.randint(0, 999)}e{rng.randint(-30, 15)}",
            f"{rng.randint(0, 9)}_{rng.randint(0, 999):03}",
        ]
        large = [str(rng.getrandbits(70)), f"{rng.random() * 1e25:.17g}"]
        return self.pick(["", "", "-", "+"]) + self.pick(forms, large)

    def letters(self, most: int, without: str) -> str:
        return "".join(c for c in (self.pick(LETTERS, ODD_LETTERS) for _ in self.some(most)) if c not in without)

    def line_break(self, indent: int) -> str:
        return "\n" * self.pick([1, 1, 2, 3]) + " " * (indent + self.rng.randint(1, 3))

    def single(self, indent: int) -> str:
        parts = (self.pick([self.letters(5, "'"), "''", " ", self.line_break(indent)]) for _ in self.some(4))
        return f"'{''.join(parts)}'"

    def double(self, indent: int) -> str:
        def part() -> str:
            if self.chance(0.3):
                return self.pick(ESCAPES, ODD_ESCAPES)
            if self.chance(0.2):
                return self.pick(["", "\\"]) + self.line_break(indent)
            return self.letters(5, '"\\')

        return '"' + "".join(part() for _ in self.some(5)) + '"'

    def block_scalar(self, indent: int) -> str:
        deeper = self.rng.randint(1, 4)
        pad = " " * (indent + deeper)
        depth = str(self.pick([deeper], [0, 1, 9])) if self.chance(0.3) else ""
        marks = [self.pick(["", "-", "+"]), depth]
        self.rng.shuffle(marks)
        lines: list[str] = []
        may_be_deeper = bool(depth)  # the first line says where the text begins
        for _ in self.some(5):
            if self.chance(0.2):
                lines.append(" " * self.rng.randint(0, len(pad)))
                continue
            more = self.pick(["", "", " ", "  ", "\t"]) if may_be_deeper else ""
            text = self.pick([*LINES, self.letters(6, "").strip() or "x"], ["e\u2028z", "", "\ttab"])
            lines.append(pad + more + text + self.pick(["", "", " ", "\t"]))
            may_be_deeper = True
        end = self.pick(["", "", " # c", "  "], ["\t", "#"])
        return self.pick("|>") + "".join(marks) + end + "".join(f"\n{line}" for line in lines)

    def many_lines(self, indent: int) -> str:
        text = self.pick(["one", "1", "a b", "true", "é", "0x"])
        for _ in self.some(3, 1):
            text += self.line_break(indent) + self.pick(FOLLOWING, ["# c", "? x", "a: b"]) + self.pick(["", "", " "])
        return text

    # -- anchors, tags, comments -------------------------------------------------------------------------------------

    def anchor(self) -> str:
        if self.strange():
            return self.pick(["a1", "a2", "b"])
        if not self.chance(0.12):
            return ""
        self.named += 1
        return f"a{self.named}"

    def alias(self, kind: str = "") -> str:
        known = [name for name, of in self.anchors.items() if of == kind or not kind]
        if self.strange():
            known = [*self.anchors, "a1", "a2", "nobody"]
        return f"*{self.rng.choice(known)}" if known else ""

    def properties(self, anchor: str, tags: Sequence[str] = ("",)) -> str:
        parts = [f"&{anchor}" if anchor else "", self.pick(tags, TAGS)]
        self.rng.shuffle(parts)
        return "".join(f"{part} " for part in parts if part)

    def line_end(self, *, tab: str = "\t") -> str:
        ends = ["\n"] * 12 + [" # c\n", f"{tab}# c\n", " #\n", "  \n", "\n\n", " # c: d\n\n# e\n"]
        return self.pick(ends, ["\t\n", "#\n", " x\n"])

    def space(self, indent: int) -> str:
        pad = " " * (indent + 1)
        return self.pick(["", "", "", " ", "  ", "\t", f"\n{pad}", f" # c\n{pad}"])

    def key(self) -> str:
        if self.strange():
            return self.pick(ODD_KEYS)
        self.keys += 1
        if not self.chance(0.25):
            return f"k{self.keys}"
        style = self.pick(KEYS)
        return style[:1] + str(self.keys) + style[1:] if style[0] in "'\"" else f"{style}{self.keys}"

    # -- collections -------------------------------------------------------------------------------------------------

    def flow(self, indent: int, depth: int) -> str:
        opening, closing = self.pick(["{}", "[]"])
        if opening == "{":
            items = [self.flow_entry(indent, depth) for _ in self.some(4)]
            if (alias := self.alias("map")) and self.chance(0.1):
                items.insert(0, self.pick([f"<<: {alias} ", f"<<: [{alias} , {alias} ] "]))
        else:
            items = [self.flow_item(indent, depth) for _ in self.some(4)]
        body = "".join(self.space(indent) + item + self.space(indent) + "," for item in items)
        if not self.chance(0.1):
            body = body.removesuffix(",")
        return opening + body + self.space(indent) + closing

    def flow_item(self, indent: int, depth: int) -> str:
        item = self.flow_node(indent, depth)
        if self.chance(0.08):
            return f"{self.key()}: {item}"
        return item if item.strip() or self.strange() else "''"

    def flow_entry(self, indent: int, depth: int) -> str:
        kind, key = self.rng.random(), self.key()
        if kind < 0.06:
            return self.pick(["? ", "?\t"]) + key + self.pick(["", f" : {self.flow_node(indent, depth)}"])
        if kind < 0.12:
            return key
        close = [":"] if key[:1] in "'\"" else []
        between = self.pick([": ", " : ", ":\t", ":  ", *close], [":", " :"])
        return key + between + self.flow_node(indent, depth)

    def flow_node(self, indent: int, depth: int) -> str:
        if self.chance(0.08) and (alias := self.alias()):
            return f"{alias} "
        anchor = self.anchor()
        if depth < 4 and self.chance(0.2):
            text = self.flow(indent, depth + 1)
            kind, text = "map" if text[0] == "{" else "list", self.properties(anchor) + text
        else:
            tags = [""] * 12 + ["!!str"]
            kind, text = "text", self.properties(anchor, tags) + self.scalar(indent, in_flow=True)
        if anchor:
            self.anchors[anchor] = kind
        return text

    def block(self, indent: int, depth: int, *, after_dash: bool = False) -> str:
        """What follows `key:` or `-`, to the end of its last line."""
        gap = self.pick([" ", " ", "  ", " " if after_dash else "\t"], ["\t", "\n" + " " * (indent + 1)])
        kind = self.rng.random()
        if kind < 0.08 and (alias := self.alias()):
            return gap + alias + self.line_end()
        anchor = self.anchor()
        if depth < 4 and kind > 0.55:
            properties = self.properties(anchor)
            text = (gap + properties.rstrip() if properties else "") + self.line_end(tab=" ")
            of = self.pick(["map", "list"])
            if of == "map":
                text += self.mapping(indent + self.rng.randint(1, 4), depth + 1)
            else:
                text += self.sequence(indent + self.rng.randint(int(after_dash), 3), depth + 1)
        elif kind > 0.42:
            flow = self.flow(indent, depth)
            of, text = "map" if flow[0] == "{" else "list", gap + self.properties(anchor) + flow + self.line_end()
        else:
            scalar = self.scalar(indent)
            end = "\n" if scalar[:1] in ("|", ">") else self.line_end()
            of, text = "text", gap + self.properties(anchor, [""] * 12 + ["!!str"]) + scalar + end
        if anchor:
            self.anchors[anchor] = of
        return text

    def mapping(self, indent: int, depth: int) -> str:
        lines = []
        pad = " " * indent
        if (alias := self.alias("map")) and self.chance(0.1):
            lines.append(pad + self.pick([f"<<: {alias}\n", f"<<: [{alias}, {alias}]\n", f"<<: {{{self.key()}: 1}}\n"]))
        for _ in self.some(4, 1):
            if self.chance(0.05):
                lines.append(" " * self.rng.randint(0, indent + 2) + "# c\n")
            here = " " * (indent + self.pick([-1, 1])) if indent and self.strange() and self.strange() else pad
            if self.chance(0.05):
                key = self.pick([self.key(), self.double(indent), self.single(indent), self.block_scalar(indent)])
                value = here + ":" + self.block(indent, depth, after_dash=True) if self.chance(0.7) else ""
                lines.append(f"{here}? {key}\n{value}")
            else:
                lines.append(here + self.key() + self.pick([":", ":", ":", " :"]) + self.block(indent, depth))
        return "".join(lines)

    def sequence(self, indent: int, depth: int) -> str:
        lines = []
        pad = " " * indent
        for _ in self.some(4, 1):
            if self.chance(0.05):
                lines.append("# c\n")
            kind, gap = self.rng.random(), self.rng.randint(1, 3)
            inner = indent + 1 + gap
            if kind < 0.25 and depth < 4:
                lines.append(pad + "-" + " " * gap + self.mapping(inner, depth + 1).removeprefix(" " * inner))
            elif kind < 0.32 and depth < 4:
                lines.append(pad + "-" + " " * gap + self.sequence(inner, depth + 1).removeprefix(" " * inner))
            else:
                lines.append(pad + "-" + self.block(indent, depth, after_dash=True))
        return "".join(lines)


def _ended(text: str) -> str:
    return text if text.endswith("\n") else text + "\n"
