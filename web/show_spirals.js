// The part of the page that shows the network.

import { Controls, Runner } from "./controls.js";
import { Picture } from "./picture.js";
import { drawCurve, drawPoints, paintPlane } from "./spirals_picture.js";

// Steps between two pictures of the plane, which take longer than a step.
const EVERY = 4;
// After so many steps it rests, not to keep a device busy that nobody looks at.
const REST = 1000;

// The slider's value is a power of ten.
const rateOf = (power) => Number((10 ** power).toPrecision(2));

export class ShowSpirals {
  constructor(part, model, fail) {
    this.model = model;
    this.controls = new Controls(part, {
      trips: (value) => `${value}`,
      rate: (value) => `${rateOf(value)}`,
    });
    this.canvas = part.querySelector("canvas");
    const picture = (name, draw) => new Picture(part.querySelector(name), draw);
    this.points = picture(".points", () => drawPoints(this.points, model.points));
    this.curve = picture(".curve", () => drawCurve(this.curve, model.losses));
    this.runner = new Runner(part, {
      step: () => this.step(), reset: () => this.reset(), pause: 0, fail,
    });
    const look = () => this.runner.once(() => this.look());
    this.controls.listen(look);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", look);
  }

  // Returns whether to go on.
  async step() {
    const { trips, rate } = this.controls.settings;
    const began = performance.now();
    await this.model.step(trips, rateOf(rate));
    const took = performance.now() - began;
    const { losses } = this.model;
    this.controls.show({
      steps: losses.length,
      loss: losses.at(-1).toPrecision(4),
      time: `${took.toFixed(1)} ms`,
    });
    drawCurve(this.curve, losses);
    if (!this.runner.runs || losses.length % EVERY === 0) await this.look();
    return losses.length % REST !== 0;
  }

  async reset() {
    this.model.reset();
    this.controls.show({ steps: 0, loss: "–", time: "–" });
    drawCurve(this.curve, this.model.losses);
    await this.look();
  }

  async look() {
    const { trips } = this.controls.settings;
    paintPlane(this.canvas, await this.model.plane(this.canvas.width, trips));
    const accuracy = await this.model.accuracy(trips);
    this.controls.show({ accuracy: `${(100 * accuracy).toFixed(1)} %` });
  }
}
