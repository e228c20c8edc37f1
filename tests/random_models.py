"""Random models with nested loops and branches, as text; each is made of a source of randomness.

A block computes new vectors from those in sight, the outer ones included, by smooth operators that
keep values small, or by a `Loop`, a `Scan` or an `If` whose bodies are blocks in turn.
"""

from __future__ import annotations

from random import Random

__all__ = ["WRT", "random_model"]

UNARY = ("Sin", "Tanh", "Sigmoid", "Neg")
BINARY = ("Add", "Sub", "Mul")
HEAD = """<ir_version: 10, opset_import: ["" : {opset}]>
model ({number}[{N}] x, {number}[{N}] w, {number}[{N},{N}] W, {number}[{T},{N}] table,
    int64 n, int64 m, bool flag) => ({number}[{N}] y) {{
"""
# What Cast calls them.
TYPES = {"float": 1, "double": 11}
WRT = ("x", "w", "W", "table")
CONSTANTS = {"zero": "int64 {0}", "one": "int64 {1}", "two": "int64 {2}", "five": "int64 {5}"}
CONSTANTS |= {"any": "int64[1] {-1}", "axis": "int64[1] {0}"}


def random_model(random: Random, sequences: bool = True) -> str:
    """Return a model of vectors `x` and `w`, a matrix `W` and a `table` of rows, all of size 2.

    It computes the vector `y`; `n`, `m` and `flag` say how often loops run and where branches go.
    Without `sequences`, loops carry tensors alone.
    """
    sizes = random.choice(({"N": "2", "T": "3"}, {"N": "N", "T": "T"}))
    number = random.choice(("float", "float", "double"))
    size = random.choice(("2", "N", "M"))
    writer = _Writer(random, number, f"{number}[{size}]", sequences)
    for name, value in CONSTANTS.items():
        writer.line(1, f"{name} = Constant<value = {value}>()")
    writer.line(1, "size = Shape(x)")
    writer.line(1, "rows = Concat<axis = 0>(any, size)")
    start = ["x", "w"]
    nested = random.choice(writer.control)
    seen = start + nested(1, 3, start, ["n", "m"])
    last = writer.results(1, 1, seen[len(start) :])[0]
    seen = writer.block(1, 0, [*seen, last], ["n", "m"])
    writer.line(1, f"s1 = Sum({', '.join(dict.fromkeys((last, *seen[2:])))})")
    writer.line(1, "y = Sin(s1)")
    head = HEAD.format(opset=random.randint(13, 22), number=number, **sizes)
    return head + "\n".join(writer.lines) + "\n}"


class _Writer:
    """Writes the lines of a model; `vector` is how bodies declare the type of a vector."""

    def __init__(self, random: Random, number: str, vector: str, sequences: bool) -> None:
        self.random, self.number, self.vector = random, number, vector
        self.control = [self.loop, self.scan, self.branch, *[self.sequence] * sequences]
        self.counter = 0
        self.lines: list[str] = []

    def fresh(self, prefix: str = "v") -> str:
        self.counter += 1
        return f"{prefix}{self.counter}"

    def pick(self, names: list[str] | tuple[str, ...]) -> str:
        return self.random.choice(names)

    def chance(self) -> bool:
        return self.random.random() < 0.5

    def line(self, depth: int, text: str) -> None:
        self.lines.append("  " * depth + text)

    def block(self, depth: int, nesting: int, vectors: list[str], trips: list[str]) -> list[str]:
        """Write one to three statements and return all vectors that are in sight after them."""
        vectors = list(vectors)
        plain = [self.operator, self.counted, self.broadcast]
        control = self.control if nesting else []
        for _ in range(self.random.randint(1, 3)):
            kind = self.random.choice([self.operator, *plain, *control])
            vectors += kind(depth, nesting, vectors, trips)
        return vectors

    def operator(
        self, depth: int, _nesting: int, vectors: list[str], _trips: list[str]
    ) -> list[str]:
        name = self.fresh()
        kind = self.pick(("unary", "binary", "same twice", "product"))
        if kind == "unary":
            self.line(depth, f"{name} = {self.pick(UNARY)}({self.pick(vectors)})")
        elif kind == "product":
            inner = self.fresh()
            self.line(depth, f"{inner} = MatMul(W, {self.pick(vectors)})")
            self.line(depth, f"{name} = Tanh({inner})")
        else:
            a = self.pick(vectors)
            b = a if kind == "same twice" else self.pick(vectors)
            self.line(depth, f"{name} = {self.pick(BINARY)}({a}, {b})")
        return [name]

    def counted(self, depth: int, _nesting: int, vectors: list[str], trips: list[str]) -> list[str]:
        """Multiply by a number that is computed of whole ones: (2·trips + 1) mod 5, or over 5."""
        twice, odd, whole, factor, name = (self.fresh(p) for p in ("k", "k", "k", "f", "v"))
        self.line(depth, f"{twice} = Mul({self.pick(trips)}, two)")
        self.line(depth, f"{odd} = Add({twice}, one)")
        self.line(depth, f"{whole} = {self.pick(('Mod', 'Div'))}({odd}, five)")
        self.line(depth, f"{factor} = Cast<to = {TYPES[self.number]}>({whole})")
        self.line(depth, f"{name} = Mul({self.pick(vectors)}, {factor})")
        return [name]

    def broadcast(
        self, depth: int, _nesting: int, vectors: list[str], _trips: list[str]
    ) -> list[str]:
        """Add a vector to the rows or columns of the matrix, and sum up the result."""
        a, wide, total, name = self.pick(vectors), self.fresh(), self.fresh(), self.fresh()
        if self.chance():
            column = self.fresh()
            self.line(depth, f"{column} = Unsqueeze({a}, axis)")
            a = column
            if self.chance():
                a = self.fresh()
                self.line(depth, f"{a} = Transpose<perm = [1, 0]>({column})")
        self.line(depth, f"{wide} = {self.pick(BINARY)}(W, {a})")
        self.line(depth, f"{total} = ReduceSum<keepdims = 0>({wide}, axis)")
        self.line(depth, f"{name} = Tanh({total})")
        return [name]

    def results(self, depth: int, count: int, vectors: list[str]) -> list[str]:
        """Return so many results of a body: values of it, outer ones, or one value twice."""
        names = []
        for _ in range(count):
            name = self.fresh()
            self.line(depth, f"{name} = {self.pick(('Identity', 'Sin'))}({self.pick(vectors)})")
            names.append(name)
        return names

    def loop(self, depth: int, nesting: int, vectors: list[str], trips: list[str]) -> list[str]:
        """Write a `Loop` with an integer, a boolean, one or two vectors, and a stack of rows."""
        carried = self.random.randint(1, 2)
        starts = [self.pick(vectors) for _ in range(carried)]
        inner = [self.fresh() for _ in range(carried)]
        i, c, k, b = (self.fresh(p) for p in ("i", "c", "k", "b"))
        ends = [self.fresh() for _ in range(carried)]
        stack, exits = self.fresh("stack"), self.chance()
        self.line(
            depth,
            f"{self.fresh('k')}, {self.fresh('b')}, {', '.join(ends)}, {stack} = "
            f"Loop({self.pick(trips)}, {self.pick(('', 'flag'))}, zero, flag, {', '.join(starts)})"
            f" <body = {self.fresh('g')}",
        )
        k2, b2, go = self.fresh("k"), self.fresh("b"), self.fresh("go")
        position = len(self.lines)
        self.line(depth + 1, f"{k2} = Add({k}, one)")
        self.line(depth + 1, f"{b2} = Xor({b}, {c})")
        seen = self.block(depth + 1, nesting - 1, [*vectors, *inner], [*trips, i, k])
        row, *after = self.results(depth + 1, carried + 1, seen)
        row = self.pick([row, after[0]])
        self.line(depth + 1, f"{go} = {f'Less({k2}, two)' if exits else f'Identity({c})'}")
        self.line(depth, "}>")
        inputs = ", ".join(f"{self.vector} {v}" for v in inner)
        outputs = ", ".join(f"{self.vector} {v}" for v in (*after, row))
        self.lines.insert(
            position,
            "  " * depth + f"    (int64 {i}, bool {c}, int64 {k}, bool {b}, {inputs})"
            f" => (bool {go}, int64 {k2}, bool {b2}, {outputs}) {{",
        )
        return ends + self.summed(depth, stack)

    def summed(self, depth: int, stack: str) -> list[str]:
        """Reduce a stack, perhaps an empty one of lost rank, to a vector; or leave it unread."""
        if self.chance():
            return []
        rows, total, name = self.fresh("r"), self.fresh(), self.fresh()
        self.line(depth, f"{rows} = Reshape({stack}, rows)")
        self.line(depth, f"{total} = ReduceSum<keepdims = 0>({rows}, axis)")
        self.line(depth, f"{name} = Tanh({total})")
        return [name]

    def scan(self, depth: int, nesting: int, vectors: list[str], trips: list[str]) -> list[str]:
        """Write a `Scan` over the table, in any of the directions."""
        start, end, inner = self.pick(vectors), self.fresh(), self.fresh()
        x, stack = self.fresh("row"), self.fresh("stack")
        reads, writes = self.random.randint(0, 1), self.random.randint(0, 1)
        self.line(
            depth,
            f"{end}, {stack} = Scan({start}, table) <num_scan_inputs = 1, scan_input_directions = "
            f"[{reads}], scan_output_directions = [{writes}], body = {self.fresh('g')}",
        )
        position = len(self.lines)
        seen = self.block(depth + 1, nesting - 1, [*vectors, inner, x], trips)
        after, row = self.results(depth + 1, 2, seen)
        self.line(depth, "}>")
        self.lines.insert(
            position,
            "  " * depth + f"    ({self.vector} {inner}, {self.vector} {x})"
            f" => ({self.vector} {after}, {self.vector} {row}) {{",
        )
        return [end, *self.summed(depth, stack)]

    def branch(self, depth: int, nesting: int, vectors: list[str], trips: list[str]) -> list[str]:
        """Write an `If` on the flag, or on whether a number is zero; either branch comes first."""
        condition = "flag"
        if self.chance():
            condition = self.fresh("c")
            self.line(depth, f"{condition} = Equal({self.pick(trips)}, zero)")
        results = [self.fresh(), self.fresh()]
        self.line(depth, f"{', '.join(results)} = If({condition}) <")
        keys = self.random.sample(("then_branch", "else_branch"), 2)
        for key in keys:
            position = len(self.lines)
            seen = self.block(depth + 1, nesting - 1, vectors, trips)
            inner = self.results(depth + 1, 2, seen)
            self.line(depth, "}," if key == keys[0] else "}>")
            outputs = ", ".join(f"{self.vector} {v}" for v in inner)
            self.lines.insert(
                position, "  " * depth + f"  {key} = {self.fresh('g')} () => ({outputs}) {{"
            )
        return results

    def sequence(self, depth: int, nesting: int, vectors: list[str], trips: list[str]) -> list[str]:
        """Write a `Loop` that appends vectors to a sequence, and add these up, or read the last."""
        start, end, inner, after = (self.fresh("q") for _ in range(4))
        i, c, go = self.fresh("i"), self.fresh("c"), self.fresh("go")
        self.line(depth, f"{start} = SequenceConstruct({self.pick(vectors)})")
        self.line(
            depth,
            f"{end} = Loop({self.pick(trips)}, , {start}) <body = {self.fresh('g')} (int64 {i}, "
            f"bool {c}, seq({self.vector}) {inner}) => (bool {go}, seq({self.vector}) {after}) {{",
        )
        element = self.fresh()
        self.line(depth + 1, f"{element} = SequenceAt({inner}, {self.pick(('zero', i))})")
        seen = self.block(depth + 1, nesting - 1, [*vectors, element], [*trips, i])
        self.line(depth + 1, f"{after} = SequenceInsert({inner}, {self.pick(seen)})")
        self.line(depth + 1, f"{go} = Identity({c})")
        self.line(depth, "}>")
        name, total = self.fresh(), self.fresh()
        if self.chance():
            stack = self.fresh("stack")
            self.line(depth, f"{stack} = ConcatFromSequence<axis = 0, new_axis = 1>({end})")
            self.line(depth, f"{total} = ReduceSum<keepdims = 0>({stack}, axis)")
        else:
            last = self.fresh("k")
            self.line(depth, f"{last} = Constant<value = int64 {{-1}}>()")
            self.line(depth, f"{total} = SequenceAt({end}, {last})")
        self.line(depth, f"{name} = Tanh({total})")
        return [name]
