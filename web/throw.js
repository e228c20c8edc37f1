// The throw: a gradient graph with a loop in it, and descent along its gradient.

import { bytes } from "./runtime.js";

// In m/s, along and up.
const FIRST = [6, 7];
// Differences are taken in 64 bits, where this is far from both rounding and curvature.
const SMALL = 1e-5;

export class Throw {
  static async open(ort) {
    const opened = async (name) => ort.InferenceSession.create(await bytes(`models/${name}.onnx`));
    return new Throw(ort.Tensor, await opened("throw.grad"), await opened("throw.double"));
  }

  constructor(Tensor, gradient, double) {
    Object.assign(this, { Tensor, gradient, double });
    this.reset();
  }

  reset() {
    this.velocity = FIRST;
    this.steps = 0;
  }

  // Returns what the gradient graph says of the throw as it is: loss, landing, path and gradient.
  async look({ wind, bounces, target }) {
    const results = await this.gradient.run(this.feeds("float32", this.velocity, wind, bounces, target));
    const { data, dims: [trips] } = results.path;
    const path = Array.from({ length: trips }, (_, trip) => [data[2 * trip], data[2 * trip + 1]]);
    const [loss, landing] = [results.loss.data[0], results.landing.data[0]];
    return { loss, landing, path, trips, gradient: [...results.velocity_grad.data] };
  }

  // Returns central differences of the loss: the forward model alone, run on both sides.
  async differences({ wind, bounces, target }) {
    const loss = async (velocity) => {
      const feeds = this.feeds("float64", velocity, wind, bounces, target);
      return (await this.double.run(feeds)).loss.data[0];
    };
    const [along, up] = this.velocity;
    return [
      ((await loss([along + SMALL, up])) - (await loss([along - SMALL, up]))) / (2 * SMALL),
      ((await loss([along, up + SMALL])) - (await loss([along, up - SMALL]))) / (2 * SMALL),
    ];
  }

  descend(gradient, rate) {
    this.velocity = this.velocity.map((speed, axis) => Math.fround(speed - rate * gradient[axis]));
    this.steps += 1;
  }

  feeds(type, velocity, wind, bounces, target) {
    const number = (value) => new this.Tensor(type, [value], []);
    return {
      velocity: new this.Tensor(type, velocity, [2]),
      wind: number(wind),
      bounces: new this.Tensor("int64", [BigInt(bounces)], []),
      target: number(target),
    };
  }
}
