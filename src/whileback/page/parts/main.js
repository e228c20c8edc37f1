// @ts-check
// Puts the page together.

// How many cards are drawn at first, and at most when all are unfolded at once.
const FIRST = 45,
  MOST = 1500;

class Page {
  constructor() {
    const data = JSON.parse(/** @type {string} */ (byId('document').textContent));
    this.model = new Model(data);
    this.stage = byId('stage');
    this.world = byId('world');
    this.word = byId('progress');
    /** @type {Set<string>} */
    this.open = unfoldedAtFirst(this.model);
    this.layout = new Layout(this.model, this.layouter(), this.open);
    this.drawing = new Drawing(this.model);
    this.links = new Links(this.model, this.drawing, this.world);
    this.map = /** @type {Overview | null} */ (null);
    this.view = new View(this.stage, this.world, () => this.map?.frame());
    this.map = new Overview(/** @type {HTMLCanvasElement} */ (byId('map')), this.view);
    this.panel = new Panel(byId('details'), this.model, (key) => this.go(key));
    this.search = new Search(
      /** @type {HTMLInputElement} */ (byId('search')),
      byId('results'),
      this.model,
      (key) => this.go(key),
    );
    this.selected = '';
    this.running = Promise.resolve();
  }

  async start() {
    document.title = `${this.model.name} · whileback`;
    byId('name').textContent = this.model.name;
    byId('count').textContent = counted(this.model.nodes.length, 'node');
    document.body.classList.toggle('bare', innerWidth <= 720);
    this.listen();
    this.panel.overview();
    await this.redraw();
    this.begin(0.6);
    document.documentElement.dataset.ready = 'true';
  }

  /** Show the whole, or what comes first. @param {number} scale at which text can be read */
  begin(scale) {
    this.view.fit(scale);
    const first = this.world.querySelector('.box:not(.open)');
    if (first) this.view.reveal([this.view.place(/** @type {HTMLElement} */ (first))]);
  }

  listen() {
    this.stage.addEventListener('click', (event) =>
      this.click(/** @type {HTMLElement} */ (event.target)),
    );
    this.stage.addEventListener('pointerover', (event) =>
      this.hover(/** @type {HTMLElement} */ (event.target)),
    );
    this.stage.addEventListener('pointerleave', () => this.hover(this.stage));
    this.stage.addEventListener('keydown', (event) => this.key(event));
    document.addEventListener('keydown', (event) => this.shortcut(event));
    /** @type {Record<string, () => void>} */
    const acts = {
      in: () => this.view.zoom(1.3),
      out: () => this.view.zoom(1 / 1.3),
      fit: () => this.view.fit(),
      unfold: () => this.unfoldLevel(),
      fold: () => this.foldAll(),
      panel: () => this.togglePanel(),
    };
    for (const [name, act] of Object.entries(acts)) byId(name).addEventListener('click', act);
    addEventListener('resize', () => this.map?.frame());
    themeSwitch(byId('theme'), () => this.paintMap());
  }

  layouter() {
    return new Layouter(layouterSource(), (reason) => {
      this.word.textContent = `This cannot be laid out: ${reason}`;
      this.word.hidden = false;
    });
  }

  /** Lay out and draw what is unfolded, one time after the other. */
  redraw() {
    this.running = this.running.then(() => this.draw());
    return this.running;
  }

  async draw() {
    const slow = setTimeout(() => {
      this.word.hidden = false;
    }, 120);
    const content = await this.layout.graph(0, '');
    clearTimeout(slow);
    this.word.hidden = true;
    this.content = content;
    this.view.size = content;
    this.drawing.cards.clear();
    this.drawing.boxes.clear();
    this.world.replaceChildren(this.drawing.content(content), this.links.overlay);
    this.paintMap();
    this.mark();
  }

  paintMap() {
    const probe = element('span', { hidden: true });
    document.body.append(probe);
    const colour = (/** @type {string} */ name) => {
      probe.style.color = `var(--map-${name})`;
      return getComputedStyle(probe).color;
    };
    if (this.content) this.map?.paint(this.content, colour);
    probe.remove();
  }

  /** @param {HTMLElement} target */
  click(target) {
    if (this.view.moved > 4) return;
    const card = /** @type {HTMLElement | null} */ (target.closest('.box'));
    const key = card?.dataset.key ?? '';
    if (card && target.closest('.fold')) this.toggle(key);
    else this.select(key, card);
  }

  /** @param {HTMLElement} target */
  hover(target) {
    const card = /** @type {HTMLElement | null} */ (target.closest('.box'));
    if (card) this.links.mark(card, 'hovered');
    else this.links.unmark('hovered');
    this.links.connect(card ?? this.card(), this.view);
  }

  card() {
    return this.drawing.cards.get(this.selected)?.[0] ?? null;
  }

  /** @param {string} key @param {HTMLElement | null} [card] */
  select(key, card = this.drawing.cards.get(key)?.[0] ?? null) {
    this.selected = key;
    this.tell(key);
    const partners = this.mark();
    if (!card) return;
    const shown = partners.filter((each) => each.isConnected).slice(0, 1);
    const places = [card, ...shown].map((each) => this.view.place(each));
    this.view.reveal(places);
    this.links.connect(card, this.view);
  }

  /** Mark what is selected; return what is linked with it. */
  mark() {
    const card = this.card();
    if (card) return this.links.mark(card, 'selected');
    this.links.unmark('selected');
    this.links.connect(null, this.view);
    return [];
  }

  /** @param {string} key */
  tell(key) {
    const number = Number(key.slice(1));
    if (key[0] === 'n') this.panel.node(number);
    else if (key[0] === 'v')
      this.panel.values(
        this.drawing.boxes.get(/** @type {HTMLElement} */ (this.card()))?.values ?? [number],
      );
    else if (key[0] === 's')
      this.panel.section(/** @type {Section} */ (this.model.sections.get(key)));
    else this.panel.overview();
    document.body.classList.toggle('told', Boolean(key));
    if (key) document.body.classList.remove('bare');
  }

  /** Fold or unfold a box, which stays where it is on the screen. @param {string} key */
  async toggle(key) {
    if (!this.model.isFoldable(key)) return;
    const before = this.drawing.cards.get(key)?.[0].getBoundingClientRect();
    if (!this.open.delete(key)) this.open.add(key);
    await this.redraw();
    const [card] = this.drawing.cards.get(key) ?? [];
    if (!card || !before) return;
    const after = card.getBoundingClientRect();
    this.view.pan(before.left - after.left, before.top - after.top);
    const inner = card.querySelector('.box');
    if (!inner) return;
    const head = { ...this.view.place(card), width: CARD.least, height: CARD.head };
    this.view.reveal([head, this.view.place(/** @type {HTMLElement} */ (inner))]);
  }

  /** Unfold what is around a box, and show it in the middle. @param {string} key */
  async go(key) {
    for (const outer of this.model.path(key).slice(0, -1)) this.open.add(outer);
    await this.redraw();
    const [card] = this.drawing.cards.get(key) ?? [];
    if (!card) return;
    if (this.view.scale < 0.7) this.view.zoom(1 / this.view.scale);
    this.view.reveal([this.view.place(card)], true);
    this.selected = key;
    this.tell(key);
    this.mark();
    this.links.connect(card, this.view);
  }

  unfoldLevel() {
    const folded = [...this.drawing.cards.keys()].filter(
      (key) => this.model.isFoldable(key) && !this.open.has(key),
    );
    const grown = folded.reduce(
      (sum, key) => sum + childrenOf(this.model, key).length,
      this.drawing.boxes.size,
    );
    if (grown > MOST)
      return this.say(`That would be ${grown} boxes: unfold those that you want to see.`);
    for (const key of folded) this.open.add(key);
    return this.redraw().then(() => this.begin(0.3));
  }

  foldAll() {
    this.open.clear();
    return this.redraw().then(() => this.begin(0.6));
  }

  togglePanel() {
    document.body.classList.toggle('bare');
    this.map?.frame();
  }

  /** @param {string} text */
  say(text) {
    const place = byId('said');
    place.textContent = text;
    place.hidden = false;
    setTimeout(() => {
      place.hidden = true;
    }, 4000);
  }

  /** @param {KeyboardEvent} event */
  shortcut(event) {
    const target = /** @type {HTMLElement} */ (event.target);
    if (event.ctrlKey || event.metaKey || event.altKey || target.matches('input')) return;
    /** @type {Record<string, () => void>} */
    const acts = {
      '/': () => this.search.field.select(),
      '+': () => this.view.zoom(1.3),
      '=': () => this.view.zoom(1.3),
      '-': () => this.view.zoom(1 / 1.3),
      0: () => this.view.fit(),
      Escape: () => this.select(''),
    };
    if (!acts[event.key]) return;
    event.preventDefault();
    acts[event.key]();
  }

  /** Walk from node to node. @param {KeyboardEvent} event */
  key(event) {
    if (event.key === 'Enter' && !(/** @type {HTMLElement} */ (event.target).closest('button')))
      this.toggle(this.selected);
    else if (event.key.startsWith('Arrow')) this.walk(event.key.slice(5));
    else return;
    event.preventDefault();
  }

  /** @param {string} way */
  walk(way) {
    const next = this.card()
      ? nearest(this.view, /** @type {HTMLElement} */ (this.card()), way)
      : [...this.drawing.boxes.keys()][0];
    if (next) this.select(next.dataset.key ?? '', next);
  }
}

/** What to unfold so that the first picture shows much, but not too much. @param {Model} model */
function unfoldedAtFirst(model) {
  const open = new Set();
  const pending = Object.values(model.graphs[0].lanes ?? {}).flatMap((items) => items.map(keyOf));
  let count = pending.length;
  while (pending.length) {
    const key = /** @type {string} */ (pending.shift());
    if (key[0] !== 'n' || !model.isFoldable(key)) continue;
    const inner = childrenOf(model, key);
    const ends = (model.nodes[Number(key.slice(1))].bodies ?? []).flatMap((body) => [
      ...(model.graphs[body].inputs ?? []),
      ...(model.graphs[body].outputs ?? []),
    ]);
    if (count + inner.length + ends.length > FIRST) continue;
    open.add(key);
    count += inner.length + ends.length;
    pending.push(...inner);
  }
  return open;
}

/** What is in a box. @param {Model} model @param {string} key */
function childrenOf(model, key) {
  if (key[0] === 's') return (model.sections.get(key)?.items ?? []).map(keyOf);
  const { bodies } = model.nodes[Number(key.slice(1))];
  return (bodies ?? []).flatMap((body) =>
    Object.values(model.graphs[body].lanes ?? {}).flatMap((items) => items.map(keyOf)),
  );
}

/**
 * Dark or light as the reader's system is, until the switch is used.
 * @param {HTMLElement} button
 * @param {() => void} changed
 */
function themeSwitch(button, changed) {
  const dark = matchMedia('(prefers-color-scheme: dark)');
  button.addEventListener('click', () => {
    const now = document.documentElement.dataset.theme ?? (dark.matches ? 'dark' : 'light');
    document.documentElement.dataset.theme = now === 'dark' ? 'light' : 'dark';
    changed();
  });
  dark.addEventListener('change', changed);
}

function layouterSource() {
  return /** @type {string} */ (byId('layouter').textContent);
}

/** @param {string} id */
function byId(id) {
  return /** @type {HTMLElement} */ (document.getElementById(id));
}

new Page().start();
