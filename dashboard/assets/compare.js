// The Compare page: keys that move between the search and its suggestions.
(function () {
  "use strict";
  const field = () => document.getElementById("compare-find");
  const links = () => Array.from(document.querySelectorAll("#compare-found a"));

  const step = (event, by) => {
    const all = links();
    const at = all.indexOf(document.activeElement);
    const next = at + by;
    if (at < 0 && by < 0) return;
    event.preventDefault();
    const target = next < 0 ? field() : all[Math.min(next, all.length - 1)];
    if (target) target.focus();
  };
  document.addEventListener("keydown", (event) => {
    if (!field() || event.ctrlKey || event.metaKey || event.altKey) return;
    const inside = document.activeElement === field() || links().includes(document.activeElement);
    if (event.key === "/" && !window.ncubble.typing()) {
      event.preventDefault();
      const folded = field().closest("details");
      if (folded) folded.open = true;
      field().focus();
      field().select();
    }
    if (inside && event.key === "ArrowDown") step(event, 1);
    if (inside && event.key === "ArrowUp") step(event, -1);
  });
})();
