// @ts-check
// Draws what the layout has placed. Names come from strangers: they are text, never markup.

const SVG = 'http://www.w3.org/2000/svg';
const LANE_TITLES = { forward: 'model', gradient: 'gradient', update: 'computed from gradients' };

/**
 * @template {keyof HTMLElementTagNameMap} T
 * @param {T} tag @param {Record<string, any>} [properties] @param {(Node | string)[]} [children]
 * @returns {HTMLElementTagNameMap[T]}
 */
function element(tag, properties = {}, children = []) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name in made) /** @type {any} */ (made)[name] = value;
    else made.setAttribute(name, value);
  }
  made.append(...children);
  return made;
}

/** @param {string} tag @param {Record<string, string | number>} attributes */
function drawing(tag, attributes) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, String(value));
  return made;
}

/**
 * @param {HTMLElement} made
 * @param {{x: number, y: number, width: number, height: number}} place
 */
function put(made, { x, y, width, height }) {
  Object.assign(made.style, {
    left: `${x}px`,
    top: `${y}px`,
    width: `${width}px`,
    height: `${height}px`,
  });
  return made;
}

class Drawing {
  /** @param {Model} model */
  constructor(model) {
    this.model = model;
    /** What is drawn of each box. @type {Map<string, HTMLElement[]>} */
    this.cards = new Map();
    /** @type {Map<HTMLElement, Box>} */
    this.boxes = new Map();
  }

  /** @param {Content} content @returns {HTMLElement} */
  content(content) {
    const made = put(element('div', { className: 'content' }), content);
    if (content.title)
      made.append(element('div', { className: 'title', textContent: clip(content.title, 60) }));
    for (const lane of content.lanes) made.append(this.lane(lane, content.lanes.length > 1));
    return made;
  }

  /** @param {Lane} lane @param {boolean} titled */
  lane(lane, titled) {
    const made = put(element('div', { className: `lane ${lane.name}` }), lane);
    if (titled) {
      const title = /** @type {Record<string, string>} */ (LANE_TITLES)[lane.name];
      made.append(element('div', { className: 'lane-title', textContent: title }));
    }
    made.append(this.edges(lane), ...lane.boxes.map((box) => this.box(box, lane)));
    return made;
  }

  /** @param {Lane} lane */
  edges(lane) {
    const made = drawing('svg', {
      class: 'edges',
      width: Math.max(lane.width, 1),
      height: Math.max(lane.height, 1),
      'aria-hidden': 'true',
    });
    for (const edge of lane.edges) {
      const [from, to] = [lane.boxes[edge.from], lane.boxes[edge.to]];
      const path = drawing('path', {
        d: curve(edge.points, from, to),
        'data-from': from.key,
        'data-to': to.key,
      });
      const names = edge.values.map((value) => valueText(this.model.values[value]));
      const title = drawing('title', {});
      title.textContent = names.join('\n');
      path.append(title);
      made.append(path, arrow(edge.points, to));
    }
    return made;
  }

  /** @param {Box} box @param {Lane} lane @returns {HTMLElement} */
  box(box, lane) {
    const made = put(element('div', { className: `box ${box.kind}` }), box);
    made.dataset.key = box.key;
    for (const key of box.values?.map((value) => `v${value}`) ?? [box.key])
      push(this.cards, key, made);
    this.boxes.set(made, box);
    const node = typeof box.item === 'number' ? this.model.nodes[box.item] : undefined;
    made.classList.add(node?.lane ?? lane.name);
    if (box.inner) made.classList.add('open');
    const change = node?.change?.kind ?? (box.inner ? '' : this.changeInside(box));
    if (change) made.classList.add('changes', change);
    if (box.values?.some((value) => this.model.kept.has(value))) made.classList.add('kept');
    if (node?.outputs?.some((value) => this.model.kept.has(value))) made.classList.add('kept');
    made.append(...this.face(box));
    if (box.inner) made.append(...this.inner(box, box.inner));
    return made;
  }

  /** The kind of change in a folded box. @param {Box} box */
  changeInside(box) {
    const pending = box.item === undefined ? [] : numbersOf(box.item);
    const kinds = new Set();
    const seen = new Set();
    while (pending.length) {
      const node = this.model.nodes[/** @type {number} */ (pending.pop())];
      if (node.change) kinds.add(node.change.kind);
      for (const body of node.bodies ?? []) {
        // The body of a function is that of all its calls.
        if (!seen.has(body)) pending.push(...this.model.members(body));
        seen.add(body);
      }
    }
    return kinds.size === 1 ? [...kinds][0] : kinds.size ? 'changed' : '';
  }

  /** @param {Box} box */
  face({ kind, face: { title, lines }, key, inner }) {
    const parts = lines.map(({ kind: line, text, type }) =>
      element('div', { className: `line ${line}` }, [
        element('span', { className: 'text', textContent: text }),
        ...(type ? [element('span', { className: 'type', textContent: type })] : []),
      ]),
    );
    const head = element('div', { className: 'head' }, [
      element('span', { className: 'text', textContent: title }),
    ]);
    if ((kind === 'node' || kind === 'section') && this.model.isFoldable(key))
      head.append(foldButton(title, Boolean(inner)));
    return [head, ...parts];
  }

  /** @param {Box} box @param {Inner} inner */
  inner(box, { contents, rows, strategy, foot }) {
    const made = contents.map((content) => this.content(content));
    if (!strategy) return made;
    const width = box.width - 2 * SPACE.side;
    made.push(
      put(element('div', { className: 'strategy', textContent: strategy }), {
        x: SPACE.side,
        y: foot,
        width,
        height: wrapped(strategy, width),
      }),
    );
    for (const { row, y, height } of rows)
      made.push(put(tapeRow(row), { x: SPACE.side, y, width, height }));
    return made;
  }
}

/** @param {string} title @param {boolean} isOpen */
function foldButton(title, isOpen) {
  const label = `${isOpen ? 'Fold' : 'Unfold'} ${title}`;
  const button = element('button', {
    className: 'fold',
    type: 'button',
    title: label,
    'aria-label': label,
    'aria-expanded': String(isOpen),
  });
  const icon = drawing('svg', { viewBox: '0 0 16 16', 'aria-hidden': 'true' });
  icon.append(drawing('path', { d: isOpen ? 'M4 10l4-4 4 4' : 'M4 6l4 4 4-4' }));
  button.append(icon);
  return button;
}

/** @param {Row} row */
function tapeRow(row) {
  const size = row.size === undefined ? '' : bytes(row.size);
  return element('div', { className: 'row' }, [
    element('div', { className: 'what' }, [
      element('b', { textContent: row.name }),
      ' ',
      element('span', { className: 'type', textContent: row.type }),
      ' ',
      element('span', { className: 'size', textContent: size }),
    ]),
    element('div', { className: 'why', textContent: row.why }),
  ]);
}

/** @param {Value} value */
function valueText({ name, type, constant }) {
  return `${name || '(no name)'}${type ? ` : ${type}` : ''}${constant ? ` = ${constant}` : ''}`;
}

/**
 * Where an edge ends at a box: as near as may be to where it comes from.
 * @param {Box} box
 * @param {number} x
 */
function port(box, x) {
  const edge = Math.min(16, box.width / 2);
  return Math.min(Math.max(x, box.x + edge), box.x + box.width - edge);
}

/** @param {[number, number][]} points @param {Box} from @param {Box} to */
function curve(points, from, to) {
  const [first, last] = [points[1] ?? points[0], points[points.length - 2] ?? points[0]];
  const down = to.y >= from.y + from.height;
  const start = [port(from, first[0]), down ? from.y + from.height : from.y];
  const end = [port(to, last[0]), down ? to.y - 5 : to.y + to.height + 5];
  const all = [start, ...points.slice(1, -1), end];
  let text = `M${start[0]} ${start[1]}`;
  for (let place = 1; place < all.length; place += 1) {
    const [[x0, y0], [x1, y1]] = [all[place - 1], all[place]];
    const middle = (y0 + y1) / 2;
    text += Math.abs(x0 - x1) < 1 ? `L${x1} ${y1}` : `C${x0} ${middle} ${x1} ${middle} ${x1} ${y1}`;
  }
  return text;
}

/** @param {[number, number][]} points @param {Box} to */
function arrow(points, to) {
  const last = points[points.length - 2] ?? points[0];
  const x = port(to, last[0]);
  const down = points[0][1] <= points[points.length - 1][1];
  const [y, back] = down ? [to.y, -6] : [to.y + to.height, 6];
  return drawing('path', { class: 'arrow', d: `M${x} ${y}l-3.5 ${back}h7z` });
}
