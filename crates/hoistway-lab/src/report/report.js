(function () {
  "use strict";
  var root = document.documentElement;
  function stored(value) {
    // Storage may be forbidden for local files; the page does not need it.
    try {
      if (value) localStorage.setItem("hoistway-theme", value);
      return localStorage.getItem("hoistway-theme");
    } catch (e) {
      return null;
    }
  }
  function dark() {
    return root.dataset.theme
      ? root.dataset.theme === "dark"
      : matchMedia("(prefers-color-scheme: dark)").matches;
  }
  var asked = /[?&]theme=(dark|light)/.exec(location.search);
  var theme = asked ? asked[1] : stored();
  if (theme === "dark" || theme === "light") root.dataset.theme = theme;
  var button = document.getElementById("theme");
  function label() {
    button.textContent = dark() ? "Light" : "Dark";
  }
  button.hidden = false;
  label();
  button.addEventListener("click", function () {
    root.dataset.theme = dark() ? "light" : "dark";
    stored(root.dataset.theme);
    label();
  });

  // What a drawing needs to stand alone: its computed strokes, fills and fonts.
  var PROPERTIES = ["fill", "stroke", "stroke-width", "stroke-dasharray", "stroke-linejoin", "paint-order",
    "font-size", "font-weight", "font-style", "font-family", "text-anchor", "opacity"];
  function alone(svg) {
    var copy = svg.cloneNode(true);
    var from = svg.querySelectorAll("*");
    copy.querySelectorAll("*").forEach(function (node, i) {
      var style = getComputedStyle(from[i]);
      PROPERTIES.forEach(function (p) { node.setAttribute(p, style.getPropertyValue(p)); });
      ["class", "data-k", "data-tip", "href"].forEach(function (a) { node.removeAttribute(a); });
    });
    var box = svg.viewBox.baseVal;
    copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
    copy.setAttribute("width", box.width);
    copy.setAttribute("height", box.height);
    var ground = document.createElementNS("http://www.w3.org/2000/svg", "rect");
    ground.setAttribute("width", box.width);
    ground.setAttribute("height", box.height);
    ground.setAttribute("fill", getComputedStyle(svg.closest("figure")).backgroundColor);
    copy.insertBefore(ground, copy.firstChild);
    return new XMLSerializer().serializeToString(copy);
  }
  function hand(blob, name) {
    var a = document.createElement("a");
    a.href = URL.createObjectURL(blob);
    a.download = name;
    a.click();
    setTimeout(function () { URL.revokeObjectURL(a.href); }, 1000);
  }
  function save(figure, kind) {
    var svg = figure.querySelector("svg");
    var work = figure.closest("[id]");
    var name = [work && work.id, figure.dataset.name].filter(Boolean).join(".") + "." + kind;
    var file = new Blob([alone(svg)], { type: "image/svg+xml" });
    if (kind === "svg") return hand(file, name);
    var image = new Image();
    image.onload = function () {
      var canvas = document.createElement("canvas");
      var box = svg.viewBox.baseVal;
      canvas.width = box.width * 3;
      canvas.height = box.height * 3;
      canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
      URL.revokeObjectURL(image.src);
      canvas.toBlob(function (png) { hand(png, name); });
    };
    image.src = URL.createObjectURL(file);
  }
  document.querySelectorAll("figure[data-name]").forEach(function (figure) {
    var both = document.createElement("div");
    both.className = "save";
    ["svg", "png"].forEach(function (kind) {
      var b = document.createElement("button");
      b.type = "button";
      b.textContent = kind.toUpperCase();
      b.setAttribute("aria-label", "Save this chart as " + kind.toUpperCase());
      b.addEventListener("click", function () { save(figure, kind); });
      both.appendChild(b);
    });
    figure.insertBefore(both, figure.firstChild);
  });

  // Native tooltips of SVG titles are slow and tiny: show the same text ourselves.
  var tip = document.createElement("div");
  tip.id = "tip";
  tip.hidden = true;
  document.body.appendChild(tip);
  document.querySelectorAll("svg title").forEach(function (title) {
    var owner = title.parentNode;
    if (owner.tagName === "svg") {
      owner.setAttribute("aria-label", title.textContent);
      owner.setAttribute("aria-describedby", owner.querySelector("desc").id);
      owner.removeAttribute("aria-labelledby");
    } else {
      owner.dataset.tip = title.textContent;
    }
    title.remove();
  });
  document.querySelectorAll(".work").forEach(function (work) {
    work.addEventListener("pointermove", function (e) {
      var k = e.target.closest("[data-k]");
      work.classList.toggle("focus", !!k);
      work.querySelectorAll(".k.on").forEach(function (g) { g.classList.remove("on"); });
      tip.hidden = !(k && k.dataset.tip);
      if (!k) return;
      work.querySelectorAll('.k[data-k="' + k.dataset.k + '"]').forEach(function (g) {
        g.classList.add("on");
      });
      if (tip.hidden) return;
      tip.textContent = k.dataset.tip;
      var x = Math.min(e.clientX + 14, innerWidth - tip.offsetWidth - 8);
      tip.style.left = Math.max(8, x) + "px";
      tip.style.top = Math.max(8, e.clientY - tip.offsetHeight - 12) + "px";
    });
    work.addEventListener("pointerleave", function () {
      work.classList.remove("focus");
      tip.hidden = true;
    });
  });
})();
