// Runs the module. Whoever wants it stopped ends the worker.
"use strict";
let lab;

class Complaint extends Error {
  constructor({ text, field }, ended) {
    super(text);
    this.field = field;
    this.ended = ended;
  }
}

/** One question to the module (src/session.rs), and what it says. */
function ask(question) {
  const bytes = new TextEncoder().encode(JSON.stringify(question));
  const room = lab.room(bytes.length);
  new Uint8Array(lab.memory.buffer, room, bytes.length).set(bytes);
  let ended;
  try {
    lab.ask();
  } catch (trap) {
    ended = trap;
  }
  const answer = new Uint8Array(lab.memory.buffer, lab.answer(), lab.answer_len());
  if (ended && !answer.length) throw new Complaint({ text: `the simulator ended: ${ended}` }, true);
  const said = JSON.parse(new TextDecoder().decode(answer));
  if (said.error) throw new Complaint(said.error, Boolean(ended));
  return said.done;
}

/** The first repetition of each configuration, then the second: so all can be compared from the start. */
function runs({ configs, reps }) {
  const all = [];
  for (let rep = 0; rep < reps; rep++) {
    configs.forEach((config, c) => all.push({ run: c * reps + rep, name: `${config}, repetition ${rep + 1}` }));
  }
  return all;
}

/** Lets the next message in: what is chosen meanwhile is told between two runs. */
function breathe() {
  return new Promise((go) => setTimeout(go));
}

async function carryOut(wish) {
  const plan = ask({ ask: "plan", ...wish });
  const all = runs(plan);
  postMessage({ planned: plan, total: all.length });
  for (const [done, { run, name }] of all.entries()) {
    postMessage({ begun: name, done });
    postMessage({ ran: ask({ ask: "run", run }), done: done + 1 });
    await breathe();
  }
  postMessage({ reported: ask({ ask: "report" }) });
}

onmessage = async ({ data: { module, first, tell, wish } }) => {
  try {
    if (module) {
      lab = new WebAssembly.Instance(module, {}).exports;
      if (first) postMessage({ catalog: ask({ ask: "catalog" }) });
    } else if (tell) {
      postMessage({ told: ask(tell), of: tell.ask });
    } else {
      await carryOut(wish);
    }
  } catch (error) {
    postMessage({ error: error.message, field: error.field, ended: error.ended });
  }
};
