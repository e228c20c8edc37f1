// @ts-check
// The window on the drawing: moved by dragging, wheel and fingers, and zoomed.

const ZOOM = { least: 0.02, most: 2.5, far: 0.5, away: 0.22 };

class View {
  /** @param {HTMLElement} stage @param {HTMLElement} world @param {() => void} changed */
  constructor(stage, world, changed) {
    this.stage = stage;
    this.world = world;
    this.changed = changed;
    this.x = 0;
    this.y = 0;
    this.scale = 1;
    this.size = { width: 1, height: 1 };
    /** @type {Map<number, {x: number, y: number}>} */
    this.fingers = new Map();
    this.moved = 0;
    stage.addEventListener('wheel', (event) => this.wheel(event), { passive: false });
    stage.addEventListener('pointerdown', (event) => this.down(event));
    stage.addEventListener('pointermove', (event) => this.move(event));
    for (const name of ['pointerup', 'pointercancel'])
      stage.addEventListener(name, (event) => this.up(/** @type {PointerEvent} */ (event)));
  }

  apply() {
    this.world.style.transform = `translate(${this.x}px, ${this.y}px) scale(${this.scale})`;
    this.world.classList.toggle('far', this.scale < ZOOM.far);
    this.world.classList.toggle('away', this.scale < ZOOM.away);
    this.world.style.setProperty('--scale', String(this.scale));
    this.changed();
  }

  /** The part of the stage that nothing lies over. */
  area() {
    const { width, height } = this.stage.getBoundingClientRect();
    return { width, height };
  }

  /**
   * Zoom, and leave a point of the stage where it is.
   * @param {number} factor
   * @param {number} [x]
   * @param {number} [y]
   */
  zoom(factor, x = this.area().width / 2, y = this.area().height / 2) {
    const scale = Math.min(ZOOM.most, Math.max(ZOOM.least, this.scale * factor));
    this.x = x - ((x - this.x) * scale) / this.scale;
    this.y = y - ((y - this.y) * scale) / this.scale;
    this.scale = scale;
    this.apply();
  }

  /** @param {number} x @param {number} y */
  pan(x, y) {
    this.x += x;
    this.y += y;
    this.apply();
  }

  /** Show all, or as much as can be read, from the top. @param {number} least */
  fit(least = 0) {
    const { width, height } = this.area();
    const whole = Math.min((width - 48) / this.size.width, (height - 48) / this.size.height, 1.1);
    this.scale = Math.max(whole >= least * 0.75 ? whole : least, ZOOM.least);
    this.x = Math.max(16, (width - this.size.width * this.scale) / 2);
    this.y = Math.max(24, (height - this.size.height * this.scale) / 2);
    this.apply();
  }

  /** Where an element of the drawing is in it. @param {HTMLElement} made */
  place(made) {
    const [box, stage] = [made.getBoundingClientRect(), this.stage.getBoundingClientRect()];
    return {
      x: (box.left - stage.left - this.x) / this.scale,
      y: (box.top - stage.top - this.y) / this.scale,
      width: box.width / this.scale,
      height: box.height / this.scale,
    };
  }

  /**
   * Move as little as shows some places, if they can be shown and read.
   * @param {{x: number, y: number, width: number, height: number}[]} places
   */
  reveal(places, centre = false) {
    const left = Math.min(...places.map(({ x }) => x)),
      top = Math.min(...places.map(({ y }) => y));
    const right = Math.max(...places.map(({ x, width }) => x + width));
    const bottom = Math.max(...places.map(({ y, height }) => y + height));
    const { width, height } = this.area();
    const margin = Math.min(48, width / 10);
    const fitting = Math.min(
      (width - 2 * margin) / (right - left),
      (height - 2 * margin) / (bottom - top),
    );
    if (fitting < this.scale && places.length > 1) this.zoom(Math.max(fitting, 0.3) / this.scale);
    const [x0, x1, y0, y1] = [left, right, top, bottom].map(
      (at, place) => at * this.scale + (place < 2 ? this.x : this.y),
    );
    this.x += centre ? width / 2 - (x0 + x1) / 2 : shift(x0, x1, width, margin);
    this.y += centre
      ? height / 2 - (y0 + Math.min(y1, y0 + height)) / 2
      : shift(y0, y1, height, margin);
    this.apply();
  }

  /** @param {WheelEvent} event */
  wheel(event) {
    event.preventDefault();
    const { left, top } = this.stage.getBoundingClientRect();
    const unit = event.deltaMode === 1 ? 16 : 1;
    if (event.ctrlKey || event.metaKey)
      this.zoom(Math.exp(-event.deltaY * unit * 0.008), event.clientX - left, event.clientY - top);
    else this.pan(-event.deltaX * unit, -event.deltaY * unit);
  }

  /** @param {PointerEvent} event */
  down(event) {
    if (event.button > 1) return;
    if (!this.fingers.size) this.moved = 0;
    this.fingers.set(event.pointerId, { x: event.clientX, y: event.clientY });
  }

  /** @param {PointerEvent} event */
  move(event) {
    const before = this.fingers.get(event.pointerId);
    if (!before) return;
    const now = { x: event.clientX, y: event.clientY };
    const others = [...this.fingers]
      .filter(([id]) => id !== event.pointerId)
      .map(([, finger]) => finger);
    this.moved += Math.hypot(now.x - before.x, now.y - before.y);
    // A click that trembles is still a click: from here on it is a drag, wherever the pointer goes.
    if (this.moved > 4 && !this.stage.hasPointerCapture(event.pointerId))
      this.stage.setPointerCapture(event.pointerId);
    this.fingers.set(event.pointerId, now);
    if (others.length) this.pinch(before, now, others[0]);
    else if (this.moved > 4) this.pan(now.x - before.x, now.y - before.y);
  }

  /**
   * @param {{x: number, y: number}} before
   * @param {{x: number, y: number}} now
   * @param {{x: number, y: number}} other
   */
  pinch(before, now, other) {
    const { left, top } = this.stage.getBoundingClientRect();
    const [old, far] = [before, now].map(({ x, y }) => Math.hypot(x - other.x, y - other.y));
    this.pan((now.x - before.x) / 2, (now.y - before.y) / 2);
    if (old > 0) this.zoom(far / old, (now.x + other.x) / 2 - left, (now.y + other.y) / 2 - top);
  }

  /** @param {PointerEvent} event */
  up(event) {
    this.fingers.delete(event.pointerId);
  }
}

/**
 * How far a stretch must move to be seen.
 * @param {number} from
 * @param {number} to
 * @param {number} size
 * @param {number} margin
 */
function shift(from, to, size, margin) {
  if (from < margin || to - from > size - 2 * margin) return margin - from;
  return to > size - margin ? size - margin - to : 0;
}
