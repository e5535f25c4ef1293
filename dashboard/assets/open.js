// Adds report files: dropped on any page, or chosen on the page that opens them. Each is sent as one request, one after
// the other. Names of files and messages of the server become text nodes only.
(function () {
  "use strict";
  const rows = []; // files of this window: {file, name, state, sent, id, error, remedy, request, element}
  let busy = false;

  const set = (id, props) => window.dash_clientside.set_props(id, props);
  const place = () => document.getElementById("open-sending");
  const size = (bytes) => (bytes >= 1e9 ? (bytes / 1e9).toFixed(2) + " GB" : bytes >= 1e6 ? (bytes / 1e6).toFixed(1) + " MB" : Math.ceil(bytes / 1e3) + " kB");
  const make = (tag, className, text) => {
    const node = document.createElement(tag);
    if (className) node.className = className;
    if (text) node.textContent = text;
    return node;
  };
  const UNREACHED = { error: "the server could not be reached", remedy: "check that ncubble dashboard is still running and its disk is not full, and retry" };
  const FOLDER = { error: "a folder", remedy: "name it on the command line: ncubble dashboard FOLDER" };

  // What the server says of a file of so many bytes, and the token without which it takes nothing. Only this origin can read the answer.
  const settings = (bytes) => window.fetch("/upload?size=" + bytes, { cache: "no-store" }).then((answer) => answer.json());

  // A request with the token; resolves to {status, ...answer}, with status 0 where none came.
  const ask = (method, path, token, body, row) =>
    new Promise((resolve) => {
      const request = new XMLHttpRequest();
      request.open(method, path);
      request.setRequestHeader("X-Ncubble-Token", token);
      request.onloadend = () => {
        let said = request.status ? { error: "the server answered " + request.status } : UNREACHED;
        try {
          said = JSON.parse(request.responseText);
        } catch (error) {
          // a sentence for people, or nothing
        }
        resolve(Object.assign({ status: request.status }, said));
      };
      if (row) {
        row.request = request;
        request.upload.onprogress = (event) => draw(Object.assign(row, { sent: event.loaded }));
      }
      request.send(body || null);
    });

  const send = async (row) => {
    const allowed = await settings(row.file.size).catch(() => UNREACHED);
    if (row.state !== "sending") return;
    const said = allowed.error ? allowed : await ask("POST", "/upload?name=" + encodeURIComponent(row.name), allowed.token, row.file, row);
    if (row.state !== "sending") return; // cancelled
    if (said.error) Object.assign(row, { state: "failed", error: said.error, remedy: said.remedy || "" });
    else Object.assign(row, { state: "sent", id: said.id });
    touch();
  };
  const touch = () => {
    if (place()) set("open-touch", { data: Date.now() });
  };
  const pump = async () => {
    if (busy) return;
    busy = true;
    for (let row = next(); row; row = next()) {
      draw(Object.assign(row, { state: "sending" }));
      await send(row);
      draw(row);
    }
    busy = false;
  };
  const next = () => rows.find((row) => row.state === "waiting");

  const cancel = (row) => {
    row.state = "cancelled";
    if (row.request) row.request.abort();
    draw(row);
  };
  const retry = (row) => {
    draw(Object.assign(row, { state: "waiting", sent: 0, request: null, error: "", remedy: "" }));
    pump();
  };
  const dismiss = (row) => {
    rows.splice(rows.indexOf(row), 1);
    if (row.element) row.element.remove();
  };

  const WORDS = { waiting: "waiting", sending: "uploading", sent: "uploaded, waiting to be read", cancelled: "cancelled, nothing was kept" };
  const button = (label, row, act) => {
    const node = make("button", "button small", label);
    node.type = "button";
    node.setAttribute("aria-label", label + ": " + row.name);
    node.addEventListener("click", () => act(row));
    return node;
  };
  const actions = (row) => {
    if (row.state === "sending" || row.state === "waiting") return [button("Cancel", row, cancel)];
    if (row.state === "sent") return [];
    return (row.file ? [button("Retry", row, retry)] : []).concat([button("Dismiss", row, dismiss)]);
  };

  // Progress changes often: then only the bar and the words beside it are written, so that the focus stays.
  const draw = (row) => {
    if (!row.element) row.element = make("li", "upload");
    const node = row.element;
    if (node.dataset.state !== row.state || row.state !== "sending") {
      node.dataset.state = row.state;
      node.className = "upload " + row.state;
      const head = make("div", "upload-head");
      head.append(make("strong", "", row.name), make("span", "hint", row.error ? "" : WORDS[row.state]), ...actions(row));
      node.replaceChildren(head);
      if (row.state === "sending") {
        const line = make("div", "open-progress");
        line.append(make("progress"), make("span", "amount num"));
        node.append(line);
      }
      if (row.error) {
        const why = make("p", "upload-error", "Not added: " + row.error + ".");
        why.setAttribute("role", "alert");
        node.append(why, make("p", "hint", row.remedy ? "Remedy: " + row.remedy : ""));
      }
    }
    const bar = node.querySelector("progress");
    if (!bar) return;
    bar.max = row.file.size;
    bar.value = Math.min(row.sent, row.file.size);
    bar.setAttribute("aria-label", "Sent of " + row.name);
    node.querySelector(".amount").textContent = size(bar.value) + " of " + size(bar.max) + ", " + Math.floor((100 * bar.value) / (bar.max || 1)) + " %";
  };

  // The list of this window goes into the page whenever that is drawn anew; a row leaves when the server shows the file.
  const settle = () => {
    const list = place();
    rows.filter((row) => row.state === "sent" && document.getElementById("upload-" + row.id)).forEach(dismiss);
    if (list) rows.filter((row) => row.element && row.element.parentNode !== list).forEach((row) => list.append(row.element));
  };
  new MutationObserver(settle).observe(document, { childList: true, subtree: true });

  const add = (files, folders) => {
    if (!files.length && !folders.length) return;
    folders.forEach((name) => rows.push(Object.assign({ file: null, name: name, state: "failed" }, FOLDER)));
    files.forEach((file) => rows.push({ file: file, name: file.name, state: "waiting", sent: 0 }));
    rows.forEach(draw);
    if (!place() && window.location.pathname !== "/open") set("url", { pathname: "/open", search: "", hash: "" });
    settle();
    pump();
  };

  const choose = () => {
    const input = document.createElement("input");
    Object.assign(input, { type: "file", multiple: true, accept: ".ncu-rep,.ncu-repz" });
    input.addEventListener("change", () => add(Array.from(input.files), []));
    input.click();
  };
  const forget = async (node) => {
    node.disabled = true;
    const allowed = await settings(1).catch(() => UNREACHED);
    await ask("DELETE", "/upload/" + node.dataset.remove, allowed.token || "");
    node.disabled = false;
    touch();
  };
  document.addEventListener("click", (event) => {
    if (event.target.id === "open-choose") choose();
    if (event.target.dataset && event.target.dataset.remove) forget(event.target);
  });

  // Files may be dropped anywhere; without this the browser would leave the page and open them itself.
  const holdsFiles = (event) => event.dataTransfer && Array.from(event.dataTransfer.types).includes("Files");
  let leaving = 0;
  const over = (is) => document.documentElement.classList.toggle("dropping", is);
  document.addEventListener("dragover", (event) => {
    if (!holdsFiles(event)) return;
    event.preventDefault();
    event.dataTransfer.dropEffect = "copy";
    window.clearTimeout(leaving);
    leaving = window.setTimeout(() => over(false), 400);
    over(true);
  });
  document.addEventListener("drop", (event) => {
    if (!holdsFiles(event)) return;
    event.preventDefault();
    over(false);
    const entries = Array.from(event.dataTransfer.items || []).map((item) => item.webkitGetAsEntry && item.webkitGetAsEntry());
    const folders = new Set(entries.filter((entry) => entry && entry.isDirectory).map((entry) => entry.name));
    add(Array.from(event.dataTransfer.files).filter((file) => !folders.has(file.name)), Array.from(folders));
  });
  window.addEventListener("beforeunload", (event) => {
    if (rows.some((row) => row.state === "sending" || row.state === "waiting")) event.preventDefault();
  });

  // Launches that came since the table was last looked at, once the first reading has ended.
  let looked = null;
  window.dash_clientside = Object.assign({}, window.dash_clientside, {
    ncubble_open: {
      news: function (version, pathname) {
        if (version && version.finished && (looked === null || pathname === "/" || version.launches < looked)) looked = version.launches;
        const count = version && looked !== null ? version.launches - looked : 0;
        if (count <= 0) return ["", "new-launches hidden"];
        return [count + (count === 1 ? " new launch" : " new launches"), "new-launches"];
      },
    },
  });
})();
