// ONNX Runtime Web, from this folder, and the files it reads; what is missing is said in words.

// Returns the bytes of a file beside this page.
export async function bytes(path) {
  const answer = await fetch(path).catch((error) => {
    throw new Error(`${path} cannot be read: ${error.message}. Is the server still running?`);
  });
  if (answer.ok) return new Uint8Array(await answer.arrayBuffer());
  const said = `${answer.status} ${answer.statusText}`.trim();
  throw new Error(`${path} is missing (${said}). \`make web-demo\` makes it; then reload this page.`);
}

// Returns ONNX Runtime's module, on one thread: more would need headers that not every server sends.
export async function runtime() {
  const path = "onnxruntime/ort.wasm.bundle.min.mjs";
  const ort = await import(`./${path}`).catch(() => {
    throw new Error(`${path} cannot be loaded. \`make web-demo\` puts it there; then reload this page.`);
  });
  ort.env.wasm.numThreads = 1;
  ort.env.wasm.wasmBinary = await bytes("onnxruntime/ort-wasm-simd-threaded.wasm");
  return ort;
}
