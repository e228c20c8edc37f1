// Opens what the page needs, and says in the page what is missing.

import { mayMove } from "./controls.js";
import { runtime } from "./runtime.js";
import { ShowSpirals } from "./show_spirals.js";
import { ShowThrow } from "./show_throw.js";
import { Spirals } from "./spirals.js";
import { Throw } from "./throw.js";

const section = (id) => document.getElementById(id);

function complain(box, error) {
  box.textContent = error.message;
  box.hidden = false;
}

async function open(ort, id, Model, Show) {
  const part = section(id);
  const fail = (error) => complain(part.querySelector(".fault"), error);
  try {
    const { runner } = new Show(part, await Model.open(ort), fail);
    await runner.once(runner.reset);
    if (mayMove()) runner.start();
  } catch (error) {
    fail(error);
  } finally {
    part.removeAttribute("aria-busy");
  }
}

try {
  const ort = await runtime();
  await open(ort, "throw", Throw, ShowThrow);
  await open(ort, "spirals", Spirals, ShowSpirals);
} catch (error) {
  complain(section("fault"), error);
}
