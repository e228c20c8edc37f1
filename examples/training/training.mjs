// A step of training that `whileback artifacts` has written, on any build of ONNX Runtime.

import { parse } from "./safetensors.mjs";

export class Training {
  // Opens a folder on a runtime, say onnxruntime-web; `read` gives the bytes of a file in it.
  static async open(runtime, read) {
    const said = JSON.parse(new TextDecoder().decode(await read("interface.json")));
    const opened = async ({ file }) => runtime.InferenceSession.create(await read(file));
    const [step, evaluation] = [await opened(said.step), await opened(said.evaluation)];
    const first = parse(await read(said.checkpoint.file), runtime.Tensor);
    return new Training(runtime.Tensor, said, step, evaluation, first);
  }

  constructor(Tensor, said, step, evaluation, first) {
    Object.assign(this, { Tensor, said, sessions: { step, evaluation }, first, kept: first });
  }

  // Names of inputs of a step that have one of some roles: "batch", "parameter", "state" …
  inputs(...roles) {
    return this.said.step.inputs.filter(({ role }) => roles.includes(role)).map(({ name }) => name);
  }

  // Makes a step with a batch, tensors by name, and returns the loss before it.
  async step(batch, learningRate) {
    const feeds = { ...this.kept, ...batch };
    for (const name of this.inputs("learning_rate"))
      feeds[name] = new this.Tensor("float32", [learningRate], []);
    const results = await this.sessions.step.run(feeds);
    this.kept = Object.fromEntries(
      this.said.step.inputs.filter(({ next }) => next).map(({ name, next }) => [name, results[next]]),
    );
    return results[this.said.loss].data[0];
  }

  // Returns losses and the model's outputs, by name, with the parameters as they are.
  async evaluate(batch) {
    const read = this.said.evaluation.inputs.map(({ name }) => name);
    const kept = Object.entries(this.kept).filter(([name]) => read.includes(name));
    return this.sessions.evaluation.run({ ...Object.fromEntries(kept), ...batch });
  }

  // Parameters and statistics as they are, by name.
  trained() {
    return Object.fromEntries(
      this.inputs("parameter", "statistic").map((name) => [name, this.kept[name]]),
    );
  }

  // Goes back to the first values.
  reset() {
    this.kept = this.first;
  }
}
