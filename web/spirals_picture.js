// Pictures of the network: the plane, the points on it, and the loss by steps.

const LOSSES = [1e-4, 10];
// In pixels: what is beside and below the curve.
const LEFT = 56, RIGHT = 8, TOP = 10, BELOW = 24;

// Colours each place by the spiral that it is taken for, from the top left, row by row.
export function paintPlane(canvas, scores) {
  const context = canvas.getContext("2d");
  const image = context.createImageData(canvas.width, canvas.height);
  const [none, one, two] = ["--plane", "--plane-one", "--plane-two"].map((name) => colour(canvas, name));
  scores.forEach((score, place) => {
    const sure = Math.tanh(score / 2);
    const towards = sure < 0 ? one : two;
    const mixed = none.map((from, channel) => from + Math.abs(sure) * (towards[channel] - from));
    image.data.set([...mixed, 255], 4 * place);
  });
  context.putImageData(image, 0, 0);
}

// Returns red, green and blue of a colour #rrggbb of the style sheet.
function colour(node, name) {
  const text = getComputedStyle(node).getPropertyValue(name).trim();
  return [1, 3, 5].map((at) => parseInt(text.slice(at, at + 2), 16));
}

export function drawPoints(picture, { point, label, held_point, held_label }) {
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

export function drawCurve(picture, losses) {
  const { width, height } = picture;
  const steps = Math.max(200, losses.length);
  const [low, high] = LOSSES.map(Math.log10);
  const x = (step) => LEFT + ((width - LEFT - RIGHT) * step) / steps;
  const y = (power) => TOP + ((height - TOP - BELOW) * (high - power)) / (high - low);
  picture.clear();
  for (let power = low; power <= high; power++) {
    picture.line([[LEFT, y(power)], [width - RIGHT, y(power)]], "grid");
    picture.text(LEFT - 6, y(power) + 4, `${10 ** power}`, "axis");
  }
  picture.text(LEFT, height - 6, "0", "scale");
  picture.text(width - RIGHT, height - 6, `${steps} steps`, "axis");
  picture.text(LEFT + 8, 24, "loss", "name");
  const shown = (loss) => Math.min(high, Math.max(low, Math.log10(loss)));
  picture.line(losses.map((loss, step) => [x(step), y(shown(loss))]), "loss");
}
