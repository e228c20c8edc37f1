// @ts-check
// The small map of the whole drawing, and of the part that is seen.

// In dots, two for each dot of the screen.
const MAP = { width: 360, height: 400, least: 48 };

class Overview {
  /** @param {HTMLCanvasElement} canvas @param {View} view */
  constructor(canvas, view) {
    this.canvas = canvas;
    this.view = view;
    /** @type {{x: number, y: number, width: number, height: number, colour: string}[]} */
    this.places = [];
    this.picture = document.createElement('canvas');
    for (const name of ['pointerdown', 'pointermove']) {
      canvas.addEventListener(name, (event) => this.point(/** @type {PointerEvent} */ (event)));
    }
  }

  get factor() {
    const { width, height } = this.view.size;
    return Math.min(this.canvas.width / width, this.canvas.height / height);
  }

  /** @param {Content} content @param {(name: string) => string} colour */
  paint(content, colour) {
    const { width, height } = this.view.size;
    const factor = Math.min(MAP.width / width, MAP.height / height);
    this.canvas.width = Math.max(width * factor, MAP.least);
    this.canvas.height = Math.max(height * factor, MAP.least);
    this.canvas.style.width = `${this.canvas.width / 2}px`;
    this.picture.width = this.canvas.width;
    this.picture.height = this.canvas.height;
    const pen = /** @type {CanvasRenderingContext2D} */ (this.picture.getContext('2d'));
    pen.scale(this.factor, this.factor);
    this.paintContent(pen, content, colour);
    this.frame();
  }

  /**
   * @param {CanvasRenderingContext2D} pen
   * @param {Content} content
   * @param {(name: string) => string} colour
   */
  paintContent(pen, content, colour) {
    pen.save();
    pen.translate(content.x, content.y);
    for (const lane of content.lanes) {
      pen.save();
      pen.translate(lane.x, lane.y);
      for (const box of lane.boxes) {
        pen.fillStyle = colour(
          box.inner ? 'box' : box.kind === 'input' || box.kind === 'output' ? 'pill' : lane.name,
        );
        pen.fillRect(box.x, box.y, box.width, box.height);
        pen.save();
        pen.translate(box.x, box.y);
        for (const inner of box.inner?.contents ?? []) this.paintContent(pen, inner, colour);
        pen.restore();
      }
      pen.restore();
    }
    pen.restore();
  }

  /** Draw what is seen of the whole. */
  frame() {
    const pen = /** @type {CanvasRenderingContext2D} */ (this.canvas.getContext('2d'));
    const { x, y, scale, size } = this.view;
    const { width, height } = this.view.area();
    pen.clearRect(0, 0, this.canvas.width, this.canvas.height);
    if (this.picture.width) pen.drawImage(this.picture, 0, 0);
    const seen = [-x / scale, -y / scale, width / scale, height / scale].map(
      (each) => each * this.factor,
    );
    pen.lineWidth = 3;
    pen.strokeStyle = getComputedStyle(this.canvas).color;
    const [right, bottom] = [
      Math.min(seen[0] + seen[2], this.canvas.width - 2),
      Math.min(seen[1] + seen[3], this.canvas.height - 2),
    ];
    const [left, top] = [Math.max(seen[0], 2), Math.max(seen[1], 2)];
    pen.strokeRect(left, top, right - left, bottom - top);
    this.canvas.hidden = size.width * scale <= width && size.height * scale <= height;
  }

  /** @param {PointerEvent} event */
  point(event) {
    event.stopPropagation();
    if (!event.buttons) return;
    const box = this.canvas.getBoundingClientRect();
    const factor = this.factor / 2;
    const { width, height } = this.view.area();
    this.view.x = width / 2 - ((event.clientX - box.left - 7) / factor) * this.view.scale;
    this.view.y = height / 2 - ((event.clientY - box.top - 7) / factor) * this.view.scale;
    this.view.apply();
  }
}
