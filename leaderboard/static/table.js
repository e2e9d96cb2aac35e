// Sorting, filtering and choosing columns of the index. The state lives in the address
// (#q=…&profile=…&sort=overall&hide=tags,date), so that a view can be sent to somebody.
"use strict";
(() => {
  const board = document.getElementById("board");
  if (!board) return;
  const form = document.getElementById("controls");
  const count = document.getElementById("count");
  const heads = [...board.tHead.rows[0].cells];
  const groups = [...board.tBodies].map((body) => ({
    body,
    title: body.rows[0],
    rows: [...body.rows].slice(1).map((row) => ({
      row,
      // name, id and family; "01" shall not find a date
      text: `${row.cells[1].textContent} ${row.dataset.tags}`.toLowerCase(),
      tags: row.dataset.tags.split("|"),
    })),
  }));
  const ids = heads.map((head) => head.dataset.col);
  const optional = [...form.querySelectorAll("[name=col]")];
  const fallback = { profile: board.dataset.profile };
  const collator = new Intl.Collator("en", { numeric: true, sensitivity: "base" });
  let sort = "";
  let moved = false;
  let narrowed = false;

  const ascendingFirst = (id) => "asc" in heads[ids.indexOf(id)].dataset;

  function read() {
    const state = new URLSearchParams(location.hash.slice(1));
    for (const name of ["q", "profile", "device", "family"]) {
      const field = form.elements[name];
      field.value = state.has(name) ? state.get(name) : fallback[name] || "";
      if (field.selectedIndex === -1) field.value = "";
    }
    const hidden = (state.get("hide") || "").split(",");
    for (const box of optional) box.checked = !hidden.includes(box.value);
    sort = state.get("sort") || "";
    if (!ids.includes(sort.replace(/^-/, ""))) sort = "";
    apply();
  }

  function save() {
    const state = new URLSearchParams();
    for (const name of ["q", "profile", "device", "family"]) {
      const value = form.elements[name].value;
      if (value !== (fallback[name] || "")) state.set(name, value);
    }
    if (sort) state.set("sort", sort);
    const hidden = optional.filter((box) => !box.checked).map((box) => box.value);
    if (hidden.length) state.set("hide", hidden.join(","));
    const hash = state.toString().replace(/%2C/g, ",");
    history.replaceState(null, "", hash ? "#" + hash : location.pathname + location.search);
  }

  function key(row, place, numeric) {
    const cell = row.cells[place];
    if (!numeric) return cell.textContent.trim();
    return cell.dataset.v ? Number(cell.dataset.v) : NaN;
  }

  function order() {
    const id = sort.replace(/^-/, "");
    const place = ids.indexOf(id);
    const numeric = sort && "num" in heads[place].dataset;
    const sign = sort.startsWith("-") ? -1 : 1;
    for (const { body, rows } of groups) {
      let sorted = rows;
      if (sort) {
        const keyed = rows.map((item, at) => ({ item, at, key: key(item.row, place, numeric) }));
        const missing = (k) => k === "" || k === "–" || Number.isNaN(k);
        keyed.sort((a, b) => {
          const am = missing(a.key), bm = missing(b.key); // a missing result is last either way
          if (am || bm) return am - bm || a.at - b.at;
          const by = numeric ? a.key - b.key : collator.compare(a.key, b.key);
          return sign * by || a.at - b.at;
        });
        sorted = keyed.map((k) => k.item);
      }
      if (sort || moved) body.append(...sorted.map((item) => item.row));
    }
    moved = sort !== "";
    heads.forEach((head) => {
      if (head.dataset.col !== id) head.removeAttribute("aria-sort");
      else head.setAttribute("aria-sort", sign > 0 ? "ascending" : "descending");
    });
  }

  function filter() {
    const value = (name) => form.elements[name].value;
    const words = value("q").toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0, all = 0;
    for (const { body, title, rows } of groups) {
      const fits =
        (!value("profile") || body.dataset.profile === value("profile")) &&
        (!value("device") || body.dataset.device === value("device"));
      let here = 0;
      for (const item of rows) {
        const keep =
          fits &&
          (!value("family") || item.tags.includes(value("family"))) &&
          words.every((word) => item.text.includes(word));
        item.row.hidden = !keep;
        here += keep;
      }
      title.hidden = !here;
      shown += here;
      all += rows.length;
    }
    const text = `${shown} of ${all} rows shown`;
    if (count.textContent !== text) count.textContent = text;
  }

  function columns() {
    const on = new Set(optional.filter((box) => !box.checked).map((box) => box.value));
    const places = ids.map((id, at) => (on.has(id) ? at : -1)).filter((at) => at >= 0);
    if (!on.size && !narrowed) return; // as the page came: nothing to touch
    narrowed = on.size > 0;
    for (const head of heads) head.hidden = on.has(head.dataset.col);
    for (const { title, rows } of groups) {
      title.cells[0].colSpan = heads.length - places.length;
      for (const { row } of rows)
        for (let at = 0; at < heads.length; at++)
          if (row.cells[at].hidden !== on.has(ids[at])) row.cells[at].hidden = on.has(ids[at]);
    }
  }

  function apply() {
    order();
    filter();
    columns();
  }

  heads.forEach((head) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    button.addEventListener("click", () => {
      const id = head.dataset.col;
      const up = sort ? sort === "-" + id || (sort !== id && ascendingFirst(id)) : ascendingFirst(id);
      sort = up ? id : "-" + id;
      order();
      save();
    });
    head.append(button);
  });
  form.addEventListener("input", () => {
    filter();
    columns();
    save();
  });
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("reset", (event) => {
    event.preventDefault();
    history.replaceState(null, "", location.pathname + location.search);
    read();
  });
  addEventListener("hashchange", read);
  form.hidden = count.hidden = false;
  read();
  document.documentElement.dataset.ready = performance.now().toFixed(1);
})();
