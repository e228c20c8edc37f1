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
    Object.assign(this, { step, reset, pause, fail });
    const button = (name) => part.querySelector(`button[name=${name}]`);
    this.button = button("run");
    this.button.onclick = () => (this.runs ? this.stop() : this.start());
    button("step").onclick = () => (this.stop(), this.once());
    button("reset").onclick = () => (this.stop(), this.once(reset));
    part.querySelectorAll("button").forEach((each) => (each.disabled = false));
    this.last = Promise.resolve();
  }

  start() {
    if (this.runs) return;
    this.name(true);
    this.go();
  }

  stop() {
    this.name(false);
  }

  // Does something after what is under way has ended.
  once(work = this.step) {
    this.last = this.last.then(work).catch((error) => {
      this.stop();
      this.fail(error);
    });
    return this.last;
  }

  async go() {
    const began = performance.now();
    const more = await this.once();
    if (!more) this.stop();
    if (!this.runs) return;
    const wait = this.pause - (performance.now() - began);
    setTimeout(() => requestAnimationFrame(() => this.runs && this.go()), Math.max(0, wait));
  }

  name(runs) {
    this.runs = runs;
    this.button.textContent = runs ? "Pause" : "Start";
  }
}

// Whether pictures may move before anybody has pressed a button.
export const mayMove = () => !matchMedia("(prefers-reduced-motion: reduce)").matches;
