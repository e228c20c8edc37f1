// @ts-check
// What stands on a card, and how large that makes it.

const CARD = { least: 128, most: 300, side: 12, head: 24, line: 16, end: 8 };
const FONTS = {
  head: '600 13px system-ui, sans-serif',
  line: '11.5px ui-monospace, Menlo, Consolas, monospace',
};
const pen = /** @type {CanvasRenderingContext2D} */ (
  document.createElement('canvas').getContext('2d')
);

/** @typedef {{kind: string, text: string, type?: string}} Line */
/** @typedef {{title: string, lines: Line[], width: number, height: number}} Face */

/** @param {string} text @param {keyof typeof FONTS} font */
function textWidth(text, font) {
  pen.font = FONTS[font];
  return pen.measureText(text).width;
}

/** @param {string} text @param {number} length */
function clip(text, length) {
  return text.length <= length ? text : `${text.slice(0, length - 1)}…`;
}

/**
 * A name without its middle: scopes begin alike, and what tells them apart stands last.
 * @param {string} text
 * @param {number} length
 */
function clipName(text, length) {
  const start = Math.floor(length / 4);
  return text.length <= length ? text : `${text.slice(0, start)}…${text.slice(start + 1 - length)}`;
}

/** @param {number} count */
function bytes(count) {
  const units = ['B', 'KB', 'MB', 'GB', 'TB'];
  let place = 0;
  for (; count >= 1024 && place < units.length - 1; place += 1) count /= 1024;
  return `${place ? count.toFixed(1) : count} ${units[place]}`;
}

/** @param {number} count @param {string} what */
function counted(count, what) {
  return `${count} ${what}${count === 1 ? '' : 's'}`;
}

/** The card of a node. @param {Model} model @param {number} number @returns {Face} */
function nodeFace(model, number) {
  const node = model.nodes[number];
  /** @type {Line[]} */
  const lines = [];
  const given = [
    ...parameters(model, node),
    ...Object.entries(node.attributes ?? {}).map(([name, text]) => `${name}=${text}`),
  ];
  if (given.length) lines.push({ kind: 'given', text: clip(given.join(', '), 44) });
  const outputs = (node.outputs ?? [])
    .map((value) => model.values[value])
    .filter(({ name }) => name);
  for (const { name, type } of outputs.slice(0, 3))
    lines.push({ kind: 'made', text: clipName(name, 30), type: clip(shortType(type), 40) });
  if (outputs.length > 3) lines.push({ kind: 'more', text: `… ${outputs.length - 3} more` });
  if (node.tape) lines.push({ kind: 'tape', text: tapeSummary(node.tape) });
  return makeFace(node.operator, lines, node.bodies?.length ? 26 : 0);
}

/**
 * Weights and constants among the operands, as text.
 * @param {Model} model
 * @param {GraphNode} node
 */
function parameters(model, node) {
  const found = [];
  for (const value of node.inputs ?? []) {
    if (value === null || !model.isConstant(value)) continue;
    const { name, type, constant } = model.values[value];
    found.push(
      (constant ?? '').length > 18 || / values/.test(constant ?? '')
        ? `${name} ${type ?? ''}`
        : constant,
    );
  }
  return found;
}

/**
 * A card that also names what is read without an edge to it.
 * @param {Model} model
 * @param {Face} face
 * @param {number[]} values
 * @returns {Face}
 */
function withReads(model, { title, lines }, values, button = 0) {
  const names = values.map((value) => model.values[value].name).join(', ');
  return makeFace(title, [...lines, { kind: 'across', text: clip(`reads ${names}`, 44) }], button);
}

/** Sizes without a name of their own are left open. @param {string} [type] */
function shortType(type = '') {
  return type.replace(/\b_d\d+\b/g, '?');
}

/** @param {Tape} tape */
function tapeSummary(tape) {
  const kept = (tape.rows ?? []).filter((row) => row.kept !== false).length;
  if (!kept) return 'keeps nothing of a trip';
  const size = tape.size === null ? '' : ` ${bytes(tape.size ?? 0)},`;
  return `tape:${size} ${counted(kept, 'value')} a trip`;
}

/** The card of a section. @param {Model} model @param {Section} section @returns {Face} */
function sectionFace(model, section) {
  const counts = new Map();
  const numbers = numbersOf(section);
  for (const number of numbers) {
    const { operator } = model.nodes[number];
    counts.set(operator, (counts.get(operator) ?? 0) + 1);
  }
  const most = [...counts].sort(([, a], [, b]) => b - a).slice(0, 3);
  const lines = [
    { kind: 'given', text: counted(numbers.length, 'node') },
    { kind: 'made', text: clip(most.map(([name, count]) => `${name} ${count}`).join(' · '), 40) },
  ];
  const title = clipName(section.title, 34);
  // From afar the title stands alone, twice as large.
  return makeFace(title, lines, textWidth(title, 'head'));
}

/** @param {string} title @param {Line[]} lines @param {number} button @returns {Face} */
function makeFace(title, lines, button) {
  const widths = lines.map(({ text, type }) => textWidth(type ? `${text}  ${type}` : text, 'line'));
  const wide = Math.max(textWidth(title, 'head') + button, ...widths) + 2 * CARD.side + 4;
  const width = Math.ceil(Math.min(CARD.most, Math.max(CARD.least, wide)));
  return { title, lines, width, height: CARD.head + CARD.end + CARD.line * lines.length };
}

/**
 * The label of an input or output, or of several.
 * @param {Model} model
 * @param {number[]} values
 * @param {string} kind
 * @returns {Face}
 */
function pillFace(model, values, kind) {
  const [{ name, type }] =
    values.length > 1
      ? [{ name: counted(values.length, kind), type: '' }]
      : [model.values[values[0]]];
  const text = clipName(name, 32),
    short = clip(shortType(type), 32);
  const width = Math.ceil(Math.min(CARD.most, textWidth(`${text}  ${short}`, 'line') * 1.04 + 34));
  return { title: text, lines: [{ kind: 'type', text: short }], width, height: 24 };
}

/** How high a text is that wraps. @param {string} text @param {number} width */
function wrapped(text, width) {
  return Math.ceil((textWidth(text, 'line') * 1.08) / width) * CARD.line;
}
