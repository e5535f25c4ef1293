// Dash's lists of radio buttons and checkboxes call themselves listboxes and their labels options, which hides the real
// inputs inside from assistive technology. Here they get the roles that fit, and the name of the group around them.
(function () {
  "use strict";
  const LIST = ".dash-options-list[role='listbox']";
  const OPTION = "label.dash-options-list-option";
  const plain = (label) => {
    label.removeAttribute("role");
    label.removeAttribute("aria-selected");
  };
  const mend = (list) => {
    list.setAttribute("role", list.querySelector("input[type='radio']") ? "radiogroup" : "group");
    const named = list.closest("[aria-label]");
    if (named && named !== list) list.setAttribute("aria-label", named.getAttribute("aria-label"));
    list.querySelectorAll(OPTION).forEach(plain);
  };
  const look = (changes) => {
    changes.forEach((change) => {
      if (change.type === "attributes" && change.target.matches(OPTION)) plain(change.target);
      change.addedNodes.forEach((node) => {
        if (node.nodeType !== Node.ELEMENT_NODE) return;
        if (node.matches(OPTION)) plain(node);
        if (node.matches(LIST)) mend(node);
        node.querySelectorAll(LIST).forEach(mend);
      });
    });
  };
  const watched = { subtree: true, childList: true, attributes: true, attributeFilter: ["aria-selected"] };
  new MutationObserver(look).observe(document.documentElement, watched);
})();
