// @ts-check
// The document of the page, and what can be looked up in it.

/** @typedef {{name: string, type?: string, constant?: string}} Value */
/** @typedef {{name: string, type: string, why: string, size?: number, kept?: boolean}} Row */
/** @typedef {{strategy: string, rows?: Row[], size?: number | null}} Tape */
/** @typedef {{kind: 'added' | 'removed' | 'changed', details?: string[]}} Change */
/**
 * @typedef {{name: string, operator: string, inputs?: (number | null)[], outputs?: number[],
 *   lane?: string, attributes?: Record<string, string>, bodies?: number[], source?: number,
 *   origin?: string, doc?: string, tape?: Tape, change?: Change}} GraphNode
 */
/** @typedef {{title: string, items: Item[], key?: string, count?: number}} Section */
/** @typedef {number | Section} Item */
/**
 * @typedef {{title: string, inputs?: number[], outputs?: number[], lanes?: Record<string, Item[]>,
 *   upward?: boolean, doc?: string}} Graph
 */

const LANES = ['forward', 'gradient', 'update'];

class Model {
  /** @param {any} data */
  constructor(data) {
    this.name = /** @type {string} */ (data.name);
    this.facts = /** @type {Record<string, string>} */ (data.facts ?? {});
    this.doc = /** @type {string} */ (data.doc ?? '');
    this.changes = /** @type {[string, string][]} */ (data.changes ?? []);
    this.values = /** @type {Value[]} */ (data.values ?? []);
    this.nodes = /** @type {GraphNode[]} */ (data.nodes ?? []);
    this.graphs = /** @type {Graph[]} */ (data.graphs ?? []);
    /** The node that makes each value. @type {Map<number, number>} */
    this.producers = new Map();
    /** The nodes that read each value. @type {Map<number, number[]>} */
    this.readers = new Map();
    /** The nodes of the gradient that stem from each node. @type {Map<number, number[]>} */
    this.stems = new Map();
    /** The node around each graph. @type {Map<number, number>} */
    this.owners = new Map();
    /** The boxes around each box, itself the last. @type {Map<string, string[]>} */
    this.paths = new Map();
    /** The graph of each node. @type {Map<number, number>} */
    this.graphsOf = new Map();
    /** @type {Map<string, Section>} */
    this.sections = new Map();
    /** @type {Map<number, Set<number>>} */
    this.captured = new Map();
    /** Values of which a tape keeps what every trip makes. @type {Set<number>} */
    this.kept = new Set();
    this.nodes.forEach((node, number) => this.addNode(node, number));
    this.place();
  }

  /** @param {GraphNode} node @param {number} number */
  addNode(node, number) {
    for (const value of node.outputs ?? []) this.producers.set(value, number);
    for (const value of new Set(node.inputs ?? []))
      if (value !== null) push(this.readers, value, number);
    if (node.source !== undefined) push(this.stems, node.source, number);
    for (const body of node.bodies ?? []) if (!this.owners.has(body)) this.owners.set(body, number);
    const names = new Set(
      (node.tape?.rows ?? []).filter((row) => row.kept !== false).map((row) => row.name),
    );
    for (const body of names.size ? (node.bodies ?? []) : []) {
      for (const value of this.inside(body))
        if (names.has(this.values[value].name)) this.kept.add(value);
    }
  }

  /** The values that a graph itself defines. @param {number} graph @returns {number[]} */
  inside(graph) {
    const made = this.members(graph).flatMap((number) => this.nodes[number].outputs ?? []);
    return [...(this.graphs[graph].inputs ?? []), ...made];
  }

  /** The numbers of a graph's nodes. @param {number} graph @returns {number[]} */
  members(graph) {
    return Object.values(this.graphs[graph].lanes ?? {}).flatMap((items) =>
      items.flatMap(numbersOf),
    );
  }

  /** Note which boxes are around each box, from the main graph inwards, then in functions. */
  place() {
    const pending = /** @type {[number, string[]][]} */ ([[0, []]]);
    const seen = new Set([0]);
    while (pending.length) {
      const [graph, around] = /** @type {[number, string[]]} */ (pending.shift());
      for (const items of Object.values(this.graphs[graph].lanes ?? {}))
        this.placeItems(items, around);
      for (const number of this.members(graph)) {
        this.graphsOf.set(number, graph);
        for (const body of this.nodes[number].bodies ?? []) {
          if (seen.has(body)) continue;
          seen.add(body);
          pending.push([body, this.path(`n${number}`)]);
        }
      }
    }
  }

  /** @param {Item[]} items @param {string[]} around */
  placeItems(items, around) {
    for (const item of items) {
      if (typeof item === 'number') {
        this.paths.set(`n${item}`, [...around, `n${item}`]);
        continue;
      }
      item.key = `s${this.sections.size}`;
      item.count = numbersOf(item).length;
      this.sections.set(item.key, item);
      this.paths.set(item.key, [...around, item.key]);
      this.placeItems(item.items, this.path(item.key));
    }
  }

  /** @param {string} key @returns {string[]} */
  path(key) {
    return this.paths.get(key) ?? [key];
  }

  /** @param {number} number */
  graphOf(number) {
    return this.graphsOf.get(number) ?? 0;
  }

  /** What a node reads: its operands, and outer values in its bodies. @param {number} number */
  reads(number) {
    const node = this.nodes[number];
    const found = new Set((node.inputs ?? []).filter((value) => value !== null));
    for (const body of node.bodies ?? []) for (const value of this.captures(body)) found.add(value);
    return found;
  }

  /**
   * The outer values that a graph reads, at any depth.
   * @param {number} graph
   * @returns {Set<number>}
   */
  captures(graph) {
    const known = this.captured.get(graph);
    if (known) return known;
    const found = /** @type {Set<number>} */ (new Set());
    this.captured.set(graph, found);
    for (const number of this.members(graph))
      for (const value of this.reads(number)) if (value !== null) found.add(value);
    for (const value of this.graphs[graph].outputs ?? []) found.add(value);
    for (const value of this.inside(graph)) found.delete(value);
    return found;
  }

  /** The nodes on the other side: those that stem from a node, or the one that it stems from. */
  linked(/** @type {number} */ number) {
    const { source } = this.nodes[number];
    return source === undefined ? (this.stems.get(number) ?? []) : [source];
  }

  /** What a box can be unfolded to. @param {string} key */
  isFoldable(key) {
    return (
      key[0] === 's' || (key[0] === 'n' && Boolean(this.nodes[Number(key.slice(1))].bodies?.length))
    );
  }

  /** @param {number} value */
  isConstant(value) {
    return this.values[value].constant !== undefined && !this.producers.has(value);
  }
}

/** @param {Item} item @returns {number[]} */
function numbersOf(item) {
  return typeof item === 'number' ? [item] : item.items.flatMap(numbersOf);
}

/** @param {Item} item @returns {string} */
function keyOf(item) {
  return typeof item === 'number' ? `n${item}` : /** @type {string} */ (item.key);
}

/** @template K, V @param {Map<K, V[]>} map @param {K} key @param {V} value */
function push(map, key, value) {
  const list = map.get(key);
  if (list) list.push(value);
  else map.set(key, [value]);
}
