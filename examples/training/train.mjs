// Trains with stock ONNX Runtime what `whileback artifacts` has written; see README.md beside this.
//
//   node train.mjs FOLDER DATA.safetensors STEPS BATCH RATE TRAINED.safetensors
//
// The data holds one tensor of examples for each input of role "batch". Prints the loss before each
// step, and writes parameters and statistics as they are in the end.

import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import * as runtime from "onnxruntime-node";
import { format, parse } from "./safetensors.mjs";
import { Training } from "./training.mjs";

const [folder, data, steps, size, rate, trained] = process.argv.slice(2);
const training = await Training.open(runtime, (name) => readFileSync(join(folder, name)));

const examples = parse(readFileSync(data), runtime.Tensor);
const names = training.inputs("batch");
const sizes = names.map((name) => examples[name].dims[0]);
// A number without axes is the same for all examples.
const count = Math.min(...sizes.filter((size) => size !== undefined));

for (let step = 0; step < Number(steps); step++) {
  const start = (step * Number(size)) % count;
  const end = Math.min(start + Number(size), count);
  const batch = Object.fromEntries(names.map((name) => [name, rows(examples[name], start, end)]));
  console.log(await training.step(batch, Number(rate)));
}
writeFileSync(trained, Buffer.concat(format(training.trained())));

function rows(tensor, from, to) {
  if (tensor.dims.length === 0) return tensor;
  const { type, data, dims: [, ...dims] } = tensor;
  const length = dims.reduce((product, size) => product * size, 1);
  return new runtime.Tensor(type, data.slice(from * length, to * length), [to - from, ...dims]);
}
