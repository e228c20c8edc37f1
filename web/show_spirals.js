// The part of the page that shows the network.

import { Controls, Runner, mayMove } from "./controls.js";
import { Picture } from "./picture.js";

// Steps between two pictures of the plane, which take longer than a step.
const EVERY = 4;
const LOSSES = [1e-4, 10];

export function showSpirals(part, model, fail) {
  const rateOf = (power) => Number((10 ** power).toPrecision(2));
  const controls = new Controls(part, {
    trips: (value) => `${value}`,
    rate: (value) => `${rateOf(value)}`,
  });
  const canvas = part.querySelector("canvas");
  const points = new Picture(part.querySelector(".points"), () => drawPoints(points, model.points));
  const curve = new Picture(part.querySelector(".curve"), () => drawCurve(curve, model.losses));

  async function look() {
    const { trips } = controls.settings;
    paint(canvas, await model.plane(canvas.width, trips));
    controls.show({ accuracy: `${(100 * (await model.accuracy(trips))).toFixed(1)} %` });
  }

  async function step() {
    const { settings } = controls;
    const began = performance.now();
    await model.step(settings.trips, rateOf(settings.rate));
    const took = performance.now() - began;
    controls.show({
      steps: model.losses.length,
      loss: model.losses.at(-1).toPrecision(4),
      time: `${took.toFixed(1)} ms`,
    });
    drawCurve(curve, model.losses);
    if (!runner.runs || model.losses.length % EVERY === 0) await look();
    return true;
  }

  async function reset() {
    model.reset();
    controls.show({ steps: 0, loss: "–", time: "–" });
    drawCurve(curve, model.losses);
    await look();
  }

  const runner = new Runner(part, { step, reset, pause: 0, fail });
  controls.listen(() => runner.once(look));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => runner.once(look));
  runner.once(reset).then(() => mayMove() && runner.start());
}

function colour(node, name) {
  const text = getComputedStyle(node).getPropertyValue(name).trim();
  return [1, 3, 5].map((at) => parseInt(text.slice(at, at + 2), 16));
}

function paint(canvas, scores) {
  const context = canvas.getContext("2d");
  const image = context.createImageData(canvas.width, canvas.height);
  const [none, one, two] = ["--plane", "--plane-one", "--plane-two"].map((name) => colour(canvas, name));
  scores.forEach((score, n) => {
    const sure = Math.tanh(score / 2);
    const towards = sure < 0 ? one : two;
    for (let c = 0; c < 3; c++)
      image.data[4 * n + c] = none[c] + Math.abs(sure) * (towards[c] - none[c]);
    image.data[4 * n + 3] = 255;
  });
  context.putImageData(image, 0, 0);
}

function drawPoints(picture, { point, label, held_point, held_label }) {
  picture.clear();
  const draw = ({ data }, labels, kind) =>
    labels.data.forEach((each, row) => {
      const x = ((data[2 * row] + 1) / 2) * picture.width;
      const y = ((1 - data[2 * row + 1]) / 2) * picture.height;
      picture.dot(x, y, Math.max(2, picture.width / 130), `${kind} ${each === 1n ? "two" : "one"}`);
    });
  draw(point, label, "point");
  draw(held_point, held_label, "held");
}

function drawCurve(picture, losses) {
  const { width, height } = picture;
  if (!width) return;
  picture.clear();
  const [left, bottom] = [56, 24];
  const [low, high] = LOSSES.map(Math.log10);
  const steps = Math.max(200, losses.length);
  const x = (step) => left + ((width - left - 8) * step) / steps;
  const y = (loss) => {
    const part = (Math.min(high, Math.max(low, Math.log10(loss))) - low) / (high - low);
    return 10 + (height - bottom - 10) * (1 - part);
  };
  for (let power = low; power <= high; power++) {
    picture.line([[left, y(10 ** power)], [width - 8, y(10 ** power)]], "grid");
    picture.text(left - 6, y(10 ** power) + 4, `${10 ** power}`, "axis");
  }
  picture.text(left, height - 6, "0", "scale");
  picture.text(width - 8, height - 6, `${steps} steps`, "axis");
  picture.text(left + 8, 24, "loss", "name");
  picture.line(losses.map((loss, step) => [x(step), y(loss)]), "loss");
}
