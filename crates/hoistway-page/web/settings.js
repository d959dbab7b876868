// A scheduler to compare: its name, and its settings as rows. What differs from the default is written behind the name
// as on the command line: bfq{slice_idle=0}.
"use strict";

/** An element with attributes and children. */
function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

/** A slider over a range: whole numbers where they are few, else finer where values are small. */
class Scale {
  constructor({ min, max }) {
    [this.min, this.max] = [Number(min), Number(max)];
    this.direct = this.max - this.min <= 1000;
    this.attributes = this.direct ? { min, max, step: 1 } : { min: 0, max: 1000, step: 1 };
  }

  place(value) {
    const above = Math.max(0, Math.min(value, this.max) - this.min);
    return this.direct ? value : Math.round(1000 * Math.log(above + 1) / Math.log(this.max - this.min + 1));
  }

  value(place) {
    if (this.direct || place <= 0) return this.direct ? String(place) : String(this.min);
    const above = Math.pow(this.max - this.min + 1, place / 1000) - 1;
    const value = Math.min(this.max, this.min + Number(above.toPrecision(2)));
    return BigInt(Math.round(value)).toString();
  }
}

let slots = 0;

class Slot {
  constructor(configs, name, changed) {
    this.configs = configs;
    this.changed = changed;
    this.id = `s${++slots}`;
    this.given = new Map();
    this.select = make("select", { id: this.id, "aria-describedby": `${this.id}-text` });
    this.select.append(...configs.map((c) => make("option", { value: c.name }, c.name)));
    this.label = make("label", { for: this.id });
    this.remove = make("button", { type: "button", class: "small" }, "Remove");
    this.hint = make("p", { class: "hint", id: `${this.id}-text` });
    this.summary = make("summary");
    this.rows = make("div", { class: "rows" });
    this.details = make("details", {}, this.summary, this.rows);
    const line = make("div", { class: "line" }, this.select, this.remove);
    this.element = make("li", {}, this.label, line, this.hint, this.details);
    this.select.addEventListener("change", () => this.choose(this.select.value));
    this.details.addEventListener("toggle", () => this.fill());
    this.choose(name);
  }

  number(n) {
    this.label.textContent = `Scheduler ${n}`;
    this.remove.setAttribute("aria-label", `Remove scheduler ${n}`);
  }

  choose(name) {
    this.select.value = name;
    this.config = this.configs.find((c) => c.name === name);
    this.given.clear();
    this.rows.replaceChildren();
    this.fill();
    this.tell();
  }

  /** As the command line has it. */
  text() {
    const set = [...this.given].map(([name, value]) => `${name}=${value}`);
    return set.length ? `${this.config.name}{${set.join(",")}}` : this.config.name;
  }

  tell() {
    const n = this.given.size;
    this.hint.textContent = this.config.summary;
    this.summary.textContent = n ? `Settings: ${this.text()}` : `${this.config.settings.length} settings, all at their defaults`;
    this.changed();
  }

  /** The rows are made when somebody looks at them. */
  fill() {
    if (this.details.open && !this.rows.childElementCount) {
      this.rows.append(...this.config.settings.map((s) => this.row(s)));
    }
  }

  set(setting, value) {
    const text = value.trim();
    // In the order of the rows, whichever was moved first.
    this.given.delete(setting.name);
    if (text !== setting.default) this.given.set(setting.name, text);
    const order = this.config.settings.map((s) => s.name);
    this.given = new Map([...this.given].sort((a, b) => order.indexOf(a[0]) - order.indexOf(b[0])));
    this.tell();
  }

  row(setting) {
    const id = `${this.id}-${setting.name}`;
    const { words, unit } = setting;
    const hint = make("p", { class: "hint", id: `${id}-text` });
    const label = make("label", { for: id }, setting.name);
    const described = { "aria-describedby": `${id}-text` };
    if (words.length) {
      const select = make("select", { id, ...described });
      select.append(...words.map((word, value) => make("option", { value }, word)));
      select.value = setting.default;
      select.addEventListener("change", () => this.set(setting, select.value));
      hint.textContent = `${words[setting.default]} by default. ${setting.text}`;
      return make("div", { class: "setting", "data-name": setting.name }, label, select, hint);
    }
    const scale = new Scale(setting);
    const slider = make("input", { id, type: "range", ...scale.attributes, ...described });
    const field = make("input", { type: "text", inputmode: "numeric", autocomplete: "off", "aria-label": `${setting.name}, typed`, ...described });
    const show = (value) => {
      slider.value = scale.place(Number(value));
      slider.setAttribute("aria-valuetext", `${value} ${unit}`.trim());
    };
    slider.addEventListener("input", () => {
      field.value = scale.value(Number(slider.value));
      slider.setAttribute("aria-valuetext", `${field.value} ${unit}`.trim());
      this.set(setting, field.value);
    });
    field.addEventListener("input", () => {
      if (/^\d+$/.test(field.value.trim())) show(field.value.trim());
      this.set(setting, field.value || setting.default);
    });
    field.value = setting.default;
    show(setting.default);
    const from = `${setting.min} to ${setting.max} ${unit}`.trim();
    hint.textContent = `${from}, ${setting.default} by default. ${setting.text}`;
    const line = make("div", { class: "line" }, slider, field, make("span", { class: "unit" }, unit));
    return make("div", { class: "setting", "data-name": setting.name }, label, line, hint);
  }
}
