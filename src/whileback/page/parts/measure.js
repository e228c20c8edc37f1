// @ts-check
// What stands on a card, and how large that makes it.

const CARD = { least: 128, most: 300, side: 12, head: 24, line: 16, end: 8 };
const FONTS = { head: '600 13px system-ui, sans-serif', line: '11.5px ui-monospace, Menlo, Consolas, monospace' };
const pen = /** @type {CanvasRenderingContext2D} */ (document.createElement('canvas').getContext('2d'));

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
  const given = [...parameters(model, node), ...Object.entries(node.attributes ?? {}).map(([name, text]) => `${name}=${text}`)];
  if (given.length) lines.push({ kind: 'given', text: clip(given.join(', '), 44) });
  const outputs = (node.outputs ?? []).map((value) => model.values[value]).filter(({ name }) => name);
  for (const { name, type } of outputs.slice(0, 3)) lines.push({ kind: 'made', text: clip(name, 30), type: type ?? '' });
  if (outputs.length > 3) lines.push({ kind: 'more', text: `… ${outputs.length - 3} more` });
  const across = forwardReads(model, number);
  if (across.length) lines.push({ kind: 'across', text: clip(`reads ${across.map((value) => model.values[value].name).join(', ')}`, 44) });
  if (node.tape) lines.push({ kind: 'tape', text: tapeSummary(node.tape) });
  return face(node.operator, lines, node.bodies?.length ? 26 : 0);
}

/** Weights and constants among the operands, as text. @param {Model} model @param {GraphNode} node */
function parameters(model, node) {
  const found = [];
  for (const value of node.inputs ?? []) {
    if (value === null || !model.isConstant(value)) continue;
    const { name, type, constant } = model.values[value];
    found.push((constant ?? '').length > 18 || / values/.test(constant ?? '') ? `${name} ${type ?? ''}` : constant);
  }
  return found;
}

/** Values of the model itself that a node of a gradient reads. @param {Model} model @param {number} number */
function forwardReads(model, number) {
  if (model.nodes[number].lane !== 'gradient') return [];
  return (model.nodes[number].inputs ?? []).filter((value) => {
    const producer = value === null ? undefined : model.producers.get(value);
    return producer !== undefined && (model.nodes[producer].lane ?? 'forward') === 'forward';
  }).map(Number);
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
  return face(clip(section.title, 36), lines, 26);
}

/** @param {string} title @param {Line[]} lines @param {number} button @returns {Face} */
function face(title, lines, button) {
  const widths = lines.map(({ text, type }) => textWidth(type ? `${text}  ${type}` : text, 'line'));
  const wide = Math.max(textWidth(title, 'head') + button, ...widths) + 2 * CARD.side + 4;
  const width = Math.ceil(Math.min(CARD.most, Math.max(CARD.least, wide)));
  return { title, lines, width, height: CARD.head + CARD.end + CARD.line * lines.length };
}

/** The label of an input or output. @param {Model} model @param {number} value @returns {Face} */
function pillFace(model, value) {
  const { name, type } = model.values[value];
  const text = clip(name, 32);
  const width = Math.ceil(Math.min(CARD.most, textWidth(`${text}  ${type ?? ''}`, 'line') + 30));
  return { title: text, lines: [{ kind: 'type', text: type ?? '' }], width, height: 24 };
}

/** How high a text is that wraps. @param {string} text @param {number} width */
function wrapped(text, width) {
  return Math.ceil((textWidth(text, 'line') * 1.08) / width) * CARD.line;
}
