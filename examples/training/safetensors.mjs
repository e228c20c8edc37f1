// Files of tensors: a JSON header that tells where each one is, then their bytes.
// https://github.com/huggingface/safetensors

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

// Returns the tensors of a file, by name, as instances of a class of ONNX Runtime's.
export function parse(file, Tensor) {
  const start = 8 + Number(new DataView(file.buffer, file.byteOffset).getBigUint64(0, true));
  const { __metadata__, ...header } = JSON.parse(new TextDecoder().decode(file.subarray(8, start)));
  const tensors = {};
  for (const [name, { dtype, shape, data_offsets: [from, to] }] of Object.entries(header)) {
    const [type, Kind] = TYPES[dtype];
    // A copy, since an array of numbers has to begin at a multiple of their size.
    const bytes = new Uint8Array(file.subarray(start + from, start + to));
    tensors[name] = new Tensor(type, new Kind(bytes.buffer), shape);
  }
  return tensors;
}

// Returns the parts of a file that holds some tensors: bytes, to be written one after the other.
export function format(tensors) {
  const header = {}, parts = [];
  let end = 0;
  for (const [name, { type, dims, data }] of Object.entries(tensors)) {
    parts.push(new Uint8Array(data.buffer, data.byteOffset, data.byteLength));
    const from = end;
    end += data.byteLength;
    header[name] = { dtype: NAMES[type], shape: dims, data_offsets: [from, end] };
  }
  const text = new TextEncoder().encode(JSON.stringify(header));
  const length = new Uint8Array(8);
  new DataView(length.buffer).setBigUint64(0, BigInt(text.length), true);
  return [length, text, ...parts];
}
