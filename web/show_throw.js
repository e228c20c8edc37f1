// The part of the page that shows the throw.

import { Controls, Runner, mayMove } from "./controls.js";
import { Picture } from "./picture.js";
import { drawThrow, flyAlong, metresAt } from "./throw_picture.js";

// So many throws before are shown.
const GHOSTS = 60;
// In metres: the ball is at the flag.
const HIT = 0.01;

const signed = (number, digits) => number.toFixed(digits).replace("-", "−");

export class ShowThrow {
  constructor(part, model, fail) {
    this.model = model;
    this.before = [];
    this.controls = new Controls(part, {
      target: (value) => `${value} m`,
      bounces: (value) => `${value}`,
      wind: (value) => `${signed(value, 0)} m/s`,
      rate: (value) => `${value}`,
    });
    this.picture = new Picture(part.querySelector(".picture"), () => this.draw());
    this.runner = new Runner(part, {
      step: () => this.step(), reset: () => this.reset(), pause: 90, fail,
    });
    this.listen(this.picture.svg);
  }

  listen(svg) {
    this.controls.listen(async () => {
      this.before = [];
      await this.runner.once(() => this.look());
      this.runner.start();
    });
    const aim = ({ clientX }) => this.controls.set("target", metresAt(this.picture, clientX));
    svg.onpointerdown = aim;
    svg.onpointermove = (event) => event.buttons === 1 && aim(event);
  }

  // Returns whether the flag is still to be hit.
  async step() {
    this.before = [...this.before, this.seen.path].slice(-GHOSTS);
    this.model.descend(this.seen.gradient, this.controls.settings.rate);
    await this.look();
    if (this.miss > HIT) return true;
    if (mayMove()) flyAlong(this.picture, this.seen.path);
    return false;
  }

  async reset() {
    this.before = [];
    this.model.reset();
    await this.look();
  }

  async look() {
    const { settings } = this.controls;
    const differences = await this.model.differences(settings);
    this.seen = { ...settings, ...await this.model.look(settings), differences };
    this.write();
    this.draw();
  }

  get miss() {
    return Math.abs(this.seen.landing - this.seen.target);
  }

  write() {
    const { gradient, differences, trips } = this.seen;
    const error = Math.max(...gradient.map((each, axis) => Math.abs(each - differences[axis])));
    this.controls.show({
      trips,
      miss: `${this.miss.toFixed(3)} m`,
      steps: this.model.steps,
      gradient0: signed(gradient[0], 4),
      gradient1: signed(gradient[1], 4),
      difference0: signed(differences[0], 4),
      difference1: signed(differences[1], 4),
      verdict: `They differ by ${Math.max(error, 1e-6).toFixed(6)} at most.`,
    });
  }

  draw() {
    if (this.seen) drawThrow(this.picture, this.before, this.seen);
  }
}
