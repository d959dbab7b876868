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
