// @ts-check
// Finds nodes by name, operator and type.

const HITS = 100;

class Search {
  /**
   * @param {HTMLInputElement} field
   * @param {HTMLElement} results
   * @param {Model} model
   * @param {(key: string) => void} go
   */
  constructor(field, results, model, go) {
    this.field = field;
    this.results = results;
    this.model = model;
    this.go = go;
    /** @type {number[]} */
    this.hits = [];
    this.at = -1;
    this.texts = model.nodes.map((node) => textsOf(model, node));
    field.addEventListener('input', () => this.find());
    field.addEventListener('focus', () => this.find());
    field.addEventListener('keydown', (event) => this.key(event));
    results.addEventListener('pointerdown', (event) => event.preventDefault());
    results.addEventListener('click', (event) => {
      const row = /** @type {HTMLElement} */ (event.target).closest('[data-at]');
      if (row) this.choose(Number(/** @type {HTMLElement} */ (row).dataset.at));
    });
    field.addEventListener('blur', () => this.show(false));
  }

  find() {
    const words = this.field.value.toLowerCase().split(/\s+/).filter(Boolean);
    const { paths } = this.model;
    const ranks = this.texts.map((texts, number) =>
      words.length && paths.has(`n${number}`) ? rank(texts, words) : Infinity,
    );
    this.hits = [...ranks.keys()]
      .filter((number) => ranks[number] < Infinity)
      .sort((a, b) => ranks[a] - ranks[b]);
    this.at = -1;
    this.show(words.length > 0);
  }

  /** @param {boolean} visible */
  show(visible) {
    this.results.hidden = !visible;
    this.field.setAttribute('aria-expanded', String(visible));
    if (!visible) return;
    const rows = this.hits.slice(0, HITS).map((number, at) => this.row(number, at));
    const more = this.hits.length > HITS ? `, the first ${HITS} of them here` : '';
    const said = this.hits.length
      ? `${counted(this.hits.length, 'node')}${more}`
      : 'Nothing is called that.';
    this.results.replaceChildren(element('p', { textContent: said, role: 'status' }), ...rows);
  }

  /** @param {number} number @param {number} at */
  row(number, at) {
    const node = this.model.nodes[number];
    const made = (node.outputs ?? []).map((value) => this.model.values[value]);
    const row = element(
      'div',
      {
        className: `hit ${node.lane ?? 'forward'}`,
        role: 'option',
        id: `hit${at}`,
        'aria-selected': 'false',
      },
      [
        element('b', { textContent: node.operator }),
        ' ',
        element('span', { textContent: made[0]?.name || node.name }),
        ' ',
        element('span', { className: 'type', textContent: made[0]?.type ?? '' }),
      ],
    );
    row.dataset.at = String(at);
    return row;
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    const steps = { ArrowDown: 1, ArrowUp: -1 };
    if (event.key === 'Escape') {
      this.field.value = '';
      this.show(false);
      this.field.blur();
    } else if (event.key === 'Enter')
      this.choose(
        this.at < 0
          ? 0
          : event.shiftKey
            ? this.at - 1
            : this.results.hidden
              ? this.at + 1
              : this.at,
      );
    else if (event.key in steps)
      this.step(steps[/** @type {'ArrowDown' | 'ArrowUp'} */ (event.key)]);
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  /** @param {number} by */
  step(by) {
    if (this.results.hidden) this.show(this.hits.length > 0);
    const count = Math.min(this.hits.length, HITS);
    if (count) this.point((this.at + by + count) % count);
  }

  /** @param {number} at */
  point(at) {
    this.at = at;
    for (const row of this.results.querySelectorAll('.hit'))
      row.setAttribute('aria-selected', String(row.id === `hit${at}`));
    const row = document.getElementById(`hit${at}`);
    row?.scrollIntoView({ block: 'nearest' });
    this.field.setAttribute('aria-activedescendant', row ? row.id : '');
  }

  /** Go to a hit; the next Enter goes to the one after it. @param {number} at */
  choose(at) {
    if (!this.hits.length) return;
    this.at = (at + this.hits.length) % this.hits.length;
    this.show(false);
    this.go(`n${this.hits[this.at]}`);
  }
}

/**
 * What a node is called, what it is, and what it reads.
 * @param {Model} model
 * @param {GraphNode} node
 * @returns {string[][]}
 */
function textsOf(model, node) {
  const made = (node.outputs ?? []).map((value) => model.values[value]);
  const read = (node.inputs ?? []).map((value) => (value === null ? '' : model.values[value].name));
  const names = [node.operator, node.name, ...made.map(({ name }) => name)];
  return [names, made.map(({ type }) => type ?? ''), read].map((texts) =>
    texts.map((text) => text.toLowerCase()),
  );
}

/**
 * First what is called so, then what is called alike, then what has such a type, then what reads it.
 * @param {string[][]} texts
 * @param {string[]} words
 */
function rank([names, types, read], words) {
  if (names.includes(words.join(' '))) return 0;
  const within = [names, [...names, ...types], [...names, ...types, ...read]];
  const place = within.findIndex((texts) =>
    words.every((word) => texts.some((text) => text.includes(word))),
  );
  return place < 0 ? Infinity : place + 1;
}
