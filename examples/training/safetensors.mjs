// Files of tensors: a JSON header that tells where each one is, then their bytes.
// https://github.com/huggingface/safetensors

import { readFileSync, writeFileSync } from "node:fs";
import { Tensor } from "onnxruntime-node";

// By safetensors' name of a type, ONNX Runtime's name of it, and the array that holds it.
const TYPES = {
  F64: ["float64", Float64Array],
  F32: ["float32", Float32Array],
  F16: ["float16", Uint16Array],
  I64: ["int64", BigInt64Array],
  I32: ["int32", Int32Array],
  U8: ["uint8", Uint8Array],
  BOOL: ["bool", Uint8Array],
};
const NAMES = Object.fromEntries(Object.entries(TYPES).map(([name, [type]]) => [type, name]));

export function read(path) {
  const file = readFileSync(path);
  const start = 8 + Number(file.readBigUInt64LE());
  const { __metadata__, ...header } = JSON.parse(file.subarray(8, start).toString());
  const tensors = {};
  for (const [name, { dtype, shape, data_offsets: [from, to] }] of Object.entries(header)) {
    const [type, Kind] = TYPES[dtype];
    // A copy, since an array of numbers has to begin at a multiple of their size.
    const bytes = new Uint8Array(file.subarray(start + from, start + to));
    tensors[name] = new Tensor(type, new Kind(bytes.buffer), shape);
  }
  return tensors;
}

export function write(path, tensors) {
  const header = {}, parts = [];
  let end = 0;
  for (const [name, { type, dims, data }] of Object.entries(tensors)) {
    parts.push(Buffer.from(data.buffer, data.byteOffset, data.byteLength));
    const from = end;
    end += data.byteLength;
    header[name] = { dtype: NAMES[type], shape: dims, data_offsets: [from, end] };
  }
  const text = Buffer.from(JSON.stringify(header));
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(text.length));
  writeFileSync(path, Buffer.concat([length, text, ...parts]));
}
