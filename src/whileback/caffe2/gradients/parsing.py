"""From a net to regions."""

from __future__ import annotations

from collections.abc import Iterable

from whileback.caffe2.gradients.bindings import (
    all_names,
    all_nets,
    bindings,
    is_forward_do,
    mentions,
    scope_of,
)
from whileback.caffe2.gradients.onnx_while import expanded, has_scans
from whileback.caffe2.gradients.regions import Control, Frame, Node, Region
from whileback.caffe2.gradients.workspaces import Workspace
from whileback.formats.caffe2.arguments import Arguments
from whileback.formats.caffe2.caffe2_pb2 import NetDef, OperatorDef
from whileback.graph.names import Names

__all__ = ["Parser"]

# The arguments of control operators that hold nets, and whether these must be there.
NETS = {
    "Do": {"net": True},
    "If": {"then_net": True, "else_net": False},
    "While": {"loop_net": True, "cond_net": False},
}


class Parser:
    """Makes the regions of one net.

    Args:
        net: the net.
        taken: further names that no new blob may have.
    """

    def __init__(self, net: NetDef, taken: Iterable[str]) -> None:
        self.names = Names([*all_names(net), *taken])
        self.net_names = Names([each.name for each in all_nets(net)])
        self._named: set[str] = set()

    def main(self, net: NetDef, seen: Iterable[str]) -> Region:
        """Return the region of a main net.

        Args:
            net: the net.
            seen: blobs that matter outside of it. The net's own lists add to them; if it lists no
                outputs, all blobs matter.
        """
        region = Region(net.name)
        for blob in net.external_input:
            region.first(blob)
        outputs = net.external_output or mentions(net)
        self._fill(region, net, Workspace(net, [*net.external_input, *outputs, *seen]))
        return region

    def _fill(self, region: Region, net: NetDef, workspace: Workspace) -> None:
        """Add the operators of a net to a region."""
        for op in net.op:
            if op.type in ("If", "While") or is_forward_do(op):
                self._control(region, op, workspace)
            elif op.type == "ONNXWhile" and not has_scans(op):
                self._onnx_while(region, op)
            else:
                node = Node(op, [region.read(blob) for blob in op.input])
                node.outputs = [region.write(blob, node) for blob in op.output]
                region.nodes.append(node)

    def _control(self, region: Region, op: OperatorDef, workspace: Workspace) -> None:
        """Add a control operator, with what its nets read and write."""
        node = Control(op)
        for name, needed in NETS[op.type].items():
            if op.type == "Do":
                frame = self._popped(region, op, workspace)
            elif needed or Arguments(op).has(name):
                frame = self._inside(region, Arguments(op).net(name), workspace)
            else:
                continue
            frame.owner = node
            node.frames[name] = frame
        if op.type != "Do":
            node.condition = region.read(op.input[0])
        _connect(region, node)
        region.nodes.append(node)

    def _onnx_while(self, region: Region, op: OperatorDef) -> None:
        """Add an ONNXWhile as a Do of the While that it stands for."""
        net = expanded(op)
        frame = Frame(self._unique(net.name), net, region, None)
        for blob in dict.fromkeys((*op.input, *op.output)):
            frame.bind(blob, blob)
        self._fill(frame, net, Workspace(net, frame.outer))
        self._scope(frame, f"{frame.name}/workspace")
        frame.owner = node = Control(op, frames={"net": frame})
        _connect(region, node)
        region.nodes.append(node)

    def _inside(self, region: Region, net: NetDef, workspace: Workspace) -> Frame:
        """Return the frame of a branch or a body, which is that of its only Do if it has one."""
        if len(net.op) == 1 and is_forward_do(net.op[0]):
            return self._popped(region, net.op[0], workspace)
        frame = Frame(self._unique(net.name), net, region, None)
        self._fill(frame, net, workspace)
        local = workspace.private(net) - set(frame.entered)
        for blob in list(frame.versions):
            if blob not in local:
                frame.bind(blob, blob)
        frame.shared = {*workspace.names.values()} & set(frame.outer)
        self._scope(frame, f"{frame.name}/workspace")
        return frame

    def _popped(self, region: Region, do: OperatorDef, workspace: Workspace) -> Frame:
        """Return the frame of a Do."""
        net, scope = workspace.net(do), scope_of(do)
        frame = Frame(self._unique(net.name), net, region, do)
        for inner, outer in bindings(do).items():
            frame.bind(inner, outer)
        for local in sorted(workspace.lasting[scope] - set(frame.outer)):
            self._share(frame, local, scope, local, workspace)
        inside = Workspace(net, frame.outer)
        self._fill(frame, net, inside)
        for (inner, local), name in inside.names.items():
            if inner in frame.outer:
                self._share(frame, name, frame.outer[inner], local, workspace)
        maker = region.last(scope).producer
        if maker is not None and maker.op.type == "CreateScope" and workspace.owned(scope):
            frame.scope = scope
        else:
            self._scope(frame, scope)
        frame.asked = scope in workspace.asked
        return frame

    def _share(
        self, frame: Frame, inner: str, scope: str, local: str, workspace: Workspace
    ) -> None:
        """Let a name inside stand for the blob that keeps a local one from run to run."""
        key = (scope, local)
        if key not in workspace.names:
            workspace.names[key] = self.names.fresh(f"{scope}/{local}")
        frame.bind(inner, workspace.names[key])
        frame.shared.add(inner)

    def _unique(self, name: str) -> str:
        """Return a net's name if it is the first of that name, else a new one."""
        if name in self._named or not name:
            name = self.net_names.fresh(name or "body")
        self._named.add(name)
        return name

    def _scope(self, frame: Frame, base: str) -> None:
        """Give a frame a new scope."""
        frame.scope = self.names.fresh(base)
        frame.own_scope = True


def _connect(region: Region, node: Control) -> None:
    """Find the effective inputs and outputs of a control operator."""
    frames = node.frames.values()
    read: dict[str, bool] = {}
    for frame in frames:
        read |= dict.fromkeys(frame.outside(frame.entered), False)
    for frame in frames:
        read |= dict.fromkeys(frame.outside(b for b in frame.named if b not in frame.shared), True)
    written = {blob: None for frame in frames for blob in frame.written()}
    surely = _surely(node)
    for blob in written:
        if blob not in surely:
            read.setdefault(blob, False)
    for blob in _surely_first(node):
        read.pop(blob, None)
    node.entry = {blob: region.read(blob, named) for blob, named in read.items()}
    for op in (node.op, *(frame.do for frame in frames if frame.do is not None)):
        for blob in op.input:
            region.read(blob)
    node.exit = {blob: region.write(blob, node, blob in surely) for blob in written}
    node.inputs, node.outputs = list(node.entry.values()), list(node.exit.values())


def _surely(node: Control) -> set[str]:
    """Return the blobs that a control operator writes whatever happens."""
    sure = {name: set(frame.outside(frame.sure)) for name, frame in node.frames.items()}
    if node.op.type == "While":
        return sure.get("cond_net", set())
    if node.op.type == "If":
        return sure["then_net"] & sure.get("else_net", set())
    return sure["net"]


def _surely_first(node: Control) -> set[str]:
    """Return the blobs whose versions before a loop nobody sees: the condition net writes them."""
    frame = node.frames.get("cond_net")
    return set() if frame is None else {*frame.outside(frame.sure - set(frame.entered))}
