// Opens what the page needs, and says in the page what is missing.

import { showSpirals } from "./show_spirals.js";
import { showThrow } from "./show_throw.js";
import { runtime } from "./runtime.js";
import { Spirals } from "./spirals.js";
import { Throw } from "./throw.js";

const section = (id) => document.getElementById(id);

function complain(box, error) {
  box.textContent = error.message;
  box.hidden = false;
}

async function open(ort, id, Model, show) {
  const part = section(id);
  const fail = (error) => complain(part.querySelector(".fault"), error);
  try {
    show(part, await Model.open(ort), fail);
  } catch (error) {
    fail(error);
  } finally {
    part.removeAttribute("aria-busy");
  }
}

try {
  const ort = await runtime();
  await open(ort, "throw", Throw, showThrow);
  await open(ort, "spirals", Spirals, showSpirals);
} catch (error) {
  complain(section("fault"), error);
}
