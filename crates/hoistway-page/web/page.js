// The page: what can be chosen, the worker that runs it, what comes back.
"use strict";

const MOST = 4;
const LEAST = 2;
const $ = (id) => document.getElementById(id);
const root = document.documentElement;
let module, worker, catalog, live, going;
// As the lab has it, of what is chosen; none until it has said so.
let experiment, drive;
let chosen = [];

function say(text) {
  $("status").textContent = text;
}

function complain(text, field) {
  $("error").textContent = text;
  $("error").hidden = false;
  if (!field) return;
  // The lab quotes the configuration that it means.
  const meant = chosen.filter((slot) => text.includes(`'${slot.text()}'`));
  const marked = field === "configs" ? (meant.length ? meant : chosen).map((slot) => slot.select) : [$(field)];
  marked.forEach((element) => element.setAttribute("aria-invalid", "true"));
  marked[0].focus();
}

function forgive() {
  $("error").hidden = true;
  $("error").textContent = "";
  document.querySelectorAll("[aria-invalid]").forEach((e) => e.removeAttribute("aria-invalid"));
}

function options(select, entries, value) {
  select.replaceChildren(...entries.map((id) => make("option", {}, id)));
  select.value = value;
}

// --- the form

function experimentChosen() {
  experiment = undefined;
  worker.postMessage({ tell: { ask: "experiment", id: $("experiment").value } });
}

function driveChosen() {
  drive = undefined;
  worker.postMessage({ tell: { ask: "drive", id: $("drive").value } });
}

const told = {
  experiment(e) {
    // Chosen, and another one after it.
    if (e.id !== $("experiment").value) return;
    experiment = e;
    $("experiment-text").textContent = `${e.title}. ${e.about}`;
    options($("workload"), e.workloads.map((w) => w.id), e.usual ?? e.workloads[0].id);
    workloadChosen();
    $("duration-text").textContent = `such as 2s; empty: the experiment's, usually ${e.measured_s} s`;
    if (e.drives.length) $("drive").value = e.drives[0];
    driveChosen();
  },
  drive(d) {
    if (d.id !== $("drive").value) return;
    drive = d;
    $("drive-text").textContent = d.name;
    if (root.dataset.state === "loading") {
      state("ready");
      say("Ready.");
    }
  },
};

function workloadChosen() {
  $("workload-text").textContent = experiment.workloads.find((w) => w.id === $("workload").value).summary;
}

function slotsChanged() {
  chosen.forEach((slot, i) => {
    slot.number(i + 1);
    slot.remove.hidden = chosen.length <= LEAST;
  });
  $("add").hidden = chosen.length >= MOST;
}

function addSlot(name) {
  const slot = new Slot(catalog.configs, name, forgive);
  slot.remove.addEventListener("click", () => {
    chosen = chosen.filter((s) => s !== slot);
    slot.element.remove();
    slotsChanged();
    $("add").focus();
  });
  chosen.push(slot);
  $("slots").append(slot.element);
  slotsChanged();
  return slot;
}

function fillForm() {
  $("version").textContent = catalog.version;
  options($("experiment"), catalog.experiments, catalog.usual);
  options($("drive"), catalog.drives, catalog.drives[0]);
  experimentChosen();
  catalog.first.forEach(addSlot);
  $("reps").value = "4";
  $("seed").value = "1";
}

function wish() {
  const typed = Object.fromEntries(["experiment", "drive", "workload", "duration", "reps", "seed"].map((id) => [id, $(id).value]));
  return { ...typed, configs: chosen.map((slot) => slot.text()) };
}

// --- runs

function state(name) {
  root.dataset.state = name;
  going = name === "running";
  $("run").setAttribute("aria-disabled", String(name !== "ready"));
  $("stop").hidden = !going;
  $("progress").hidden = !going;
}

function begin() {
  if (root.dataset.state !== "ready") return;
  if (!experiment || !drive) return say("The experiment is being read; try again.");
  forgive();
  live?.end();
  live = undefined;
  $("live").hidden = true;
  $("result").hidden = true;
  $("bar").value = 0;
  $("now").textContent = "";
  state("running");
  say("Running.");
  worker.postMessage({ wish: wish() });
}

function halt() {
  if (!going) return;
  worker.terminate();
  start();
  ask();
  state("ready");
  say("Stopped.");
  $("run").focus();
}

/** What an ended worker was asked and has not told. */
function ask() {
  if (catalog && !experiment) experimentChosen();
  else if (catalog && !drive) driveChosen();
}

function link(id, text, type) {
  URL.revokeObjectURL($(id).href);
  $(id).href = URL.createObjectURL(new Blob([text], { type }));
}

const heard = {
  catalog(message) {
    catalog = message.catalog;
    fillForm();
  },
  told(message) {
    told[message.of](message.told);
  },
  planned({ planned, total }) {
    $("command").textContent = planned.command;
    $("bar").max = total;
    $("warnings").replaceChildren(...planned.warnings.map((w) => make("li", {}, w)));
    $("warnings").hidden = !planned.warnings.length;
    live = new Live(planned);
  },
  begun({ begun, done }) {
    $("now").textContent = `${done + 1} of ${$("bar").max}: ${begun}`;
  },
  ran({ ran, done }) {
    $("bar").value = done;
    $("live").hidden = false;
    live.add(ran);
  },
  reported({ reported }) {
    link("metrics", reported.metrics, "text/csv");
    link("page", reported.html, "text/html");
    $("report").srcdoc = reported.html;
    $("result").hidden = false;
    const runs = $("bar").max;
    state("ready");
    root.dataset.runs = runs;
    say("");
    $("status").append(`Done: ${runs} runs. `, make("a", { href: "#result" }, "To the report"));
  },
  error({ error, field, ended }) {
    if (ended) {
      worker.terminate();
      start();
      ask();
    }
    state(catalog ? "ready" : "broken");
    say("");
    complain(error, field);
  },
};

function start() {
  const source = new Blob([$("worker").textContent], { type: "text/javascript" });
  const url = URL.createObjectURL(source);
  worker = new Worker(url);
  URL.revokeObjectURL(url);
  worker.onmessage = ({ data }) => Object.keys(heard).find((key) => key in data && (heard[key](data), true));
  worker.onerror = (event) => heard.error({ error: `the simulator ended: ${event.message}`, ended: true });
  worker.postMessage({ module, first: !catalog });
}

async function load() {
  const packed = Uint8Array.from(atob($("module").textContent), (c) => c.charCodeAt(0));
  $("module").remove();
  const bytes = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  module = await WebAssembly.compile(await new Response(bytes).arrayBuffer());
  start();
}

$("experiment").addEventListener("change", experimentChosen);
$("drive").addEventListener("change", driveChosen);
$("workload").addEventListener("change", workloadChosen);
$("form").addEventListener("input", forgive);
$("form").addEventListener("submit", (event) => {
  event.preventDefault();
  begin();
});
$("add").addEventListener("click", () => {
  const names = chosen.map((slot) => slot.config.name);
  addSlot(catalog.configs.find((c) => !names.includes(c.name)).name).select.focus();
});
$("stop").addEventListener("click", halt);
load().catch((error) => {
  state("broken");
  say("");
  complain(`This browser cannot run the simulator: ${error}. It needs WebAssembly and DecompressionStream: Chromium 80, Firefox 113, Safari 16.4 or newer.`);
});
