// @ts-check
// Runs beside the page: gives each box of a lane its place.

/* global dagre, self */
self.onmessage = ({ data }) => {
  const { id, boxes, edges, upward } = data;
  const graph = new dagre.graphlib.Graph();
  graph.setGraph({ rankdir: upward ? 'BT' : 'TB', nodesep: 22, ranksep: 40, edgesep: 14 });
  boxes.forEach((/** @type {any} */ [width, height], /** @type {number} */ place) => {
    graph.setNode(String(place), { width, height });
  });
  for (const [from, to] of edges) graph.setEdge(String(from), String(to), {});
  dagre.layout(graph);
  self.postMessage({
    id,
    width: graph.graph().width,
    height: graph.graph().height,
    boxes: boxes.map((/** @type {any} */ _, /** @type {number} */ place) => {
      const { x, y, width, height } = graph.node(String(place));
      return [x - width / 2, y - height / 2];
    }),
    edges: edges.map((/** @type {any} */ [from, to]) =>
      graph.edge(String(from), String(to)).points.map((/** @type {any} */ { x, y }) => [x, y]),
    ),
  });
};
