// Colours for code: splits one line into words of a kind. Everything stays text; nothing here makes markup.
(function () {
  "use strict";
  const LONGEST = 2000;
  const C_WORDS =
    "alignas alignof asm auto bool break case catch char class concept const constexpr const_cast continue decltype default delete do double " +
    "dynamic_cast else enum explicit export extern false float for friend goto if inline int long mutable namespace new noexcept nullptr operator " +
    "private protected public register reinterpret_cast requires return short signed sizeof static static_assert static_cast struct switch template " +
    "this throw true try typedef typename union unsigned using virtual void volatile wchar_t while half half2 float2 float4 int2 int4 uint2 uint4 " +
    "int8_t int16_t int32_t int64_t uint8_t uint16_t uint32_t uint64_t size_t dim3 threadIdx blockIdx blockDim gridDim __global__ __device__ __host__ " +
    "__shared__ __constant__ __restrict__ __forceinline__ __noinline__ __launch_bounds__ __syncthreads __syncwarp __align__ __grid_constant__";
  const PY_WORDS =
    "and as assert async await break class continue def del elif else except False finally for from global if import in is lambda None nonlocal not " +
    "or pass raise return True try while with yield";
  const words = (text) => new Set(text.split(" "));
  const C = {
    keywords: words(C_WORDS),
    scan: /(\/\/.*$|\/\*.*?(?:\*\/|$))|("(?:[^"\\]|\\.)*"?|'(?:[^'\\]|\\.)*'?)|(^\s*#\s*\w+)|(\b(?:0[xX][0-9a-fA-F']+|\d[\d'.]*(?:[eE][+-]?\d+)?)[a-zA-Z]*\b)|([A-Za-z_]\w*)/g,
  };
  const PYTHON = {
    keywords: words(PY_WORDS),
    scan: /(#.*$)|("(?:[^"\\]|\\.)*"?|'(?:[^'\\]|\\.)*'?)|(^\s*@[\w.]+)|(\b(?:0[xX][0-9a-fA-F_]+|\d[\d_.]*(?:[eE][+-]?\d+)?)\b)|([A-Za-z_]\w*)/g,
  };
  const SASS =
    /(@!?U?P(?:\d+|T)\b|!?\bU?P(?:\d+|T)\b)|(\bU?R(?:\d+|Z)(?:\.\w+)*)|(c\[[^\]]*\](?:\[[^\]]*\])?|\bdesc\b|\bgdesc\b)|(-?\b(?:0x[0-9a-f]+|\d+(?:\.\d+)?(?:e[+-]?\d+)?)\b)|([A-Z][A-Z0-9_]+(?:\.[A-Za-z0-9_]+)*)/g;
  const KINDS = ["comment", "string", "keyword", "number"];

  // [kind, text] pairs of a line; kind is empty for plain text.
  const split = (text, scan, kindOf) => {
    const out = [];
    let last = 0;
    scan.lastIndex = 0;
    for (const match of text.matchAll(scan)) {
      const kind = kindOf(match);
      if (!kind) continue;
      if (match.index > last) out.push(["", text.slice(last, match.index)]);
      out.push([kind, match[0]]);
      last = match.index + match[0].length;
    }
    if (last < text.length) out.push(["", text.slice(last)]);
    return out;
  };
  const cut = (text) => (text.length > LONGEST ? text.slice(0, LONGEST) + " …" : text);

  const sass = (text) => {
    let named = false;
    return split(cut(text), SASS, (match) => {
      if (match[1]) return "predicate";
      if (match[2]) return ""; // the colour of the cell: registers are most of the text, and every word is a node
      if (match[3]) return "memory";
      if (match[4]) return "number";
      if (named || match[0] === "RZ") return "";
      named = true;
      return "opcode";
    });
  };
  const plainKind = (language) => (match) => {
    const index = [1, 2, 3, 4].find((group) => match[group] !== undefined);
    return index ? KINDS[index - 1] : language.keywords.has(match[0]) ? "keyword" : "";
  };
  const languageOf = (name) => (/\.pyx?$/.test(name) ? PYTHON : C);
  // Which lines begin inside a block: a comment of C (*/), or a text between three quotes of Python. One pass.
  const blocks = (lines, name) => {
    const python = languageOf(name) === PYTHON;
    const open = python ? /"""|'''|#/g : /\/\*|\/\/|"(?:[^"\\]|\\.)*"/g;
    const inside = new Array(lines.length).fill("");
    let end = "";
    lines.forEach((line, index) => {
      inside[index] = end;
      let at = 0;
      while (at <= line.length) {
        if (end) {
          const close = line.indexOf(end, at);
          if (close < 0) return;
          at = close + end.length;
          end = "";
        }
        open.lastIndex = at;
        const found = open.exec(line);
        if (!found || found[0] === "//" || found[0] === "#") return;
        at = found.index + found[0].length;
        if (found[0] === "/*") end = "*/";
        else if (found[0].length === 3 && python) end = found[0];
      }
    });
    return inside;
  };
  const source = (text, name, inside) => {
    const language = languageOf(name);
    const whole = cut(text);
    if (!inside) return split(whole, language.scan, plainKind(language));
    const close = whole.indexOf(inside);
    const kind = inside === "*/" ? "comment" : "string";
    if (close < 0) return [[kind, whole]];
    const rest = close + inside.length;
    return [[kind, whole.slice(0, rest)]].concat(split(whole.slice(rest), language.scan, plainKind(language)));
  };

  // The same pairs, cut at the borders of what was searched for; the third member says whether a piece was found.
  const found = (pairs, search) => {
    if (!search) return pairs;
    const text = pairs.map((pair) => pair[1]).join("");
    const spans = [...text.matchAll(search)].filter((match) => match[0]).map((match) => [match.index, match.index + match[0].length]);
    if (!spans.length) return pairs;
    const borders = [...new Set(spans.flat())].sort((a, b) => a - b);
    const out = [];
    let at = 0;
    pairs.forEach(([kind, piece]) => {
      const end = at + piece.length;
      const cuts = [at, ...borders.filter((border) => border > at && border < end), end];
      for (let i = 0; i + 1 < cuts.length; i++) {
        const hit = spans.some(([from, to]) => cuts[i] >= from && cuts[i] < to);
        out.push([kind, text.slice(cuts[i], cuts[i + 1]), hit]);
      }
      at = end;
    });
    return out;
  };
  const nodes = (pairs) =>
    pairs.map(([kind, piece, hit]) => {
      if (!kind && !hit) return document.createTextNode(piece);
      const node = document.createElement(hit ? "mark" : "span");
      if (kind) node.className = "w-" + kind;
      node.textContent = piece;
      return node;
    });

  window.ncubble = Object.assign({}, window.ncubble, { code: { sass, source, blocks, found, nodes } });
})();
