// Trains with stock ONNX Runtime what `whileback artifacts` has written; see README.md beside this.
//
//   node train.mjs FOLDER DATA.safetensors STEPS BATCH RATE TRAINED.safetensors
//
// The data holds one tensor of examples for each input of role "batch". Prints the loss before each
// step, and writes parameters and statistics as they are in the end.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { InferenceSession, Tensor } from "onnxruntime-node";
import { read, write } from "./safetensors.mjs";

const [folder, data, steps, size, rate, trained] = process.argv.slice(2);
const said = JSON.parse(readFileSync(join(folder, "interface.json")));
const session = await InferenceSession.create(join(folder, said.step.file));
const inputs = (...roles) => said.step.inputs.filter(({ role }) => roles.includes(role));

const examples = read(data);
const sizes = inputs("batch").map(({ name }) => examples[name].dims[0]);
// A number without axes is the same for all examples.
const count = Math.min(...sizes.filter((size) => size !== undefined));
let kept = read(join(folder, said.checkpoint.file));

for (let step = 0; step < Number(steps); step++) {
  const start = (step * Number(size)) % count;
  const feeds = { ...kept };
  for (const { name } of inputs("batch"))
    feeds[name] = rows(examples[name], start, Math.min(start + Number(size), count));
  for (const { name } of inputs("learning_rate"))
    feeds[name] = new Tensor("float32", [Number(rate)], []);
  const results = await session.run(feeds);
  console.log(results[said.loss].data[0]);
  kept = Object.fromEntries(
    said.step.inputs.filter(({ next }) => next).map(({ name, next }) => [name, results[next]]),
  );
}
write(trained, Object.fromEntries(
  inputs("parameter", "statistic").map(({ name }) => [name, kept[name]]),
));

function rows(tensor, from, to) {
  if (tensor.dims.length === 0) return tensor;
  const { type, data, dims: [, ...dims] } = tensor;
  const length = dims.reduce((product, size) => product * size, 1);
  return new Tensor(type, data.slice(from * length, to * length), [to - from, ...dims]);
}
