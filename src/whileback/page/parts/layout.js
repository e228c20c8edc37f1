// @ts-check
// Where everything stands: bodies first, then what they stand in.

/** @typedef {{from: number, to: number, values: number[], points: [number, number][]}} Edge */
/**
 * @typedef {{kind: 'node' | 'section' | 'input' | 'output', key: string, face: Face, x: number, y: number,
 *   width: number, height: number, item?: Item, values?: number[], contents?: Content[], inner?: Inner}} Box
 */
/**
 * @typedef {{name: string, x: number, y: number, width: number, height: number, boxes: Box[], edges: Edge[]}} Lane
 */
/**
 * @typedef {{title: string, x: number, y: number, width: number, height: number, lanes: Lane[]}} Content
 */
/**
 * What an unfolded box holds.
 * @typedef {{contents: Content[], rows: {row: Row, y: number, height: number}[], strategy: string, foot: number}} Inner
 */

const SPACE = { side: 18, top: 40, title: 24, between: 28, lane: 64, label: 30 };
// A value that more boxes read than this has an edge to the first alone; the others name it.
const CROWD = 5;
// More values than this that come from one place, or go to one, are drawn as one.
const FEW = 3;

/** Asks the worker, and remembers what it said. */
class Layouter {
  /** @param {string} source @param {(reason: string) => void} failed */
  constructor(source, failed) {
    this.url = URL.createObjectURL(new Blob([source], { type: 'text/javascript' }));
    this.worker = new Worker(this.url);
    this.known = /** @type {Map<string, Promise<any>>} */ (new Map());
    this.waiting = /** @type {Map<number, (answer: any) => void>} */ (new Map());
    this.worker.onmessage = ({ data }) => {
      this.waiting.get(data.id)?.(data);
      this.waiting.delete(data.id);
    };
    this.worker.onerror = ({ message }) => failed(message);
    this.asked = 0;
  }

  /** @param {[number, number][]} boxes @param {[number, number][]} edges @param {boolean} upward */
  ask(boxes, edges, upward) {
    const question = JSON.stringify([boxes, edges, upward]);
    const known = this.known.get(question);
    if (known) return known;
    const answer = new Promise((resolve) => {
      this.asked += 1;
      this.waiting.set(this.asked, resolve);
      this.worker.postMessage({ id: this.asked, boxes, edges, upward });
    });
    this.known.set(question, answer);
    return answer;
  }
}

class Layout {
  /**
   * @param {Model} model
   * @param {Layouter} layouter
   * @param {Set<string>} open the boxes that are unfolded
   */
  constructor(model, layouter, open) {
    this.model = model;
    this.layouter = layouter;
    this.open = open;
  }

  /** @param {number} number @param {string} title @returns {Promise<Content>} */
  async graph(number, title) {
    const graph = this.model.graphs[number];
    const names = LANES.filter((name) => graph.lanes?.[name]);
    const ends = { inputs: graph.inputs ?? [], outputs: graph.outputs ?? [] };
    const lanes = await Promise.all(
      (names.length ? names : ['forward']).map((name, place) =>
        this.lane(
          name,
          graph.lanes?.[name] ?? [],
          ends,
          name === 'gradient' && graph.upward !== false,
          place === 0,
        ),
      ),
    );
    align(this.model, lanes);
    return beside(title, lanes);
  }

  /**
   * @param {string} name @param {Item[]} items @param {{inputs: number[], outputs: number[]}} ends
   * @param {boolean} upward @param {boolean} first whether what no node makes or reads stands here
   * @returns {Promise<Lane>}
   */
  async lane(name, items, ends, upward, first) {
    const boxes = await Promise.all(items.map((item) => this.box(item)));
    const wires = new Wires(this.model, name, boxes);
    wires.connect(ends, first);
    for (const box of boxes) if (box.contents) unfold(this.model, box, box.contents);
    const edges = [...wires.edges.values()];
    const all = wires.boxes;
    if (!all.length)
      return { name, x: 0, y: 0, width: CARD.least, height: 0, boxes: [], edges: [] };
    const placed = await this.layouter.ask(
      all.map(({ width, height }) => [width, height]),
      edges.map(({ from, to }) => [from, to]),
      upward,
    );
    all.forEach((box, place) =>
      Object.assign(box, { x: placed.boxes[place][0], y: placed.boxes[place][1] }),
    );
    edges.forEach((edge, place) => {
      edge.points = placed.edges[place];
    });
    return { name, x: 0, y: 0, width: placed.width, height: placed.height, boxes: all, edges };
  }

  /** @param {Item} item @returns {Promise<Box>} */
  async box(item) {
    const key = keyOf(item);
    const isNode = typeof item === 'number';
    const face = isNode ? nodeFace(this.model, item) : sectionFace(this.model, item);
    const kind = isNode ? 'node' : 'section';
    /** @type {Box} */
    const box = { kind, key, face, item, x: 0, y: 0, width: face.width, height: face.height };
    if (!this.open.has(key)) return box;
    box.contents = isNode ? await this.bodies(item) : [await this.section(item)];
    return box;
  }

  /** @param {number} number */
  bodies(number) {
    const bodies = this.model.nodes[number].bodies ?? [];
    return Promise.all(bodies.map((body) => this.graph(body, this.model.graphs[body].title)));
  }

  /** @param {Section} section */
  async section(section) {
    const [first] = numbersOf(section);
    const name = this.model.nodes[first].lane ?? 'forward';
    const upward =
      name === 'gradient' && this.model.graphs[this.model.graphOf(first)].upward !== false;
    const lane = await this.lane(name, section.items, { inputs: [], outputs: [] }, upward, false);
    return beside('', [lane]);
  }
}

/** The edges among the boxes of a lane, and boxes for what comes in and goes out. */
class Wires {
  /** @param {Model} model @param {string} name @param {Box[]} boxes */
  constructor(model, name, boxes) {
    this.model = model;
    this.name = name;
    this.boxes = [...boxes];
    /** @type {Map<string, Edge>} */
    this.edges = new Map();
    /** @type {Map<number, number>} */
    this.makers = new Map();
    /** The boxes that read each value. @type {Map<number, number[]>} */
    this.readers = new Map();
    boxes.forEach(({ item }, place) => {
      for (const number of numbersOf(/** @type {Item} */ (item))) {
        for (const value of model.nodes[number].outputs ?? []) this.makers.set(value, place);
      }
    });
    boxes.forEach(({ item }, place) => {
      const read = numbersOf(/** @type {Item} */ (item)).flatMap((number) => [
        ...model.reads(number),
      ]);
      for (const value of new Set(read)) if (value !== null) push(this.readers, value, place);
    });
  }

  /** @param {{inputs: number[], outputs: number[]}} ends @param {boolean} first */
  connect(ends, first) {
    this.enter(new Set(ends.inputs), first);
    const loose = /** @type {Map<number, number[]>} */ (new Map());
    for (const [value, readers] of this.readers) {
      const maker = this.makers.get(value);
      const far =
        maker === undefined
          ? this.model.isConstant(value)
            ? []
            : readers
          : this.wire(value, maker, readers);
      for (const reader of far) push(loose, reader, value);
    }
    for (const [reader, values] of loose) this.tell(this.boxes[reader], values);
    this.leave(ends.outputs, first);
  }

  /** Add boxes for what comes from outside. @param {Set<number>} inputs @param {boolean} first */
  enter(inputs, first) {
    /** @type {Map<number, number[]>} */
    const entering = new Map();
    for (const value of first ? inputs : []) entering.set(value, []);
    for (const [value, readers] of this.readers) {
      if (inputs.has(value) || (!this.model.isConstant(value) && this.isOwn(value)))
        entering.set(value, readers);
    }
    for (const value of this.makers.keys()) entering.delete(value);
    for (const values of groups(entering)) {
      const place = this.pill('input', values);
      for (const value of values) this.makers.set(value, place);
    }
  }

  /**
   * Draw edges to the boxes that read a value; return those for which that would be too many.
   * @param {number} value
   * @param {number} maker
   * @param {number[]} readers
   */
  wire(value, maker, readers) {
    const others = readers.filter((reader) => reader !== maker);
    const drawn = others.length > CROWD ? others.slice(0, 1) : others;
    for (const reader of drawn) this.edge(maker, reader, value);
    return others.slice(drawn.length);
  }

  /** Tell on a card what it reads without an edge. @param {Box} box @param {number[]} values */
  tell(box, values) {
    if (typeof box.item !== 'number') return;
    // What only the bodies read is seen there once they are unfolded.
    const inputs = this.model.nodes[box.item].inputs ?? [];
    const told = box.contents ? values.filter((value) => inputs.includes(value)) : values;
    if (!told.length) return;
    box.face = withReads(this.model, box.face, told, this.model.isFoldable(box.key) ? 26 : 0);
    Object.assign(box, { width: box.face.width, height: box.face.height });
  }

  /** Add boxes for what a graph gives out. @param {number[]} outputs @param {boolean} first */
  leave(outputs, first) {
    const leaving = /** @type {Map<number, number[]>} */ (new Map());
    for (const value of outputs) {
      const maker = this.makers.get(value);
      const passed =
        maker === undefined ? !this.model.producers.has(value) : this.boxes[maker].kind === 'input';
      if (passed ? first : maker !== undefined)
        leaving.set(value, maker === undefined ? [] : [maker]);
    }
    for (const values of groups(leaving)) {
      const place = this.pill('output', values);
      for (const maker of leaving.get(values[0]) ?? [])
        for (const value of values) this.edge(maker, place, value);
    }
  }

  /**
   * Whether a value from outside is drawn as coming in: not from another lane.
   * @param {number} value
   */
  isOwn(value) {
    const producer = this.model.producers.get(value);
    return producer === undefined || (this.model.nodes[producer].lane ?? 'forward') === this.name;
  }

  /** @param {'input' | 'output'} kind @param {number[]} values */
  pill(kind, values) {
    const face = pillFace(this.model, values, kind);
    this.boxes.push({
      kind,
      key: `v${values[0]}`,
      face,
      values,
      x: 0,
      y: 0,
      width: face.width,
      height: face.height,
    });
    return this.boxes.length - 1;
  }

  /** @param {number} from @param {number} to @param {number} value */
  edge(from, to, value) {
    const known = this.edges.get(`${from} ${to}`);
    if (!known) this.edges.set(`${from} ${to}`, { from, to, values: [value], points: [] });
    else if (!known.values.includes(value)) known.values.push(value);
  }
}

/**
 * Values at the same boxes: together if they are many, or else each for itself.
 * @param {Map<number, number[]>} places
 * @returns {number[][]}
 */
function groups(places) {
  const found = /** @type {Map<string, number[]>} */ (new Map());
  for (const [value, boxes] of places) push(found, boxes.join(' '), value);
  return [...found.values()].flatMap((values) =>
    values.length > FEW ? [values] : values.map((value) => [value]),
  );
}

/** Lanes from left to right. @param {string} title @param {Lane[]} lanes @returns {Content} */
function beside(title, lanes) {
  const labelled = lanes.length > 1 ? SPACE.label : 0;
  let x = 0;
  for (const lane of lanes) {
    lane.x = x;
    lane.y = labelled;
    x += lane.width + SPACE.lane;
  }
  const height = Math.max(...lanes.map((lane) => lane.height)) + labelled;
  return { title, x: 0, y: 0, width: x - SPACE.lane, height, lanes };
}

/**
 * Give a box room for what it holds.
 * @param {Model} model @param {Box} box @param {Content[]} contents
 */
function unfold(model, box, contents) {
  const tape = typeof box.item === 'number' ? model.nodes[box.item].tape : undefined;
  const top = CARD.head + CARD.end + box.face.lines.length * CARD.line;
  let x = SPACE.side;
  for (const content of contents) {
    content.x = x;
    content.y = top + (content.title ? SPACE.title : 0);
    x += Math.max(content.width, textWidth(content.title, 'line')) + SPACE.between;
  }
  box.width = Math.max(box.face.width, x - SPACE.between + SPACE.side, tape ? 320 : 0);
  let y = Math.max(...contents.map((content) => content.y + content.height)) + SPACE.side;
  const foot = y;
  const strategy = tape?.strategy ?? '';
  const inner = box.width - 2 * SPACE.side;
  if (tape) y += wrapped(strategy, inner) + 8;
  const rows = (tape?.rows ?? []).map((row) => {
    const height = CARD.line + wrapped(row.why, inner) + 6;
    y += height;
    return { row, y: y - height, height };
  });
  box.height = y + (tape ? CARD.end : 0);
  box.inner = { contents, rows, strategy, foot };
}
