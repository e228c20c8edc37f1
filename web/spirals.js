// The network: steps of training in whole batches, and what it says of each place of the plane.

import { bytes } from "./runtime.js";
import { parse } from "./safetensors.mjs";
import { Training } from "./training.mjs";

export class Spirals {
  static async open(ort) {
    const training = await Training.open(ort, (name) => bytes(`models/spirals/${name}`));
    const points = parse(await bytes("models/points.safetensors"), ort.Tensor);
    return new Spirals(ort.Tensor, training, points);
  }

  constructor(Tensor, training, points) {
    Object.assign(this, { Tensor, training, points });
    this.reset();
  }

  reset() {
    this.training.reset();
    this.losses = [];
  }

  // Makes a step with all points; the loss before it is added to `losses`.
  async step(trips, rate) {
    const { point, label } = this.points;
    this.losses.push(await this.training.step({ point, label, trips: this.count(trips) }, rate));
  }

  // Returns which part of the points held out is told right.
  async accuracy(trips) {
    const { held_point: point, held_label: label } = this.points;
    const scores = await this.scores(point, label, trips);
    const right = scores.filter((score, row) => score > 0 === (label.data[row] === 1n));
    return right.length / scores.length;
  }

  // Returns, row by row from the top left, how far each place of a grid is taken for the spiral 1.
  async plane(side, trips) {
    const at = (place) => (2 * place + 1) / side - 1;
    const places = Float32Array.from({ length: 2 * side * side }, (_, n) => {
      const [column, row] = [(n >> 1) % side, Math.floor((n >> 1) / side)];
      return n % 2 === 0 ? at(column) : -at(row);
    });
    const label = new BigInt64Array(side * side);
    const rows = [side * side];
    return this.scores(
      new this.Tensor("float32", places, [...rows, 2]), new this.Tensor("int64", label, rows), trips,
    );
  }

  // Returns how far the score of 1 is above that of 0.
  async scores(point, label, trips) {
    const { score } = await this.training.evaluate({ point, label, trips: this.count(trips) });
    return Array.from({ length: score.dims[0] }, (_, row) => score.data[2 * row + 1] - score.data[2 * row]);
  }

  count(trips) {
    return new this.Tensor("int64", [BigInt(trips)], []);
  }
}
