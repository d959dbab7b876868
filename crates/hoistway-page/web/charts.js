// What is drawn while runs go on: throughput over time, and how long the target's I/Os waited.
"use strict";

function ink(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

function shown(value) {
  if (value === null || value === undefined) return "-";
  return value >= 1000 ? value.toFixed(0) : value.toPrecision(3);
}

/** A line per configuration; `data` is replaced with each run. */
class Chart {
  constructor(box, names, x, y) {
    this.box = box;
    box.replaceChildren();
    const line = { stroke: ink("--mute"), grid: { stroke: ink("--grid"), width: 1 }, ticks: { stroke: ink("--grid"), width: 1 } };
    const series = names.map((label, i) => ({
      label,
      stroke: ink(`--k${i}`),
      width: 2,
      dash: [[], [8, 4], [2, 3], [10, 3, 2, 3]][i],
      value: (_, v) => shown(v),
    }));
    const options = {
      width: box.clientWidth,
      height: 240,
      scales: { x: { time: false, ...x.scale }, y: { ...y.scale } },
      axes: [{ ...line, ...x.axis }, { ...line, size: 56, ...y.axis }],
      series: [{ label: x.label, value: x.value }, ...series],
    };
    this.plot = new uPlot(options, [[0], ...names.map(() => [null])], box);
    this.watch = new ResizeObserver(() => this.plot.setSize({ width: box.clientWidth, height: 240 }));
    this.watch.observe(box);
  }

  draw(data) {
    this.plot.setData(data);
  }

  end() {
    this.watch.disconnect();
    this.plot.destroy();
  }
}

class Live {
  constructor(plan) {
    this.plan = plan;
    this.seen = plan.configs.map(() => null);
  }

  /** What a run has changed (src/live.rs). */
  add({ config, target, step, live }) {
    this.seen[config] = live;
    if (!this.rate) this.begin(target, step);
    this.table(target);
    const longest = Math.max(...this.seen.map((s) => (s ? s.rate.length : 0)));
    const over = (values) => Array.from({ length: longest }, (_, i) => values?.[i] ?? null);
    const instants = Array.from({ length: longest }, (_, i) => (i + 0.5) * this.step);
    this.rate.draw([instants, ...this.seen.map((s) => over(s?.rate))]);
    this.wait?.draw([this.nines, ...this.seen.map((s) => this.nines.map((_, i) => s?.wait[i] || null))]);
  }

  begin(target, step) {
    this.step = step;
    const names = this.plan.configs;
    const title = target ? "Throughput of the target over time, MB/s" : "Throughput of the drive over time, MB/s";
    document.getElementById("rate-title").textContent = `${title}, mean of repetitions`;
    const from0 = { range: (_, low, high) => [0, high > 0 ? high * 1.05 : 1] };
    const seconds = { label: "s", value: (_, v) => shown(v), scale: { range: (_, low, high) => [0, high + step / 2] }, axis: {} };
    this.rate = new Chart(document.getElementById("rate"), names, seconds, { scale: from0 });
    document.getElementById("wait-figure").hidden = !target;
    if (!target) return;
    // 90 %, 99 % and 99.9 % are equally far apart.
    const nine = (part) => -Math.log10(1 - part / 1000);
    const percent = (v) => `${Number((100 * (1 - 10 ** -v)).toFixed(1))} %`;
    this.nines = this.plan.parts.map(nine);
    const x = {
      label: "share",
      value: (_, v) => (v === null ? "-" : percent(v)),
      scale: { range: () => [0, 3.05] },
      axis: { splits: () => [nine(500), 1, 2, 3], values: (_, all) => all.map(percent) },
    };
    const y = { scale: { distr: 3 }, axis: { values: (_, all) => all.map((v) => (v === null ? null : Number(v.toPrecision(3)))) } };
    this.wait = new Chart(document.getElementById("wait"), names, x, y);
  }

  table(target) {
    const heads = target
      ? ["configuration", "repetitions", "mean wait, ms", "99 % waited at most, ms", "target, MB/s", "drive, MB/s"]
      : ["configuration", "repetitions", "drive, MB/s"];
    const p99 = this.plan.parts.indexOf(990);
    const cells = (s) => (target ? [s.reps, shown(s.wait_mean), shown(s.wait[p99]), shown(s.rate_mean), shown(s.device_mean)] : [s.reps, shown(s.device_mean)]);
    document.getElementById("heads").replaceChildren(...heads.map((h) => make("th", { scope: "col" }, h)));
    const rows = this.seen.map((s, i) => {
      const name = make("th", { scope: "row" }, this.plan.configs[i]);
      return make("tr", {}, name, ...(s ? cells(s) : heads.slice(1).map(() => "-")).map((c) => make("td", {}, String(c))));
    });
    document.getElementById("figures").replaceChildren(...rows);
  }

  end() {
    this.rate?.end();
    this.wait?.end();
  }
}
