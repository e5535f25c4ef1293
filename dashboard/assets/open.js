// Adds report files: dropped on any page, or chosen on the page that opens them. One file at a time is sent, in pieces.
// Names of files and messages of the server become text nodes only.
(function () {
  "use strict";
  const FIRST_PIECE = 65536; // so short that a file that is no report is refused at once
  const TRIES = 3;
  const rows = []; // files of this window: {file, name, state, sent, id, error, remedy, element}
  let busy = false;
  let request = null;

  const set = (id, props) => window.dash_clientside.set_props(id, props);
  const place = () => document.getElementById("open-sending");
  const pause = (ms) => new Promise((resolve) => window.setTimeout(resolve, ms));
  const size = (bytes) => (bytes >= 1e9 ? (bytes / 1e9).toFixed(2) + " GB" : bytes >= 1e6 ? (bytes / 1e6).toFixed(1) + " MB" : Math.ceil(bytes / 1e3) + " kB");
  const make = (tag, className, text) => {
    const node = document.createElement(tag);
    if (className) node.className = className;
    if (text) node.textContent = text;
    return node;
  };

  // What the server allows, and the token without which it takes nothing. Only this origin can read the answer.
  const settings = () => window.fetch("/upload", { cache: "no-store" }).then((answer) => answer.json());
  const UNREACHED = { error: "the server could not be reached", remedy: "check that ncubble dashboard is still running, and retry" };

  // One request with a body; resolves to {status, ...answer}, with status 0 where none came.
  const ask = (method, path, token, body, headers, onprogress) =>
    new Promise((resolve) => {
      const sent = new XMLHttpRequest();
      sent.open(method, path);
      sent.setRequestHeader("X-Ncubble-Token", token);
      Object.entries(headers || {}).forEach(([name, value]) => sent.setRequestHeader(name, value));
      const end = () => {
        let said = {};
        try {
          said = JSON.parse(sent.responseText);
        } catch (error) {
          said = sent.status ? { error: "the server answered " + sent.status } : UNREACHED;
        }
        resolve(Object.assign({ status: sent.status }, said));
      };
      sent.onload = end;
      sent.onerror = end;
      sent.onabort = () => resolve({ status: 0, aborted: true });
      if (onprogress) sent.upload.onprogress = (event) => onprogress(event.loaded);
      request = sent;
      sent.send(body || null);
    });

  const fail = (row, said) => {
    row.state = "failed";
    row.error = said.error || UNREACHED.error;
    row.remedy = said.remedy || "";
    row.id = null;
  };

  // A piece; asked again where no answer came. Resolves to the answer.
  const piece = async (row, allowed) => {
    const end = Math.min(row.sent + (row.sent ? allowed.piece : FIRST_PIECE), row.file.size);
    const headers = { "Upload-Offset": String(row.sent), "Content-Type": "application/octet-stream" };
    let said = UNREACHED;
    for (let tried = 0; tried < TRIES && row.state === "sending"; tried += 1) {
      if (tried) await pause(500 * tried);
      const begun = row.sent;
      const onprogress = (loaded) => {
        row.shown = Math.min(begun + loaded, end);
        draw(row);
      };
      said = await ask("PATCH", "/upload/" + row.id, allowed.token, row.file.slice(row.sent, end), headers, onprogress);
      if (said.status || said.aborted) return said;
    }
    return said;
  };

  const send = async (row) => {
    let allowed = null;
    try {
      allowed = await settings();
    } catch (error) {
      return fail(row, UNREACHED);
    }
    const about = JSON.stringify({ name: row.name, size: row.file.size });
    const admitted = await ask("POST", "/upload", allowed.token, about, { "Content-Type": "application/json" });
    if (admitted.status !== 201) return row.state === "sending" ? fail(row, admitted) : undefined;
    row.id = admitted.id;
    row.token = allowed.token;
    while (row.state === "sending" && row.sent < row.file.size) {
      const said = await piece(row, allowed);
      if (row.state !== "sending") return forget(row);
      if (said.status === 409 && said.received > row.sent) row.sent = said.received; // it came, its answer did not
      else if (said.status !== 200) {
        forget(row);
        return fail(row, said);
      } else row.sent = said.received;
    }
    return row.state === "sending" ? ((row.state = "sent"), touch()) : forget(row);
  };

  const forget = (row) => {
    if (row.id) window.fetch("/upload/" + row.id, { method: "DELETE", headers: { "X-Ncubble-Token": row.token }, keepalive: true }).then(touch, () => {});
  };
  const touch = () => {
    if (place()) set("open-touch", { data: Date.now() });
  };

  const pump = async () => {
    if (busy) return;
    busy = true;
    for (let row = next(); row; row = next()) {
      row.state = "sending";
      draw(row);
      await send(row);
      draw(row);
    }
    busy = false;
  };
  const next = () => rows.find((row) => row.state === "waiting");

  const cancel = (row) => {
    const sending = row.state === "sending";
    row.state = "cancelled";
    if (sending && request) request.abort();
    draw(row);
  };
  const retry = (row) => {
    Object.assign(row, { state: "waiting", sent: 0, shown: 0, id: null, error: "", remedy: "" });
    draw(row);
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
  const amount = (row) => {
    const sent = row.state === "sent" ? row.file.size : row.shown || row.sent;
    const share = row.file && row.file.size ? Math.floor((100 * sent) / row.file.size) : 0;
    return size(sent) + " of " + size(row.file.size) + ", " + share + " %";
  };
  const draw = (row) => {
    if (!row.element) row.element = make("li", "upload");
    const node = row.element;
    if (node.dataset.state === row.state && row.state === "sending") {
      node.querySelector("progress").value = row.shown || row.sent;
      node.querySelector(".amount").textContent = amount(row);
      return;
    }
    node.dataset.state = row.state;
    node.className = "upload " + row.state;
    const head = make("div", "upload-head");
    head.append(make("strong", "", row.name), make("span", "hint", row.error ? "" : WORDS[row.state]), ...actions(row));
    node.replaceChildren(head);
    if (row.state === "sending") {
      const bar = make("progress");
      bar.max = row.file.size;
      bar.value = row.sent;
      bar.setAttribute("aria-label", "Sent of " + row.name);
      const line = make("div", "open-progress");
      line.append(bar, make("span", "amount num", amount(row)));
      node.append(line);
    }
    if (row.error) {
      const why = make("p", "upload-error", "Not added: " + row.error + ".");
      why.setAttribute("role", "alert");
      node.append(why, make("p", "hint", row.remedy ? "Remedy: " + row.remedy : ""));
    }
  };

  // The list of this window goes into the page whenever that is drawn anew; a row leaves when the server shows the file.
  const settle = () => {
    const list = place();
    rows.filter((row) => row.state === "sent" && document.getElementById("upload-" + row.id)).forEach(dismiss);
    if (list) rows.filter((row) => row.element && row.element.parentNode !== list).forEach((row) => list.append(row.element));
  };
  new MutationObserver(settle).observe(document, { childList: true, subtree: true });

  const FOLDER = { error: "a folder", remedy: "name it on the command line: ncubble dashboard FOLDER" };
  const add = (files, folders) => {
    if (!files.length && !folders.length) return;
    folders.forEach((name) => rows.push({ file: null, name: name, state: "failed", error: FOLDER.error, remedy: FOLDER.remedy }));
    files.forEach((file) => rows.push({ file: file, name: file.name, state: "waiting", sent: 0, shown: 0 }));
    rows.forEach(draw);
    if (!place() && window.location.pathname !== "/open") set("url", { pathname: "/open", search: "", hash: "" });
    settle();
    settings().then((allowed) => (allowed.allowed ? pump() : rows.splice(0)), pump);
  };

  const choose = () => {
    const input = document.createElement("input");
    input.type = "file";
    input.multiple = true;
    input.accept = ".ncu-rep,.ncu-repz";
    input.addEventListener("change", () => add(Array.from(input.files), []));
    input.click();
  };
  const act = async (node) => {
    node.disabled = true;
    const allowed = await settings();
    const method = node.dataset.action === "remove" ? "DELETE" : "POST";
    await ask(method, "/upload/" + node.dataset.upload, allowed.token);
    node.disabled = false;
    touch();
  };
  document.addEventListener("click", (event) => {
    if (event.target.id === "open-choose") choose();
    if (event.target.dataset && event.target.dataset.upload) act(event.target);
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
  window.addEventListener("pagehide", () => rows.filter((row) => row.state === "sending").forEach(forget));

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
