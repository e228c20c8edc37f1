// @ts-check
// What is told of the model, or of the node that is selected.

class Panel {
  /** @param {HTMLElement} place @param {Model} model @param {(key: string) => void} go */
  constructor(place, model, go) {
    this.place = place;
    this.model = model;
    this.go = go;
  }

  overview() {
    const { model } = this;
    this.fill([
      element('h2', { textContent: model.name }),
      paragraphs(model.doc),
      table(Object.entries(model.facts)),
      ...this.changes(),
      part('Inputs', this.valueList(model.graphs[0].inputs ?? [])),
      part('Outputs', this.valueList(model.graphs[0].outputs ?? [])),
      ...this.tapes(),
      part('Legend', [element('div', { className: 'legend' }, legend(model))]),
    ]);
  }

  /** @param {number} number */
  node(number) {
    const { model } = this;
    const node = model.nodes[number];
    const lane =
      { gradient: 'of the gradient', update: 'computed from gradients' }[node.lane ?? ''] ?? '';
    this.fill([
      this.button('← the model', () => this.overview(), 'back'),
      element('h2', { textContent: node.operator }),
      element('p', {
        className: 'name',
        textContent: [node.name, lane].filter(Boolean).join(' · '),
      }),
      this.inside(`n${number}`),
      paragraphs(node.doc ?? ''),
      ...(node.change
        ? [
            part(`${node.change.kind[0].toUpperCase()}${node.change.kind.slice(1)}`, [
              list(node.change.details ?? []),
            ]),
          ]
        : []),
      ...this.linked(number),
      part('Inputs', this.valueList(node.inputs ?? [])),
      part('Outputs', this.valueList(node.outputs ?? [])),
      part('Attributes', [table(Object.entries(node.attributes ?? {}))]),
      ...(node.tape ? [part('Tape', tapeDetails(node.tape))] : []),
      part('Read by', this.nodeList(this.readers(node))),
    ]);
  }

  /** @param {Section} section */
  section(section) {
    const numbers = numbersOf(section);
    this.fill([
      this.button('← the model', () => this.overview(), 'back'),
      element('h2', { textContent: section.title }),
      element('p', {
        className: 'name',
        textContent: `${counted(numbers.length, 'node')}, drawn as one box`,
      }),
      this.inside(/** @type {string} */ (section.key)),
      part('Nodes', this.nodeList(numbers)),
    ]);
  }

  /** The boxes around a box. @param {string} key */
  inside(key) {
    const outer = this.model.path(key).slice(0, -1);
    const buttons = outer.map((each) => this.button(this.titleOf(each), () => this.go(each), ''));
    return buttons.length ? element('div', { className: 'inside' }, ['in', ...buttons]) : null;
  }

  /** @param {string} key */
  titleOf(key) {
    return key[0] === 's'
      ? (this.model.sections.get(key)?.title ?? '')
      : this.model.nodes[Number(key.slice(1))].operator;
  }

  /** @param {number[]} values */
  values(values) {
    const readers = new Set(values.flatMap((value) => this.model.readers.get(value) ?? []));
    this.fill([
      this.button('← the model', () => this.overview(), 'back'),
      part(counted(values.length, 'value'), this.valueList(values)),
      part('Read by', this.nodeList([...readers])),
    ]);
  }

  /** @param {(Node | null)[]} parts */
  fill(parts) {
    this.place.replaceChildren(...parts.filter((each) => each !== null));
    this.place.scrollTop = 0;
  }

  /** @param {GraphNode} node */
  readers(node) {
    return [
      ...new Set((node.outputs ?? []).flatMap((value) => this.model.readers.get(value) ?? [])),
    ];
  }

  /** @param {number} number */
  linked(number) {
    const { source, origin } = this.model.nodes[number];
    const title = source === undefined ? 'Its gradient' : 'Stems from';
    if (source === undefined && origin)
      return [part('Stems from', [element('p', { textContent: origin })])];
    return [part(title, this.nodeList(this.model.linked(number)))];
  }

  /** @param {string} text @param {() => void} act @param {string} name */
  button(text, act, name) {
    return element('button', { type: 'button', className: name, textContent: text, onclick: act });
  }

  /** @param {number[]} numbers */
  nodeList(numbers) {
    /** @type {HTMLElement[]} */
    const rows = numbers.slice(0, 200).map((number) => {
      const node = this.model.nodes[number];
      const made = node.outputs?.length ? this.model.values[node.outputs[0]].name : node.name;
      const button = this.button('', () => this.go(`n${number}`), `to ${node.lane ?? 'forward'}`);
      button.append(
        element('b', { textContent: node.operator }),
        ' ',
        element('span', { textContent: clipName(made, 44) }),
      );
      return button;
    });
    if (numbers.length > rows.length)
      rows.push(element('p', { textContent: `… ${numbers.length - rows.length} more` }));
    return rows;
  }

  /** @param {(number | null)[]} values */
  valueList(values) {
    return values.map((value) => {
      if (value === null)
        return element('div', { className: 'value' }, [element('i', { textContent: 'left out' })]);
      const { name, type, constant } = this.model.values[value];
      const producer = this.model.producers.get(value);
      const title = element('b', { textContent: name || '(no name)' });
      const shown =
        producer === undefined ? title : this.button('', () => this.go(`n${producer}`), 'maker');
      if (shown !== title) shown.append(title);
      return element('div', { className: 'value' }, [
        shown,
        ' ',
        element('span', { className: 'type', textContent: type ?? '' }),
        ...(this.model.kept.has(value)
          ? [' ', element('span', { className: 'badge', textContent: 'kept' })]
          : []),
        ...(constant ? [element('div', { className: 'constant', textContent: constant })] : []),
      ]);
    });
  }

  tapes() {
    const loops = this.model.nodes.flatMap((node, number) => (node.tape ? [number] : []));
    const parts = loops.map((number) => {
      const node = this.model.nodes[number];
      const [button] = this.nodeList([number]);
      return element('div', { className: 'tape' }, [
        button,
        ...tapeDetails(/** @type {Tape} */ (node.tape)),
      ]);
    });
    return parts.length ? [part('Tapes', parts)] : [];
  }

  changes() {
    const { model } = this;
    const nodes = model.nodes.flatMap((node, number) => (node.change ? [number] : []));
    const items = nodes.map((number) => {
      const { change } = model.nodes[number];
      const [button] = this.nodeList([number]);
      button.classList.add('changes', change?.kind ?? '');
      return element('div', {}, [button, list(change?.details ?? [])]);
    });
    const others = model.changes.map(([kind, text]) =>
      element('p', { className: `changes ${kind}`, textContent: text }),
    );
    return items.length + others.length ? [part('Changes', [...others, ...items])] : [];
  }
}

/** @param {Tape} tape */
function tapeDetails(tape) {
  const total = tape.size === null ? 'of unknown size' : bytes(tape.size ?? 0);
  const keeps = (tape.rows ?? []).some((row) => row.kept !== false);
  return [
    element('p', { className: 'why', textContent: tape.strategy }),
    element('p', { textContent: keeps ? `A trip keeps ${total}:` : 'A trip keeps nothing.' }),
    ...(tape.rows ?? []).map(tapeRow),
  ];
}

/** @param {string} title @param {Node[]} children */
function part(title, children) {
  if (!children.length || (children.length === 1 && !children[0].hasChildNodes())) return null;
  return element('section', {}, [element('h3', { textContent: title }), ...children]);
}

/** @param {[string, string][]} rows */
function table(rows) {
  return element(
    'dl',
    {},
    rows.flatMap(([name, text]) => [
      element('dt', { textContent: name }),
      element('dd', { textContent: text }),
    ]),
  );
}

/** @param {string[]} lines */
function list(lines) {
  return element(
    'ul',
    {},
    lines.map((line) => element('li', { textContent: line })),
  );
}

/** @param {string} text */
function paragraphs(text) {
  return text ? element('p', { className: 'doc', textContent: text }) : null;
}

/** @param {Model} model */
function legend(model) {
  const lanes = new Set(model.nodes.map((node) => node.lane ?? 'forward'));
  const changes = new Set(model.nodes.map((node) => node.change?.kind));
  const swatch = (/** @type {string} */ name, /** @type {string} */ text) =>
    element('div', {}, [element('span', { className: `swatch ${name}` }), text]);
  return [
    swatch('forward', 'node of the model'),
    ...(lanes.has('gradient')
      ? [swatch('gradient', 'node of the gradient'), swatch('link', 'stems from')]
      : []),
    ...(lanes.has('update') ? [swatch('update', 'computed from gradients')] : []),
    ...(model.kept.size ? [swatch('kept', 'kept of every trip, on a tape')] : []),
    swatch('pill', 'input or output'),
    ...['added', 'removed', 'changed']
      .filter((kind) => changes.has(/** @type {any} */ (kind)))
      .map((kind) => swatch(`changes ${kind}`, kind)),
  ];
}
