// Drawing in SVG, in pixels of the page, so that letters keep their size on every screen.

const NAMESPACE = "http://www.w3.org/2000/svg";

export class Picture {
  // `draw` is called with this picture once it is first seen, and after each change of its size.
  constructor(svg, draw) {
    this.svg = svg;
    new ResizeObserver(() => {
      const { width, height } = svg.getBoundingClientRect();
      Object.assign(this, { width, height });
      svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
      draw();
    }).observe(svg);
  }

  clear() {
    this.svg.replaceChildren();
  }

  add(name, attributes, text = "") {
    const node = document.createElementNS(NAMESPACE, name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    node.textContent = text;
    this.svg.append(node);
  }

  line(points, kind) {
    this.add("polyline", { points: points.map(([x, y]) => `${x.toFixed(1)},${y.toFixed(1)}`).join(" "), class: kind });
  }

  text(x, y, text, kind = "") {
    this.add("text", { x, y, class: kind }, text);
  }

  dot(x, y, r, kind) {
    this.add("circle", { cx: x, cy: y, r, class: kind });
  }
}
