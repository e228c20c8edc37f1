// The part of the page that shows the throw.

import { Controls, Runner, mayMove } from "./controls.js";
import { Picture } from "./picture.js";

const METRES = 32;
const GHOSTS = 60;
// In metres: the ball is at the flag.
const HIT = 0.005;

const signed = (number, digits) => number.toFixed(digits).replace("-", "−");

export function showThrow(part, model, fail) {
  const controls = new Controls(part, {
    target: (value) => `${value} m`,
    bounces: (value) => `${value}`,
    wind: (value) => `${signed(value, 0)} m/s`,
    rate: (value) => `${value}`,
  });
  const before = [];
  let seen;
  const picture = new Picture(part.querySelector(".picture"), () => draw());

  async function look() {
    const { settings } = controls;
    seen = { ...(await model.look(settings)), differences: await model.differences(settings), ...settings };
    write();
    draw();
  }

  async function step() {
    const { rate } = controls.settings;
    before.push(seen.path);
    if (before.length > GHOSTS) before.shift();
    model.descend(seen.gradient, rate);
    await look();
    return Math.abs(seen.landing - seen.target) > HIT;
  }

  async function reset() {
    before.length = 0;
    model.reset();
    await look();
  }

  function write() {
    const { gradient, differences, landing, target, trips } = seen;
    const error = Math.max(...gradient.map((each, axis) => Math.abs(each - differences[axis])));
    controls.show({
      trips,
      miss: `${Math.abs(landing - target).toFixed(3)} m`,
      steps: model.steps,
      ...Object.fromEntries(gradient.map((each, axis) => [`gradient${axis}`, signed(each, 5)])),
      ...Object.fromEntries(differences.map((each, axis) => [`difference${axis}`, signed(each, 5)])),
      verdict: `They differ by ${error.toExponential(0).replace("-", "−")} at most.`,
    });
  }

  function draw() {
    if (!seen || !picture.width) return;
    drawThrow(picture, { ...seen, before });
  }

  const runner = new Runner(part, { step, reset, pause: 90, fail });
  controls.listen(async () => {
    before.length = 0;
    await runner.once(look);
    runner.start();
  });
  part.querySelector(".picture").onpointerdown = (event) => {
    const metres = ((event.offsetX / picture.width) * METRES - 1).toFixed(1);
    controls.set("target", metres);
  };
  runner.once(reset).then(() => mayMove() && runner.start());
}

function drawThrow(picture, { path, before, gradient, target }) {
  const scale = picture.width / METRES;
  const ground = picture.height - 26;
  const at = ([x, y]) => [(x + 1) * scale, ground - y * scale];
  picture.clear();
  const start = [0, 1.5];
  before.forEach((each) => picture.line([start, ...each].map(at), "ghost"));
  picture.line([[0, ground], [picture.width, ground]], "ground");
  for (let metres = 0; metres < METRES; metres += 5) {
    const [x, y] = at([metres, 0]);
    picture.line([[x, y], [x, y + 5]], "ground");
    picture.text(x, y + 19, `${metres}${metres === 0 ? " m" : ""}`, "scale");
  }
  flag(picture, at([target, 0]), scale);
  picture.line([start, ...path].map(at), "way");
  path.forEach((place) => picture.dot(...at(place), 2.2, "trip"));
  arrow(picture, at(start), at(ahead(start, gradient)));
  picture.dot(...at(start), 5, "ball");
  picture.dot(...at(path.at(-1)), 5, "ball");
}

// Where an arrow along minus the gradient ends: long where the gradient is large, but not too long.
function ahead([x, y], gradient) {
  const size = Math.hypot(...gradient) || 1;
  const length = Math.min(6, 1 + Math.log1p(size));
  return [x - (gradient[0] / size) * length, y - (gradient[1] / size) * length];
}

function flag(picture, [x, y], scale) {
  const height = Math.max(40, 2 * scale);
  picture.line([[x, y], [x, y - height]], "pole");
  picture.add("path", { d: `M${x} ${y - height} l22 8 l-22 8 z`, class: "flag" });
}

function arrow(picture, [x, y], [toX, toY]) {
  const angle = Math.atan2(toY - y, toX - x);
  const wing = (turn) => [toX - 9 * Math.cos(angle + turn), toY - 9 * Math.sin(angle + turn)];
  picture.line([[x, y], [toX, toY]], "arrow");
  picture.line([wing(0.45), [toX, toY], wing(-0.45)], "arrow");
}
