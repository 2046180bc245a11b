// Makes the pages quicker to use; every form also works without it.
"use strict";

const MAX_FILES = 200;
const MAX_FILE_BYTES = 25 * 2 ** 20;
const REQUEST_FILES = 8;
const REQUEST_BYTES = 30 * 2 ** 20;

/** Groups of files that are small enough for one request each. */
function* parts(files) {
  let part = [], bytes = 0;
  for (const file of files) {
    if (part.length && (part.length >= REQUEST_FILES || bytes + file.size > REQUEST_BYTES)) {
      yield part;
      part = [];
      bytes = 0;
    }
    part.push(file);
    bytes += file.size;
  }
  if (part.length) yield part;
}

/** Send files to an address; on failure, throw the sentence of the server. */
async function send(address, files, headers) {
  const body = new FormData();
  for (const file of files) body.append("files", file, file.name);
  const response = await fetch(address, { method: "POST", body, headers });
  if (response.ok) return response;
  let detail = `The server answered ${response.status}.`;
  try {
    const said = (await response.json()).detail;
    if (typeof said === "string") detail = said;
  } catch { /* not JSON: the number has to do */ }
  throw new Error(detail);
}

async function sendJson(address, value, method = "POST") {
  const response = await fetch(address, {
    method, body: JSON.stringify(value), headers: { "Content-Type": "application/json" },
  });
  const said = await response.json().catch(() => ({}));
  if (response.ok) return said;
  throw new Error(typeof said.detail === "string" ? said.detail : `The server answered ${response.status}.`);
}

function problem(text) {
  const line = document.createElement("p");
  line.className = "problem";
  line.setAttribute("role", "alert");
  line.textContent = text;
  return line;
}

/** Files worth sending, and a sentence for each that is not. */
function sorted(files) {
  const complaints = [];
  let good = [...files].filter((file) => !file.name.startsWith("."));
  for (const file of good.filter((file) => file.size > MAX_FILE_BYTES)) {
    complaints.push(`${file.name}: the file is larger than ${MAX_FILE_BYTES / 2 ** 20} MB and was not sent.`);
  }
  good = good.filter((file) => file.size <= MAX_FILE_BYTES);
  return { good, complaints };
}

function predictPage(form) {
  const input = form.querySelector("input[type=file]");
  const button = form.querySelector("button");
  const progress = document.querySelector("[data-progress]");
  const results = document.querySelector("[data-results]");
  let busy = false;

  async function judge(files) {
    if (busy || !files.length) return;
    busy = button.disabled = true;
    const { good, complaints } = sorted(files);
    if (good.length > MAX_FILES) {
      complaints.push(`${good.length} files were dropped; the first ${MAX_FILES} were sent. Drop the rest afterwards.`);
      good.length = MAX_FILES;
    }
    results.replaceChildren(...complaints.map(problem));
    let done = 0;
    for (const part of parts(good)) {
      progress.textContent = `Looking at ${done + 1}–${done + part.length} of ${good.length}…`;
      try {
        const response = await send("/", part, { "X-Fragment": "1" });
        results.insertAdjacentHTML("beforeend", await response.text());
      } catch (error) {
        results.append(problem(`${part.map((file) => file.name).join(", ")}: ${error.message}`));
      }
      done += part.length;
    }
    const referred = results.querySelectorAll(".case.refer").length;
    const answered = results.querySelectorAll(".case.answer").length;
    progress.textContent = `Done: ${answered} answered, ${referred} referred, ${results.querySelectorAll(".problem").length} not taken.`;
    input.value = "";
    busy = button.disabled = false;
  }

  button.hidden = true;
  input.addEventListener("change", () => judge(input.files));
  form.addEventListener("submit", (event) => { event.preventDefault(); judge(input.files); });
  for (const name of ["dragenter", "dragover"]) {
    form.addEventListener(name, (event) => { event.preventDefault(); form.classList.add("over"); });
  }
  for (const name of ["dragleave", "drop"]) form.addEventListener(name, () => form.classList.remove("over"));
  form.addEventListener("drop", (event) => { event.preventDefault(); judge(event.dataTransfer.files); });
}

/** The mix is the clinic's to state: nothing is filled in, and nothing is sent before it sums to 100. */
function mixFields(mix) {
  const form = mix.closest("form");
  const sliders = [...mix.querySelectorAll("[data-slider]")];
  const numbers = sliders.map((slider) => slider.parentElement.querySelector("input[type=number]"));
  const sum = mix.querySelector("[data-sum]");
  const scale = mix.querySelector("[data-scale]");
  const known = () => ["roughly", "exactly"].includes(form.elements.mix.value);
  const values = () => numbers.map((number) => Number(number.value));
  const total = () => values().reduce((a, b) => a + b, 0);

  function show() {
    const whole = Math.abs(total() - 100) < 0.15;
    sum.textContent = total().toFixed(1);
    sum.parentElement.classList.toggle("wrong", known() && !whole);
    scale.hidden = !known() || whole || total() === 0;
    mix.classList.toggle("off", !known());
    for (const field of [...sliders, ...numbers]) field.disabled = !known();
    for (const number of numbers) number.required = known();
    numbers.at(-1).setCustomValidity(whole ? "" : `The numbers sum to ${total().toFixed(1)} %; they must sum to 100 %.`);
  }

  sliders.forEach((slider, i) => slider.addEventListener("input", () => { numbers[i].value = slider.value; show(); }));
  numbers.forEach((number, i) => number.addEventListener("input", () => { sliders[i].value = number.value; show(); }));
  scale.addEventListener("click", () => {
    const all = total();
    values().forEach((value, i) => { numbers[i].value = sliders[i].value = ((100 * value) / all).toFixed(1); });
    show();
  });
  for (const choice of form.querySelectorAll("input[name=mix]")) choice.addEventListener("change", show);
  form.addEventListener("formdata", (event) => {
    // Rounded numbers may sum to 99.9: what is sent sums to 100.
    if (known()) numbers.forEach((number, i) => event.formData.set(number.name, String((100 * values()[i]) / total())));
  });
  show();
  mix.read = () => {
    if (!known()) return { prior: null };
    const prior = Object.fromEntries(sliders.map((slider, i) => [slider.dataset.slider, values()[i] / total()]));
    return { prior, known: form.elements.mix.value };
  };
}

function surveyForm(form) {
  const button = form.querySelector("button[type=submit]");
  const progress = form.querySelector("[data-progress]");
  form.addEventListener("submit", async (event) => {
    if (event.submitter && "drawn" in event.submitter.dataset) return; // the demo's own button
    event.preventDefault();
    for (const old of form.querySelectorAll(".problem")) old.remove();
    const chosen = [...form.querySelectorAll("input[type=file]")].flatMap((input) => [...input.files]);
    const { good, complaints } = sorted(chosen);
    const say = (text) => progress.before(problem(text));
    complaints.forEach(say);
    if (!good.length) { say("Choose a folder or files with pictures of this clinic."); return; }
    button.disabled = true;
    try {
      const { survey } = await sendJson("/api/v1/surveys", {});
      let done = 0;
      for (const part of parts(good)) {
        progress.textContent = `Looking at ${done + 1}–${done + part.length} of ${good.length}…`;
        const answer = await (await send(`/api/v1/surveys/${survey}/images`, part)).json();
        answer.problems.forEach((one) => say(one.detail));
        done += part.length;
      }
      progress.textContent = "Calibrating…";
      const mix = form.querySelector("[data-mix]").read();
      const proposed = await sendJson(`/api/v1/surveys/${survey}/proposal`, mix);
      window.location.assign(`/maps/${proposed.id}`);
    } catch (error) {
      progress.textContent = "";
      say(error.message);
      button.disabled = false;
    }
  });
}

/** Show what a policy would do while it is being changed. */
function policyForm(form) {
  const effect = document.querySelector("[data-effect]");
  const complaint = form.querySelector("[data-problem]");
  let waiting = 0;
  form.querySelector("[data-preview]").hidden = true;
  form.addEventListener("input", () => {
    clearTimeout(waiting);
    const mine = waiting = setTimeout(async () => {
      const body = new FormData(form);
      body.set("verb", "preview");
      const response = await fetch("/threshold", { method: "POST", body, headers: { "X-Fragment": "1" } });
      const said = response.ok ? await response.text() : (await response.json()).detail;
      if (mine !== waiting) return; // typed on in the meantime: a newer answer is on its way
      complaint.hidden = response.ok;
      if (response.ok) effect.innerHTML = said;
      else complaint.textContent = said;
    }, 250);
  });
}

document.querySelectorAll("[data-drop]").forEach(predictPage);
document.querySelectorAll("[data-mix]").forEach(mixFields);
document.querySelectorAll("[data-survey]").forEach(surveyForm);
document.querySelectorAll("[data-policy]").forEach(policyForm);
