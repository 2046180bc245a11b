// Makes the pages quicker to use; every form also works without it. A control that does nothing
// without this script is hidden or disabled in the page and released here, once its listener is
// attached: nobody can click it too early.
"use strict";

const MAX_FILES = 1000;
const MAX_FILE_BYTES = 25 * 2 ** 20;
const REQUEST_FILES = 8;
const REQUEST_BYTES = 30 * 2 ** 20;
const FINAL = [401, 403, 500, 507]; // nothing that is sent afterwards would fare better
const MOST_PROBLEMS = 5;
const MOST_SHOWN = 25;

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

/** Ask the server; on failure, throw a sentence: its own where it gave one. */
async function ask(address, options) {
  const response = await fetch(address, options).catch(() => {
    throw Object.assign(new Error("The server does not answer."), { final: true, unanswered: true });
  });
  if (response.ok) return response;
  const said = await response.json().catch(() => ({})); // not JSON: the number has to do
  const text = typeof said.detail === "string" ? said.detail : `The server answered ${response.status}.`;
  throw Object.assign(new Error(text), { final: FINAL.includes(response.status) });
}

/** Send files and fields as a form does. */
function send(address, files, headers, fields = {}) {
  const body = new FormData();
  for (const [name, value] of Object.entries(fields)) body.append(name, value);
  for (const file of files) body.append("files", file, file.name);
  return ask(address, { method: "POST", body, headers });
}

async function sendJson(address, value) {
  const headers = { "Content-Type": "application/json" };
  return (await ask(address, { method: "POST", body: JSON.stringify(value), headers })).json();
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

const URGENCIES = ["urgent", "soon", "routine", "retake", "hidden"];

/** Text of a CSV file; what begins like a formula is quoted so that no spreadsheet runs it. */
function csv(rows) {
  const cell = (value) => `"${String(value).replace(/^[=+\-@\t\r]/, "'$&").replaceAll('"', '""')}"`;
  return rows.map((row) => row.map(cell).join(",")).join("\r\n");
}

function predictPage(form) {
  const input = form.querySelector("input[type=file]");
  const button = form.querySelector("button");
  const progress = document.querySelector("[data-progress]");
  const meter = document.querySelector("[data-meter]");
  const results = document.querySelector("[data-results]");
  const batch = document.querySelector("[data-batch]");
  const more = document.querySelector("[data-more]");
  let busy = false;

  const cards = () => [...results.querySelectorAll("article.case")];

  /** The first are shown; the rest waits behind a button, as a page of a thousand helps nobody. */
  function shorten() {
    cards().forEach((card, i) => { card.hidden = i >= MOST_SHOWN; });
    more.textContent = `Show all ${cards().length}`;
    more.hidden = cards().length <= MOST_SHOWN;
  }

  /** How long the rest takes, from the time of what is done. */
  function timeLeft(started, done, all) {
    const seconds = (performance.now() - started) / 1000 / done * (all - done);
    return done === 0 || seconds < 5 ? "" : seconds < 90 ? ` About ${Math.ceil(seconds / 5) * 5} s left.` : ` About ${Math.round(seconds / 60)} minutes left.`;
  }

  /** The most urgent first, and of those the most probably malignant. */
  function sort() {
    const rank = (card) => URGENCIES.indexOf(card.dataset.urgency);
    const ordered = cards().sort((a, b) => rank(a) - rank(b) || b.dataset.malignant - a.dataset.malignant);
    results.append(...ordered);
  }

  /** Many complaints are folded, so that the results stay in sight. */
  function fold() {
    const complaints = [...results.querySelectorAll(":scope > .problem")];
    if (complaints.length <= MOST_PROBLEMS) return;
    const folded = document.createElement("details"), title = document.createElement("summary");
    title.textContent = `${complaints.length} files were not taken; why`;
    folded.className = "problem";
    folded.append(title, ...complaints);
    results.prepend(folded);
  }

  function summary(notTaken, stopped) {
    const found = cards().map((card) => card.dataset);
    const count = (name, value) => found.filter((facts) => facts[name] === value).length;
    const numbers = [...URGENCIES.slice(0, 4).map((word) => count("urgency", word)),
      count("decision", "answer"), count("decision", "refer"), notTaken];
    batch.querySelector("[data-counts]").replaceChildren(...numbers.map((number) => {
      const cell = document.createElement("td");
      cell.textContent = number;
      return cell;
    }));
    batch.hidden = false;
    const hidden = count("urgency", "hidden"), end = stopped ? "Stopped" : "Done";
    batch.querySelector("table").hidden = hidden > 0;
    if (hidden) return `${end}: ${found.length} judged, hidden until their diagnoses are entered, ${notTaken} not taken.`;
    return `${end}: ${found.length} judged, ${numbers[4]} answered, ${numbers[5]} referred, ${notTaken} not taken.`;
  }

  async function judge(files) {
    if (busy || !files.length || !form.reportValidity()) return;
    busy = button.disabled = true;
    const { good, complaints } = sorted(files);
    const ofAll = [];
    let notTaken = complaints.length;
    if (good.length > MAX_FILES) {
      ofAll.push(`${good.length} files were dropped; the first ${MAX_FILES} were sent. Drop the rest afterwards.`);
      notTaken += good.length - MAX_FILES;
      good.length = MAX_FILES;
    }
    results.replaceChildren(...complaints.map(problem));
    const fields = Object.fromEntries(["lesion", "site", "camera"].map((name) => [name, form.elements[name].value]));
    meter.hidden = false;
    meter.max = good.length || 1;
    let done = 0, stopped = false;
    const started = performance.now();
    for (const part of parts(good)) {
      meter.value = done;
      progress.textContent = `Looking at ${done + 1}–${done + part.length} of ${good.length}…${timeLeft(started, done, good.length)}`;
      try {
        const response = await send("/", part, { "X-Fragment": "1" }, fields);
        const before = cards().length;
        results.insertAdjacentHTML("beforeend", await response.text());
        notTaken += part.length - (cards().length - before);
        shorten();
      } catch (error) {
        if (error.final) {
          const left = good.length - done;
          const doubt = error.unanswered ? ` Whether the first ${part.length} of them are on record, the worklist tells.` : "";
          ofAll.push(`Stopped: ${left} of ${good.length} pictures were not judged, from ${part[0].name} on. ${error.message}${doubt}`);
          notTaken += left;
          stopped = true;
          break;
        }
        results.append(problem(`${part.map((file) => file.name).join(", ")}: ${error.message}`));
        notTaken += part.length;
      }
      done += part.length;
    }
    sort();
    shorten();
    fold();
    results.prepend(...ofAll.map(problem));
    meter.hidden = true;
    progress.textContent = summary(notTaken, stopped);
    input.value = "";
    button.hidden = true;
    busy = button.disabled = false;
  }

  batch.querySelector("[data-csv]").addEventListener("click", () => {
    const names = ["name", "case", "urgency", "decision", "predicted", "malignant", "sha256"];
    const text = csv([names, ...cards().map((card) => names.map((name) => card.dataset[name]))]);
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
    link.download = "batch.csv";
    link.click();
    URL.revokeObjectURL(link.href);
  });
  more.addEventListener("click", () => {
    for (const card of cards()) card.hidden = false;
    more.hidden = true;
  });
  button.hidden = !input.files.length; // files may have been chosen before the script came
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
  const last = form.querySelector("[data-last]");
  const values = () => numbers.map((number) => Number(number.value));
  const total = () => values().reduce((a, b) => a + b, 0);

  function show() {
    const whole = Math.abs(total() - 100) < 0.15;
    sum.textContent = total().toFixed(1);
    sum.parentElement.classList.toggle("wrong", known() && !whole);
    scale.hidden = !known() || whole || total() === 0;
    mix.classList.toggle("off", !known());
    for (const field of [...sliders, ...numbers]) field.disabled = !known();
    sliders.forEach((slider, i) => { slider.value = numbers[i].value || 0; });
    for (const number of numbers) number.required = known();
    numbers.at(-1).setCustomValidity(whole ? "" : `The numbers sum to ${total().toFixed(1)} %; they must sum to 100 %.`);
  }

  sliders.forEach((slider, i) => slider.addEventListener("input", () => { numbers[i].value = slider.value; show(); }));
  numbers.forEach((number) => number.addEventListener("input", show));
  scale.addEventListener("click", () => {
    const all = total();
    values().forEach((value, i) => { numbers[i].value = ((100 * value) / all).toFixed(2); });
    show();
  });
  for (const choice of form.querySelectorAll("input[name=mix]")) choice.addEventListener("change", show);
  last?.addEventListener("click", () => {
    const shares = JSON.parse(last.dataset.last);
    form.elements.mix.value = "roughly";
    sliders.forEach((slider, i) => { numbers[i].value = (100 * shares[slider.dataset.slider]).toFixed(2); });
    show();
  });
  if (last) last.hidden = false;
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
      const left = [];
      for (const part of parts(good)) {
        progress.textContent = `Looking at ${done + 1}–${done + part.length} of ${good.length}…`;
        const answer = await (await send(`/api/v1/surveys/${survey}/images`, part)).json();
        left.push(...answer.problems.map((one) => one.detail));
        done += part.length;
      }
      // A folder of the wrong pictures gets one box, not one for each file.
      if (left.length) say(left.length > 5 ? `${left.length} of ${good.length} files were left out. The first: ${left[0]}` : left.join(" "));
      progress.textContent = "Calibrating… this takes some seconds.";
      const mix = form.querySelector("[data-mix]").read();
      const proposed = await sendJson(`/api/v1/surveys/${survey}/proposal`, mix);
      window.location.assign(`/calibrations/${proposed.id}`);
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

  function preview() {
    clearTimeout(waiting);
    const mine = waiting = setTimeout(async () => {
      let shown, objection = "";
      effect.setAttribute("aria-busy", "true");
      try {
        const fields = { ...Object.fromEntries(new FormData(form)), verb: "preview" };
        shown = await (await send("/rules", [], { "X-Fragment": "1" }, fields)).text();
      } catch (error) {
        objection = error.message;
      }
      if (mine !== waiting) return; // typed on in the meantime: a newer answer is on its way
      effect.removeAttribute("aria-busy");
      complaint.hidden = !objection;
      complaint.textContent = objection;
      if (!objection) effect.innerHTML = shown;
    }, 250);
  }

  form.addEventListener("input", preview);
  form.addEventListener("submit", () => { clearTimeout(waiting); waiting = 0; });
  form.querySelector("[data-preview]").hidden = true;
  // Numbers may have been typed before the script came, or brought back by the browser.
  if ([...form.querySelectorAll("input")].some((field) => field.value !== field.defaultValue)) preview();
}

/** Whether the page is being left: what is pressed now is meant for the page that is on its way. */
let leaving = false;

/** Whether keys are meant for something else than the page: for a field, or for the next page. */
function typing(event) {
  if (leaving) return true;
  const field = event.target.closest("input, select, textarea, summary");
  return event.ctrlKey || event.metaKey || event.altKey || (field && !["radio", "checkbox"].includes(field.type));
}

/** Choose a diagnosis and its source by single keys, save with Enter, go on with n and p. */
function diagnoseForm(form) {
  document.querySelectorAll("[data-keys]").forEach((line) => { line.hidden = false; });
  document.addEventListener("keydown", (event) => {
    if (typing(event)) return;
    const chosen = form.querySelector(`input[data-key="${CSS.escape(event.key)}"]`);
    const way = { n: "[data-next]", p: "[data-previous]" }[event.key];
    if (chosen) {
      chosen.checked = true;
      chosen.focus();
      if (chosen.value === "other") form.elements.other.focus();
      event.preventDefault();
    } else if (way && document.querySelector(way)) {
      document.querySelector(way).click();
    } else if (event.key === "Enter" && !event.target.closest("a, button")) {
      event.preventDefault();
      form.requestSubmit(form.querySelector("button[type=submit]"));
    }
  });
}

/** Move through the rows with j and k; / goes to the search. */
function worklistKeys(table) {
  document.querySelectorAll("[data-keys]").forEach((line) => { line.hidden = false; });
  const rows = [...table.querySelectorAll("[data-row]")];
  document.addEventListener("keydown", (event) => {
    if (typing(event)) return;
    const place = rows.indexOf(document.activeElement);
    if (event.key === "j" || event.key === "k") {
      const next = rows[Math.max(0, Math.min(rows.length - 1, place + (event.key === "j" ? 1 : -1)))];
      next.focus();
      next.closest("tr").scrollIntoView({ block: "nearest" });
    } else if (event.key === "/") {
      event.preventDefault();
      document.querySelector("[data-search]").focus();
    }
  });
}

/** Look nearer at a picture, about the place that was clicked. */
function zoomPicture(picture) {
  const box = picture.closest(".zoom");
  document.querySelectorAll("[data-zoom-hint]").forEach((line) => { line.hidden = false; });
  function toggle(x, y) {
    const near = picture.classList.toggle("near");
    box.scrollTo(near ? x * box.scrollWidth - box.clientWidth / 2 : 0, near ? y * box.scrollHeight - box.clientHeight / 2 : 0);
  }
  picture.closest("a").addEventListener("click", (event) => {
    if (event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    const frame = picture.getBoundingClientRect();
    toggle((event.clientX - frame.left) / frame.width || 0.5, (event.clientY - frame.top) / frame.height || 0.5);
  });
  document.addEventListener("keydown", (event) => { if (event.key === "z" && !typing(event)) toggle(0.5, 0.5); });
}

/** Say that something longer than a second is under way, where a form is sent as it is. */
function busyForm(form) {
  form.addEventListener("submit", (event) => {
    if (event.defaultPrevented || !event.submitter) return;
    const submitter = event.submitter;
    setTimeout(() => { submitter.disabled = true; submitter.textContent = "Working…"; }, 0);
  });
}

/** Leave a page once: no form is sent twice, and what takes longer than a moment is said. */
function leaveOnce() {
  const line = document.querySelector("[data-loading]");
  let waiting = 0;
  const stay = () => { clearTimeout(waiting); leaving = false; line.hidden = true; };
  document.addEventListener("submit", (event) => {
    if (event.defaultPrevented) return;
    if (leaving) event.preventDefault();
    leaving = true;
  });
  window.addEventListener("beforeunload", () => {
    leaving = true;
    waiting = setTimeout(() => { line.hidden = false; }, 400);
  });
  window.addEventListener("pageshow", stay);
  document.addEventListener("keydown", (event) => { if (event.key === "Escape") stay(); }); // stops the browser too
}

/** Show times in the time of this browser and name its zone; the record and the exports are in UTC. */
function localTimes(within = document) {
  const zone = (date) => new Intl.DateTimeFormat("en-GB", { timeZoneName: "short" })
    .formatToParts(date).find((part) => part.type === "timeZoneName").value;
  for (const time of within.querySelectorAll("time[datetime]:not([title])")) {
    const date = new Date(time.dateTime);
    if (Number.isNaN(date.getTime())) continue;
    time.title = time.textContent;
    const day = date.toLocaleDateString("sv-SE"), clock = date.toLocaleTimeString("sv-SE", { hour: "2-digit", minute: "2-digit" });
    time.textContent = `${day} ${clock} ${zone(date)}`;
  }
}

localTimes();
leaveOnce();
document.querySelectorAll("[data-drop]").forEach(predictPage);
document.querySelectorAll("[data-mix]").forEach(mixFields);
document.querySelectorAll("[data-survey]").forEach(surveyForm);
document.querySelectorAll("[data-policy]").forEach(policyForm);
document.querySelectorAll("[data-diagnose]").forEach(diagnoseForm);
document.querySelectorAll("[data-zoom]").forEach(zoomPicture);
document.querySelectorAll("[data-worklist]").forEach(worklistKeys);
document.querySelectorAll("[data-reprior], form.aside").forEach(busyForm);
