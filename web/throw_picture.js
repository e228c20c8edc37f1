// The picture of the throw: ground, flag, ways of the ball, and minus the gradient as an arrow.

const METRES = 36;
// How much of them is left of where the ball is thrown.
const MARGIN = 3.5;
const START = [0, 1.5];
// In seconds, as in the model.
const TRIP = 0.04;
// In pixels.
const BELOW = 26, FLAG = 40, WING = 9;

// Returns the number of metres at a place of the window.
export function metresAt({ svg, width }, clientX) {
  return ((clientX - svg.getBoundingClientRect().left) / width) * METRES - MARGIN;
}

// Returns what gives the place on a picture of one in metres.
function placed({ width, height }) {
  const scale = width / METRES;
  return ([x, y]) => [(x + MARGIN) * scale, height - BELOW - y * scale];
}

export function drawThrow(picture, before, { path, gradient, target }) {
  const at = placed(picture);
  picture.clear();
  for (const each of before) picture.line([START, ...each].map(at), "ghost");
  drawGround(picture, at);
  drawFlag(picture, at([target, 0]));
  picture.line([START, ...path].map(at), "way");
  for (const place of path) picture.dot(...at(place), 2.2, "trip");
  drawArrow(picture, at(START), at(downhill(START, gradient)));
  picture.dot(...at(START), 5, "ball");
  picture.dot(...at(path.at(-1)), 5, "ball");
}

// Lets a ball fly as fast as it would.
export function flyAlong(picture, path) {
  const way = [START, ...path].map(placed(picture));
  picture.move(picture.dot(...way.at(-1), 6, "ball"), way, path.length * TRIP);
}

function drawGround(picture, at) {
  const y = at([0, 0])[1];
  picture.line([[0, y], [picture.width, y]], "ground");
  for (let metres = 0; metres <= 30; metres += 5) {
    const [x] = at([metres, 0]);
    picture.line([[x, y], [x, y + 5]], "ground");
    picture.text(x, y + 19, metres === 30 ? "30 m" : `${metres}`, "scale");
  }
}

function drawFlag(picture, [x, y]) {
  picture.line([[x, y], [x, y - FLAG]], "pole");
  picture.add("path", { d: `M${x} ${y - FLAG} l22 8 l-22 8 z`, class: "flag" });
}

// Returns where an arrow along minus the gradient ends: the longer, the larger that is.
function downhill([x, y], [along, up]) {
  const size = Math.hypot(along, up) || 1;
  const length = Math.min(6, 1 + Math.log1p(size));
  return [x - (along / size) * length, y - (up / size) * length];
}

function drawArrow(picture, [x, y], [toX, toY]) {
  const angle = Math.atan2(toY - y, toX - x);
  const wing = (turn) => [toX - WING * Math.cos(angle + turn), toY - WING * Math.sin(angle + turn)];
  picture.line([[x, y], [toX, toY]], "arrow");
  picture.line([wing(0.45), [toX, toY], wing(-0.45)], "arrow");
}
