"""Writes the nodes and edges of a graph whose capture has ended."""

from __future__ import annotations

from json.encoder import encode_basestring as quoted

from cudagraph_doctor.probe.graphwalk.pointers import KnownMemory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cudagraph_doctor.probe.context import Context
    from cudagraph_doctor.probe.graphwalk.node_ops import NodeOps
    from cudagraph_doctor.probe.graphwalk.reader import Walk, WalkedNode

MOST = 60_000
"""Nodes told of all graphs of a process, with their edges 20 MB."""


class GraphRecorder:
    """Writes `node` and `edge` records."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._left = MOST

    def write(self, walk: Walk, graph: int, ops: NodeOps, memory: KnownMemory) -> None:
        """Tell the nodes of graph `graph`."""
        context = self._context
        if len(walk.nodes) > self._left:
            context.write("lost", count=len(walk.nodes), why=f"nodes of graph {graph}, beyond {MOST} in a process")
            return
        self._left -= len(walk.nodes)
        if not walk.whole:
            context.write("lost", count=0, why=f"graph {graph} is larger than what is read of one")
        made = ops.by_handle([node.handle for node in walk.nodes if not node.parent])
        numbers: dict[int, int] = {}
        tell, next_number = context.writer.write_text, context.ids.next
        for node in walk.nodes:
            handle, parent = node.handle, node.parent
            numbers[handle] = number = next_number("node")
            text = f',"id":{number},"graph":{graph},"handle":"{handle:#x}","type":"{node.type}"{_fields(node, memory)}'
            operator = made.get(handle) or made.get(parent)
            if operator:
                text += f',"op":{operator}'
            if parent:
                text += f',"parent":{numbers.get(parent, 0)}'
            tell("node", text)
        beginning = f',"graph":{graph},"source":'
        for place, (source, target) in enumerate(zip(walk.sources, walk.targets, strict=True)):
            text = f'{beginning}{numbers.get(source, 0)},"target":{numbers.get(target, 0)}'
            kind = walk.kinds.get(place)
            tell("edge", f'{text},"type":"{kind}"' if kind else text)


def _fields(node: WalkedNode, memory: KnownMemory) -> str:
    """What only some nodes have, as the text of a record: there are many nodes."""
    text = ""
    if node.kernel:
        text += f',"kernel":{quoted(node.kernel)}'
    if node.grid:
        text += f',"grid":{list(node.grid)},"block":{list(node.block)},"smem":{node.smem}'
        for name, value in node.function.items():
            text += f',"{name}":{value}'
    if node.context:
        text += f',"context":"{node.context:#x}"'
    plain, inside = memory.split(node.params, opaque=node.opaque)
    if node.ptrs:
        plain = list(dict.fromkeys([*node.ptrs, *plain]))
    if plain:
        text += f',"ptrs":[{_addresses(plain)}]'
    if inside:
        text += f',"words":[{_addresses(inside)}]'
    if node.opaque:
        text += ',"opaque":true'
    if node.src:
        text += f',"src":"{node.src:#x}"'
    if node.dst:
        text += f',"dst":"{node.dst:#x}"'
    return f'{text},"size":{node.size}' if node.size else text


def _addresses(found: list[int]) -> str:
    return ",".join(f'"{address:#x}"' for address in found)
