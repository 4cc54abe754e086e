"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const $ = (id) => document.getElementById(id);
  const MARK = { pass: "✓", fail: "✗", not_applicable: "–", failed: "?" };
  const WORD = { pass: "passed", fail: "failed", not_applicable: "not applicable",
    failed: "judge failed" };
  const PAGE = 200;
  let query = "", shown = PAGE, current = null, rule = data.rules[0] || "";

  // Text only ever becomes a text node; nothing from the data is parsed as HTML.
  function el(tag, props, ...children) {
    const node = document.createElement(tag);
    for (const [k, v] of Object.entries(props || {})) {
      if (v === null || v === undefined || v === false) continue;
      if (k === "class") node.className = v;
      else if (k === "on") for (const [e, f] of Object.entries(v)) node.addEventListener(e, f);
      else node.setAttribute(k, v === true ? "" : v);
    }
    for (const c of children.flat()) {
      if (c === null || c === undefined || c === false) continue;
      node.append(c instanceof Node ? c : document.createTextNode(String(c)));
    }
    return node;
  }
  const num = (v, d = 3) => (v === null || v === undefined ? "–" : String(+v.toFixed(d)));

  // Rollouts, each with an address that is unique even where ids repeat.
  const rollouts = [], byAddress = new Map();
  data.groups.forEach((group) => group.rollouts.forEach((r) => {
    // A lone surrogate cannot stand in an address.
    const id = r.id.replace(/[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g,
      "\ufffd");
    let address = id, n = 1;
    while (byAddress.has(address)) address = id + "~" + ++n;
    const count = { pass: 0, fail: 0, not_applicable: 0, failed: 0 };
    r.verdicts.forEach((v) => { count[v.v] += 1; });
    const entry = { r, group, address, count, text: null };
    byAddress.set(address, entry);
    rollouts.push(entry);
  }));
  const link = (e, s) => "#" + encodeURIComponent(e.address) + (s ? "-S" + s : "");

  function haystack(e) {
    if (e.text === null) {
      const parts = [e.r.id, e.group.task.id, e.group.task.prompt, e.r.failure];
      e.group.criteria.forEach((c) => parts.push(c.title, c.description, c.instruction));
      e.r.verdicts.forEach((v) => parts.push(v.reason));
      e.r.steps.forEach((s) => {
        parts.push(s.text, s.thinking);
        s.calls.forEach((c) => parts.push(c[0], c[1]));
        s.seen.forEach((o) => parts.push(o[3]));
      });
      e.text = parts.join("\n").toLowerCase();
    }
    return e.text;
  }

  // Long texts are searched whole; only their first 500 matches are marked.
  function marked(text) {
    if (!query) return [document.createTextNode(text)];
    const low = text.toLowerCase(), out = [];
    // Lower case can change a text's length; then positions do not carry over.
    if (low.length !== text.length) return [document.createTextNode(text)];
    let at = 0, hit, n = 0;
    while (n++ < 500 && (hit = low.indexOf(query, at)) >= 0) {
      if (hit > at) out.push(document.createTextNode(text.slice(at, hit)));
      out.push(el("mark", {}, text.slice(hit, hit + query.length)));
      at = hit + query.length;
    }
    out.push(document.createTextNode(text.slice(at)));
    return out;
  }
  const has = (text) => !!query && text.toLowerCase().includes(query);
  const pre = (text, cls) => (text ? el("pre", { class: cls }, marked(text)) : null);

  const outcome = (r) => (r.outcome === null ? "unknown" : r.outcome >= 1 ? "success" : "failure");
  function visible() {
    const task = $("task").value, want = $("outcome").value, v = $("verdict").value;
    return rollouts.filter((e) =>
      (!task || e.group.task.id === task) && (!want || outcome(e.r) === want) &&
      (!v || e.count[v] > 0) && (!$("failed").checked || e.count.failed > 0 || e.r.failure) &&
      (!query || haystack(e).includes(query)));
  }

  function tally(e) {
    return ["pass", "fail", "not_applicable", "failed"].filter((k) => e.count[k]).map((k) =>
      [el("span", { class: k, title: WORD[k] }, MARK[k] + e.count[k]), " "]).flat();
  }
  function list() {
    const found = visible();
    $("count").textContent = found.length + " of " + rollouts.length + " rollouts";
    $("list").replaceChildren(...found.slice(0, shown).map((e) => el("li", {}, el("a",
      { href: link(e), "aria-current": e === current ? "true" : null },
      e.address, el("br"), el("small", {}, "R " + num(e.r.R, 2) + "  A " + num(e.r.A, 2) + "  " +
        outcome(e.r) + "  "), el("small", {}, tally(e))))));
    $("more").hidden = found.length <= shown;
  }

  function steps(e, v) {
    return (v.steps || []).map((s) => [el("a", { href: link(e, s) }, "S" + s), " "]).flat();
  }
  function criteria(e) {
    if (!e.group.criteria.length) return el("p", { class: "dim" }, "No criteria.");
    const rows = e.group.criteria.map((c, k) => {
      const v = e.r.verdicts[k];
      return el("tr", { class: c.kept ? "" : "dropped" },
        el("td", { class: "num" }, el("span", { class: v.v }, MARK[v.v] + " " + WORD[v.v])),
        el("td", {}, el("details", { open: has(c.description + c.instruction) },
          el("summary", { class: "call" }, marked(c.title)),
          pre(c.description), pre(c.instruction),
          el("p", { class: "dim" }, "from: " + c.source + (c.kept ? "" :
            "; dropped: no rollout of this group failed it")))),
        el("td", {}, steps(e, v)),
        el("td", {}, marked(v.reason || ""), v.flags ? el("small", { class: "dim" },
          " [" + v.flags.join(", ") + "]") : null));
    });
    return el("table", {}, el("thead", {}, el("tr", {}, ["Verdict", "Criterion", "Steps", "Reason"]
      .map((h) => el("th", { scope: "col" }, h)))), el("tbody", {}, rows));
  }

  function bars(e) {
    const credit = e.r.credit[rule] || [];
    const total = e.r.steps.map((s, i) => (credit[i] || 0) * (s.n || 0));
    const top = Math.max(1e-12, ...total.map(Math.abs));
    const box = el("div", { class: "bars", role: "list", "aria-label": "Step totals" });
    total.forEach((v, i) => {
      const bar = el("i", { class: v >= 0 ? "up" : "down" }), h = (Math.abs(v) / top) * 48;
      bar.style.height = h + "%";
      bar.style[v >= 0 ? "bottom" : "top"] = "50%";
      const words = "S" + (i + 1) + " " + e.r.steps[i].kind + ": total " + num(v) + ", a " + e.group.unit.replace(/s$/, "") + " " +
        num(credit[i]);
      box.append(el("a", { href: link(e, i + 1), title: words, "aria-label": words,
        role: "listitem" }, bar, el("hr")));
    });
    return box;
  }

  function step(e, s, i) {
    const a = (e.r.credit[rule] || [])[i], cited = e.r.cited[i] || [0, 0];
    const way = a > 0 ? "up" : a < 0 ? "down" : "";
    return el("section", { class: "step " + way, id: "step-" + (i + 1), tabindex: "-1" },
      el("h4", {}, el("a", { href: link(e, i + 1) }, "S" + (i + 1)), el("span", {}, s.kind),
        s.agent ? el("span", { class: "dim" }, s.agent) : null,
        el("span", { class: "num" }, (a > 0 ? "▲ " : a < 0 ? "▼ " : "") + num(a) + " a " +
          e.group.unit.replace(/s$/, "") + " × " +
          num(s.n) + " " + e.group.unit + " = " + num(a === null || a === undefined ? null :
          a * s.n)),
        el("span", { class: "dim" }, cited[0] + cited[1] ? "cited by " + cited[0] + " ✓ " +
          cited[1] + " ✗, Q " + num(e.r.Q[i], 2) : "not cited")),
      s.thinking ? el("details", { open: has(s.thinking) }, el("summary", {}, "thinking"), pre(s.thinking)) : null,
      pre(s.text), s.calls.map((c) => pre(c[0] + "(" + c[1] + ")", "call")),
      s.seen.map((o) => el("details", { open: has(o[3]) },
        el("summary", {}, [o[0], o[1]].filter(Boolean).join(" ") + ", " + o[2].toLocaleString() +
          " characters"), pre(o[3]))));
  }

  function show(e) {
    const g = e.group, r = e.r;
    $("main").replaceChildren(...[
      el("h2", {}, e.address),
      el("p", {}, "R ", num(r.R), "  A ", num(r.A), "  outcome ", outcome(r) + (r.outcome === null
        ? "" : " (" + num(r.outcome) + ")"), r.termination ? "  ended: " + r.termination : "",
      r.model ? "  model: " + r.model : "", "  judged by: " + g.judge),
      r.failure ? el("p", { class: "note" }, "Not graded: ", r.failure) : null,
      Object.keys(r.labels).length ? el("details", {}, el("summary", {}, "Labels"),
        pre(JSON.stringify(r.labels, null, 1))) : null,
      r.warnings.length ? el("details", {}, el("summary", {}, r.warnings.length +
        " warnings of the reader"), pre(r.warnings.join("\n"))) : null,
      el("div", { class: "chips", "aria-label": "Rollouts of this group" }, g.rollouts.map((x) => {
        const other = rollouts.find((y) => y.r === x);
        return el("a", { href: link(other), "aria-current": x === r ? "true" : null },
          other.address + "  R " + num(x.R, 2) + "  A " + num(x.A, 2));
      })),
      el("h3", {}, "Task " + g.task.id), pre(g.task.prompt),
      g.task.system ? el("details", { open: has(g.task.system) }, el("summary", {}, "System prompt"), pre(g.task.system))
        : null,
      el("h3", {}, "Criteria"), criteria(e),
      el("h3", {}, "Step credit (" + (rule || "no rule") + ")"), bars(e),
      el("h3", {}, "Steps"), ...r.steps.map((s, i) => step(e, s, i)),
    ].filter(Boolean));
    current = e;
    document.title = e.address + " · " + data.title;
  }

  function parse() {
    let name;
    try { name = decodeURIComponent(location.hash.slice(1)); } catch { return [null, 0]; }
    if (byAddress.has(name)) return [byAddress.get(name), 0];
    const m = /^([\s\S]*)-S(\d+)$/.exec(name);
    return m && byAddress.has(m[1]) ? [byAddress.get(m[1]), +m[2]] : [null, 0];
  }
  function route() {
    if (location.hash === "#main") return;
    const [e, s] = parse();
    const target = e || (location.hash ? null : visible()[0] || rollouts[0]);
    if (!target) {
      $("main").replaceChildren(el("p", { class: "note" }, "No rollout at this address: ",
        location.hash));
      return;
    }
    if (target !== current) { show(target); list(); }
    document.querySelectorAll(".step.here").forEach((n) => n.classList.remove("here"));
    const node = s ? $("step-" + s) : null;
    if (node) { node.classList.add("here"); node.scrollIntoView(); node.focus({ preventScroll:
      true }); } else window.scrollTo(0, 0);
  }
  function redraw() { if (current) { const e = current; current = null; show(e); } list(); }

  const options = (ids) => [el("option", { value: "" }, "any"), ...ids.map((id) =>
    el("option", { value: id }, id))];
  $("task").replaceChildren(...options([...new Set(data.groups.map((g) => g.task.id))]));
  $("rule").replaceChildren(...data.rules.map((r) => el("option", { value: r }, r)));
  $("rule").addEventListener("change", (ev) => { rule = ev.target.value; redraw(); });
  let timer;
  $("search").addEventListener("input", (ev) => {
    clearTimeout(timer);
    timer = setTimeout(() => { query = ev.target.value.trim().toLowerCase(); shown = PAGE;
      redraw(); }, 150);
  });
  ["task", "outcome", "verdict", "failed"].forEach((id) => $(id).addEventListener("change",
    () => { shown = PAGE; list(); }));
  $("filters").addEventListener("reset", () => setTimeout(() => { query = ""; shown = PAGE;
    redraw(); }));
  $("filters").addEventListener("submit", (ev) => ev.preventDefault());
  $("more").addEventListener("click", () => { shown += PAGE; list(); });
  const isDark = () => document.documentElement.dataset.theme ? document.documentElement.dataset
    .theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  const paint = () => { $("theme").textContent = isDark() ? "Light" : "Dark";
    $("theme").setAttribute("aria-pressed", String(isDark())); };
  $("theme").addEventListener("click", () => { document.documentElement.dataset.theme =
    isDark() ? "light" : "dark"; paint(); });
  window.addEventListener("hashchange", route);
  $("summary").textContent = rollouts.length + " rollouts of " + data.groups.length + " tasks" +
    (data.cut ? "; " + data.cut + " long texts cut to " + data.limit + " characters" : "");
  paint(); list(); route();
})();
