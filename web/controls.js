// What both parts of the page have: settings, numbers, and buttons that run, step and reset.

export class Controls {
  // `written` tells, by the name of a setting, how its value is written.
  constructor(part, written) {
    this.part = part;
    this.written = written;
    this.inputs = [...part.querySelectorAll("input")];
    this.inputs.forEach((input) => this.write(input));
  }

  // Calls `changed` whenever the user changes a setting.
  listen(changed) {
    for (const input of this.inputs)
      input.addEventListener("input", () => {
        this.write(input);
        changed();
      });
  }

  get settings() {
    return Object.fromEntries(this.inputs.map((input) => [input.name, Number(input.value)]));
  }

  set(name, value) {
    const input = this.inputs.find((each) => each.name === name);
    input.value = value;
    input.dispatchEvent(new Event("input"));
  }

  show(numbers) {
    for (const [name, text] of Object.entries(numbers))
      this.part.querySelector(`[data-shows=${name}]`).textContent = text;
  }

  write(input) {
    const text = this.written[input.name](Number(input.value));
    input.parentElement.querySelector(".value").textContent = text;
    input.setAttribute("aria-valuetext", text);
  }
}

// Makes steps one after the other while it runs, never two at a time.
export class Runner {
  // `step` returns whether there is more to do; steps begin `pause` milliseconds apart.
  constructor(part, { step, reset, pause, fail }) {
    Object.assign(this, { step, reset, pause, fail, last: Promise.resolve() });
    const button = (name) => part.querySelector(`button[name=${name}]`);
    this.button = button("run");
    this.button.onclick = () => (this.runs ? this.stop() : this.start());
    button("step").onclick = () => (this.stop(), this.once());
    button("reset").onclick = () => (this.stop(), this.once(reset));
    part.querySelectorAll("button").forEach((each) => (each.disabled = false));
  }

  get runs() {
    return this.run !== undefined;
  }

  start() {
    if (this.runs) return;
    this.button.textContent = "Pause";
    this.run = Symbol();
    this.go(this.run);
  }

  stop() {
    this.button.textContent = "Start";
    this.run = undefined;
  }

  // Does something after what is under way has ended.
  once(work = this.step) {
    this.last = this.last.then(work).catch((error) => {
      this.stop();
      this.fail(error);
    });
    return this.last;
  }

  // Makes steps until there are no more, or this run is over; another may have begun meanwhile.
  async go(run) {
    const began = performance.now();
    const more = await this.once();
    if (this.run !== run) return;
    if (!more) return this.stop();
    const wait = Math.max(0, this.pause - (performance.now() - began));
    setTimeout(() => requestAnimationFrame(() => this.run === run && this.go(run)), wait);
  }
}

// Whether pictures may move before anybody has pressed a button.
export const mayMove = () => !matchMedia("(prefers-reduced-motion: reduce)").matches;
