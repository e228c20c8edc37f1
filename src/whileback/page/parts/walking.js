// @ts-check
// Which box comes next when one walks by arrows.

/**
 * The box on one side of a card: down into what is unfolded, and up out of it at its end.
 * @param {View} view
 * @param {HTMLElement} card
 * @param {string} way
 * @returns {HTMLElement | null}
 */
function nearest(view, card, way) {
  const inner = /** @type {HTMLElement | null} */ (card.querySelector('.box'));
  if (way === 'Down' && inner) return inner;
  for (
    let at = /** @type {HTMLElement | null | undefined} */ (card);
    at;
    at = at.parentElement?.closest('.box')
  ) {
    const found = beyond(view, at, way);
    if (found) return found;
  }
  return null;
}

/**
 * The closest of the boxes around a card that lies on one side of it.
 * @param {View} view
 * @param {HTMLElement} card
 * @param {string} way
 */
function beyond(view, card, way) {
  const [along, aside, sign] = {
    Up: ['y', 'x', -1],
    Down: ['y', 'x', 1],
    Left: ['x', 'y', -1],
    Right: ['x', 'y', 1],
  }[way] ?? ['y', 'x', 1];
  const content = /** @type {HTMLElement} */ (card.closest('.content'));
  const from = /** @type {any} */ (ends(view.place(card)));
  let best = null,
    least = Infinity;
  for (const other of /** @type {NodeListOf<HTMLElement>} */ (
    content.querySelectorAll(':scope > .lane > .box')
  )) {
    const to = /** @type {any} */ (ends(view.place(other)));
    const ahead = sign === 1 ? to[along][0] - from[along][1] : from[along][0] - to[along][1];
    const off = Math.max(0, to[aside][0] - from[aside][1], from[aside][0] - to[aside][1]);
    if (other !== card && ahead > -1 && ahead + 2 * off < least)
      [best, least] = [other, ahead + 2 * off];
  }
  return best;
}

/** @param {Place} place */
function ends({ x, y, width, height }) {
  return { x: [x, x + width], y: [y, y + height] };
}
