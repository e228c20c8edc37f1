"""Random nets with branches, loops and Dos in one another, which overwrite each other's blobs."""

from __future__ import annotations

import random

from tests.caffe2.gradients.nets import do, loop, make, net

from whileback.formats.caffe2.caffe2_pb2 import NetDef, OperatorDef

Ops = list[OperatorDef]


class RandomNet:
    """A net that is made of a seed; `sure` are the blobs that surely hold something in the end.

    All blobs are FLOAT[1]; "x", "y" and "w" are given, and numbers "one" to "three" of trips.
    """

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self._count = 0
        self._dos = 0  # How many Dos are around.
        self.sure = {"x", "y", "w"}
        ops = self._block(self.sure, self.random.choice([1, 2, 2, 3]), self.random.randint(2, 5))
        self.net = net(f"random_{seed}", *ops, inputs="x y w one two three")

    def _new(self, base: str) -> str:
        self._count += 1
        return f"{base}{self._count}"

    def _one(self, sure: set[str]) -> str:
        return self.random.choice(sorted(sure))

    def _some(self, sure: set[str]) -> list[str]:
        return self.random.sample(sorted(sure), self.random.randint(1, len(sure)))

    def _chance(self, share: float) -> bool:
        return self.random.random() < share

    def _block(self, sure: set[str], depth: int, length: int) -> Ops:
        """Operators of one workspace, of which the blobs in `sure`, which grows, hold something."""
        ops: Ops = []
        for _ in range(length):
            kinds = [self._plain, self._branch, self._loop, self._do, self._reused]
            weights = [10, 4, 4, 2, 1] if depth else [1, 0, 0, 0, 0]
            (kind,) = self.random.choices(kinds, weights)
            ops += kind(sure, depth - 1)
        return ops

    def _plain(self, sure: set[str], _: int) -> Ops:
        a, b = self._one(sure), self._one(sure)
        out = self.random.choice([*sorted(sure), "p", "q", "x", "y", self._new("t")])
        kind = self.random.choice(
            "Tanh Tanh Sigmoid Mul Mul Mul Add Add Sub Sum Scale Negative Copy ConstantFill".split()
        )
        in_place = {"Copy": a, "ConstantFill": a, "Sum": b}
        if in_place.get(kind) == out:
            out = self._new("t")  # Caffe2 does not run them in place.
        sure.add(out)
        inputs = f"{a} {b}" if kind in ("Mul", "Add", "Sub", "Sum") else a
        args = {"Scale": {"scale": 0.8}, "ConstantFill": {"value": 0.3}}.get(kind, {})
        return [make(kind, inputs, out, **args)]

    def _scope(self) -> tuple[str, Ops]:
        scope = self._new("scope")
        return scope, [make("CreateScope", "", scope)]

    def _body(self, sure: set[str], depth: int, name: str) -> tuple[Ops, NetDef, set[str]]:
        """The operators before a branch or body, its net, and what holds something after it."""
        if self._chance(0.5):
            after = set(sure)
            return [], net(self._new(name), *self._block(after, depth, 2)), after
        scope, before = self._scope()
        op, new = self._one_do(sure, depth, scope)
        return before, net(self._new(name), op), sure | new

    def _one_do(self, sure: set[str], depth: int, scope: str) -> tuple[OperatorDef, set[str]]:
        """A Do, and the blobs that it surely writes for the first time."""
        bound = self._some(sure)
        inner = {name: self._new("inner") if self._chance(0.5) else name for name in bound}
        self._dos += 1
        ops = self._block(set(inner.values()), depth, self.random.randint(1, 3))
        self._dos -= 1
        new = {}
        if self._chance(0.4):
            new = {self._new("made"): self._new("inner")}
            ops += [make("Tanh", self._one(set(inner.values())), name) for name in new.values()]
        args = {"copy_external_blobs": 1} if self._chance(0.3) else {}
        outputs = [name for name in bound if self._chance(0.5)]
        op = do(
            net(self._new("net"), *ops),
            scope,
            [f"{inner[name]}={name}" for name in bound],
            [*(f"{inner[name]}={name}" for name in outputs), *(f"{i}={o}" for o, i in new.items())],
            **args,
        )
        return op, set(new)

    def _do(self, sure: set[str], depth: int) -> Ops:
        """One or two Dos on one scope."""
        scope, ops = self._scope()
        for _ in range(self.random.choice([1, 1, 1, 2])):
            op, new = self._one_do(sure, depth, scope)
            ops.append(op)
            sure |= new
        return ops

    def _reused(self, sure: set[str], _: int) -> Ops:
        """Dos that find a local blob where the one before has left it."""
        scope, ops = self._scope()
        local = self._new("local")
        ops.append(self._user(sure, scope, lambda inner: [make("Tanh", inner, local)]))

        def use(inner: str) -> Ops:
            kind = self.random.choice(["Mul", "Add"])
            return [make(kind, f"{local} {inner}", local), make("Add", f"{local} {inner}", inner)]

        user = self._user(sure, scope, use, reuse_workspace=1)
        if self._chance(0.5):
            return [*ops, *loop([user], self.random.randint(1, 3), self._new("loop"))]
        return [*ops, user, self._user(sure, scope, use, reuse_workspace=1)]

    def _user(self, sure: set[str], scope: str, ops, **args: int) -> OperatorDef:
        inner = {self._new("inner"): name for name in self._some(sure)}
        block = self._block(set(inner), 0, 1)
        inside = net(self._new("net"), *block, *ops(self._one(set(inner))))
        return do(inside, scope, [f"{i}={o}" for i, o in inner.items()], **args)

    def _branch(self, sure: set[str], depth: int) -> Ops:
        tested, limit, condition = self._one(sure), self._new("limit"), self._new("condition")
        value = self.random.choice([-0.5, 0.1, 0.4])
        ops = [make("ConstantFill", tested, limit, value=value)]
        ops.append(make("GT", f"{tested} {limit}", condition))
        before, then, after = self._body(sure, depth, "then")
        nets = {"then_net": then}
        ops += before
        if self._chance(0.6):
            before, nets["else_net"], other = self._body(sure, depth, "else")
            ops += before
            sure |= after & other
        ops.append(make("If", condition, **nets))
        if self._chance(0.3):
            ops.append(make("GT", f"{limit} {tested}", condition))
        return ops

    def _loop(self, sure: set[str], depth: int) -> Ops:
        """A loop whose condition net may write blobs, too."""
        before, body, _ = self._body(sure, depth, "body")
        tested = self._block(set(sure), 0, self.random.randint(1, 2)) if self._chance(0.3) else []
        given = [] if self._dos else ["one", "two", "three"]
        trips = self.random.choice([0, 1, 2, 3, *given])
        ops = [*before, *loop(body.op, trips, self._new("loop"), tested)]
        if self._chance(0.5):
            self._enclose_condition(ops)
        return ops

    def _enclose_condition(self, ops: Ops) -> None:
        """Put the condition net of the loop at the end into a Do, as NetBuilder does."""
        scope, made = self._scope()
        condition = next(arg for arg in ops[-1].arg if arg.name == "cond_net")
        written = {name for op in condition.n.op for name in op.output}
        read = {name for op in condition.n.op for name in op.input} - written
        inside = net(self._new("net"), *condition.n.op)
        del condition.n.op[:]
        condition.n.op.append(do(inside, scope, sorted(read), sorted(written)))
        ops[-1:-1] = made
