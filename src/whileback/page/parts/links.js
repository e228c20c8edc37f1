// @ts-check
// Which boxes belong together: a node with its gradient, and with what it reads and is read by.

class Links {
  /** @param {Model} model @param {Drawing} drawing @param {HTMLElement} world */
  constructor(model, drawing, world) {
    this.model = model;
    this.drawing = drawing;
    this.world = world;
    this.overlay = overlayLayer();
    world.append(this.overlay);
  }

  /**
   * What is drawn of a node, or of the folded box around it.
   * @param {number} number
   * @returns {HTMLElement[]}
   */
  seen(number) {
    for (const key of this.model.path(`n${number}`).toReversed()) {
      const cards = this.drawing.cards.get(key);
      if (cards) return cards;
    }
    return [];
  }

  /** The numbers of nodes that are linked with a box. @param {Box} box @returns {number[]} */
  partners({ item }) {
    if (item === undefined) return [];
    if (typeof item === 'number') return this.model.linked(item);
    return [...new Set(numbersOf(item).flatMap((number) => this.model.linked(number)))];
  }

  /** @param {HTMLElement} card @param {string} name the class that marks partners */
  mark(card, name) {
    this.unmark(name);
    const box = this.drawing.boxes.get(card);
    if (!box) return [];
    const found = new Set(this.partners(box).flatMap((number) => this.seen(number)));
    found.delete(card);
    card.classList.add(name);
    for (const partner of found)
      if (!partner.contains(card) && !card.contains(partner))
        partner.classList.add(name, 'partner');
    this.wires(box, name);
    return [...found];
  }

  /** @param {string} name */
  unmark(name) {
    for (const made of this.world.querySelectorAll(`.${name}`))
      made.classList.remove(name, 'partner');
  }

  /** Mark the edges at a box. @param {Box} box @param {string} name */
  wires({ key }, name) {
    const quoted = CSS.escape(key);
    for (const path of this.world.querySelectorAll(
      `path[data-from="${quoted}"], path[data-to="${quoted}"]`,
    ))
      path.classList.add(name);
  }

  /**
   * Draw from a card to what is linked with it, and to values that it reads of another lane.
   * @param {HTMLElement | null} card
   * @param {View} view
   */
  connect(card, view) {
    this.overlay.replaceChildren();
    const box = card && this.drawing.boxes.get(card);
    if (!card || !box || !card.isConnected) return;
    const from = view.place(card);
    const read = typeof box.item === 'number' ? this.across(box.item) : [];
    for (const [numbers, name] of /** @type {[number[], string][]} */ ([
      [this.partners(box), 'link'],
      [read, 'data'],
    ])) {
      const others = [...new Set(numbers.flatMap((number) => this.seen(number)))];
      for (const other of others) {
        if (
          other.contains(card) ||
          card.contains(other) ||
          others.some((outer) => outer !== other && outer.contains(other))
        )
          continue;
        this.overlay.append(drawing('path', { class: name, d: across(view.place(other), from) }));
      }
    }
  }

  /** Nodes of other lanes whose values a node reads. @param {number} number */
  across(number) {
    const lane = this.model.nodes[number].lane;
    const makers = [...this.model.reads(number)].map((value) =>
      this.model.producers.get(value ?? -1),
    );
    return makers
      .filter((maker) => maker !== undefined && this.model.nodes[maker].lane !== lane)
      .map(Number);
  }
}

function overlayLayer() {
  return drawing('svg', { class: 'overlay', width: 1, height: 1, 'aria-hidden': 'true' });
}

/** @typedef {{x: number, y: number, width: number, height: number}} Place */

/**
 * A curve between the sides of two places that face each other.
 * @param {Place} a
 * @param {Place} b
 */
function across(a, b) {
  const [left, right] = a.x + a.width / 2 <= b.x + b.width / 2 ? [a, b] : [b, a];
  const [x0, y0] = [left.x + left.width, left.y + Math.min(left.height / 2, 16)];
  const [x1, y1] = [right.x, right.y + Math.min(right.height / 2, 16)];
  const bend = Math.max(36, Math.abs(x1 - x0) / 2);
  return `M${x0} ${y0}C${x0 + bend} ${y0} ${x1 - bend} ${y1} ${x1} ${y1}`;
}
