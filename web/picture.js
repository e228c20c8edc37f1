// Drawing in SVG, in pixels of the page, so that letters keep their size on every screen.

const NAMESPACE = "http://www.w3.org/2000/svg";

export class Picture {
  // `draw` is called after each change of the size.
  constructor(svg, draw) {
    this.svg = svg;
    this.measure();
    new ResizeObserver(() => (this.measure(), draw())).observe(svg);
  }

  measure() {
    const { width, height } = this.svg.getBoundingClientRect();
    Object.assign(this, { width, height });
    this.svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  }

  clear() {
    this.svg.replaceChildren();
  }

  add(name, attributes, text = "", parent = this.svg) {
    const node = document.createElementNS(NAMESPACE, name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    node.textContent = text;
    parent.append(node);
    return node;
  }

  line(points, kind) {
    const places = points.map(([x, y]) => `${x.toFixed(1)},${y.toFixed(1)}`);
    this.add("polyline", { points: places.join(" "), class: kind });
  }

  text(x, y, text, kind = "") {
    this.add("text", { x, y, class: kind }, text);
  }

  dot(x, y, r, kind) {
    return this.add("circle", { cx: x, cy: y, r, class: kind });
  }

  // Moves a dot along points, once, which it reaches after equal times.
  move(dot, points, seconds) {
    ["cx", "cy"].forEach((attributeName, axis) => {
      const values = points.map((point) => point[axis].toFixed(1)).join(";");
      const animation = this.add(
        "animate", { attributeName, values, dur: `${seconds}s`, begin: "indefinite" }, "", dot,
      );
      animation.beginElement();
    });
  }
}
