// @ts-check
// Moves boxes down so that a gradient stands beside what it stems from.

/** @param {Model} model @param {Lane[]} lanes */
function align(model, lanes) {
  const forward = lanes.find(({ name }) => name === 'forward');
  const gradient = lanes.find(({ name }) => name === 'gradient');
  if (!forward || !gradient) return;
  const [ours, theirs] = [rowsOf(forward), rowsOf(gradient)];
  const partners = partnersOf(model, forward, gradient);
  let at = 0;
  const shifts = { ours: 0, theirs: 0 };
  for (const row of ours) {
    const found = firstPartner(row, theirs, at, partners);
    row.shift = shifts.ours;
    if (!found) continue;
    for (; at < found.place; at += 1) theirs[at].shift = shifts.theirs;
    const target = Math.max(found.ours.y + shifts.ours, found.theirs.y + shifts.theirs);
    row.shift = shifts.ours = target - found.ours.y;
    theirs[at].shift = shifts.theirs = target - found.theirs.y;
    at += 1;
  }
  for (; at < theirs.length; at += 1) theirs[at].shift = shifts.theirs;
  move(forward, ours);
  move(gradient, theirs);
}

/** @typedef {{middle: number, boxes: Box[], shift: number}} BoxRow */

/**
 * The boxes of a lane that stand beside each other, from the top.
 * @param {Lane} lane
 * @returns {BoxRow[]}
 */
function rowsOf(lane) {
  const rows = /** @type {Map<number, BoxRow>} */ (new Map());
  for (const box of lane.boxes) {
    const middle = Math.round(box.y + box.height / 2);
    const row = rows.get(middle) ?? { middle, boxes: [], shift: 0 };
    row.boxes.push(box);
    rows.set(middle, row);
  }
  return [...rows.values()].sort((a, b) => a.middle - b.middle);
}

/**
 * For each box of the gradient the one that it stems from.
 * @param {Model} model
 * @param {Lane} forward
 * @param {Lane} gradient
 */
function partnersOf(model, forward, gradient) {
  const places = /** @type {Map<number, Box>} */ (new Map());
  for (const box of forward.boxes)
    if (box.item !== undefined) for (const number of numbersOf(box.item)) places.set(number, box);
  const found = /** @type {Map<Box, Box>} */ (new Map());
  for (const box of gradient.boxes) {
    const first = box.item === undefined ? undefined : numbersOf(box.item)[0];
    const source = first === undefined ? undefined : model.nodes[first].source;
    const partner = source === undefined ? undefined : places.get(source);
    if (partner) found.set(box, partner);
  }
  return found;
}

/**
 * @param {BoxRow} row
 * @param {BoxRow[]} rows
 * @param {number} from
 * @param {Map<Box, Box>} partners
 */
function firstPartner(row, rows, from, partners) {
  for (let place = from; place < rows.length; place += 1) {
    for (const theirs of rows[place].boxes) {
      const ours = partners.get(theirs);
      if (ours && row.boxes.includes(ours)) return { place, ours, theirs };
    }
  }
  return undefined;
}

/** @param {Lane} lane @param {BoxRow[]} rows */
function move(lane, rows) {
  for (const edge of lane.edges)
    edge.points = edge.points.map(([x, y]) => [x, y + shiftAt(rows, y)]);
  for (const { boxes, shift } of rows) for (const box of boxes) box.y += shift;
  lane.height = Math.max(...lane.boxes.map(({ y, height }) => y + height));
}

/** How far a point between rows moves. @param {BoxRow[]} rows @param {number} y */
function shiftAt(rows, y) {
  const after = rows.findIndex(({ middle }) => middle > y);
  if (after <= 0) return rows[after === 0 ? 0 : rows.length - 1].shift;
  const [above, below] = [rows[after - 1], rows[after]];
  const part = (y - above.middle) / (below.middle - above.middle);
  return above.shift + part * (below.shift - above.shift);
}
