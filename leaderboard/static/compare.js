// Two entries side by side: paired differences over the seeds that both have, task by task.
// The statistics are those of leaderboard/stats.py; a test holds them equal.
"use strict";
(() => {
  const source = document.getElementById("scores");
  if (!source) return;
  const { groups, t975, normal975, most } = JSON.parse(source.textContent);
  const form = document.getElementById("pair");
  const verdict = document.getElementById("verdict");
  const body = document.getElementById("rows");
  const { g, a, b } = form.elements;
  const MINUS = "\u2212";

  const sum = (values) => values.reduce((total, value) => total + value, 0);
  const point = (freedom) => {
    const whole = Math.max(1, Math.floor(freedom));
    return whole <= t975.length ? t975[whole - 1] : normal975;
  };

  function mean(values) {
    const n = values.length, value = sum(values) / n;
    if (n < 2) return { value, half: null, n, error: 0 };
    const error = Math.sqrt(sum(values.map((v) => (v - value) ** 2)) / (n - 1) / n);
    return { value, half: point(n - 1) * error, n, error };
  }

  function meanOfMeans(parts, weights) {
    const shares = weights.map((weight) => weight / sum(weights));
    const value = sum(parts.map((part, at) => shares[at] * part.value));
    const n = Math.min(...parts.map((part) => part.n));
    if (n < 2) return { value, half: null, n };
    const variances = parts.map((part, at) => (shares[at] * part.error) ** 2);
    const total = sum(variances);
    const spread = sum(variances.map((v, at) => v ** 2 / (parts[at].n - 1)));
    return { value, n, half: point(spread ? total ** 2 / spread : 1e9) * Math.sqrt(total) };
  }

  function signFlip(differences) {
    const n = differences.length;
    if (!n || n > most) return null;
    const seen = Math.abs(sum(differences)) - 1e-12;
    let hits = 0;
    for (let signs = 0; signs < 2 ** n; signs++) {
      let total = 0;
      for (let at = 0; at < n; at++) total += (signs >> at) & 1 ? -differences[at] : differences[at];
      if (Math.abs(total) >= seen) hits++;
    }
    return hits / 2 ** n;
  }

  const show = (value, sign) =>
    value === null ? "–" : ((sign && value > 0 ? "+" : "") + value.toFixed(3)).replace("-", MINUS);
  const p = (value) => (value === null ? "–" : value < 0.001 ? "< 0.001" : value.toFixed(3));

  function cell(row, text, cls, tag = "td") {
    const node = document.createElement(tag);
    if (tag === "th") node.scope = "row";
    node.className = cls || "";
    node.textContent = text;
    row.append(node);
    return node;
  }

  function draw(differences, average, span) {
    const make = (tag, at) => {
      const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
      for (const [name, value] of Object.entries(at)) node.setAttribute(name, value);
      return node;
    };
    const x = (value) => 100 + (value / span) * 92;
    const svg = make("svg", { viewBox: "0 0 200 22", width: 200, height: 22, "aria-hidden": "true" });
    const line = (x1, x2, y1, y2, cls) => svg.append(make("path", { d: `M${x1} ${y1}L${x2} ${y2}`, class: cls }));
    line(100, 100, 0, 22, "axis");
    if (average.half !== null) line(x(average.value - average.half), x(average.value + average.half), 11, 11, "ln s0");
    for (const d of differences) svg.append(make("circle", { cx: x(d), cy: 11, r: 3, class: "p s0" }));
    line(x(average.value), x(average.value), 5, 17, "mid");
    return svg;
  }

  function pairs(group, one, two) {
    return group.order
      .filter((key) => key in one.scores && key in two.scores)
      .map((key) => {
        const seeds = Object.keys(one.scores[key]).filter((seed) => seed in two.scores[key]);
        const of = (entry) => seeds.map((seed) => entry.scores[key][seed]);
        return { key, seeds, first: of(one), second: of(two) };
      })
      .filter((pair) => pair.seeds.length)
      .map((pair) => ({ ...pair, differences: pair.first.map((v, at) => v - pair.second[at]) }));
  }

  // Tasks that share a training are not independent: their differences are averaged seed by seed.
  function trainings(group, found) {
    const shared = new Map();
    for (const pair of found) {
      const name = group.training[pair.key];
      if (!shared.has(name)) shared.set(name, { tasks: 0, seeds: new Map() });
      const unit = shared.get(name);
      unit.tasks++;
      pair.seeds.forEach((seed, at) => {
        if (!unit.seeds.has(seed)) unit.seeds.set(seed, []);
        unit.seeds.get(seed).push(pair.differences[at]);
      });
    }
    return [...shared.values()].map((unit) => ({
      tasks: unit.tasks,
      differences: [...unit.seeds.values()].map((values) => sum(values) / values.length),
    }));
  }

  function statement(group, one, two, found) {
    if (one === two) return "Choose two different entries.";
    if (!found.length) return `${one.name} and ${two.name} have no task and seed in common.`;
    const units = trainings(group, found);
    const average = meanOfMeans(units.map((unit) => mean(unit.differences)), units.map((unit) => unit.tasks));
    const all = units.flatMap((unit) => unit.differences);
    const chance = signFlip(all);
    const tasks = `${found.length} task${found.length > 1 ? "s" : ""}`;
    const side = average.value < 0 ? "lower" : "higher";
    let text = `${one.name} scores ${Math.abs(average.value).toFixed(3)} ${side} than ${two.name} over ${tasks} in common`;
    if (average.half !== null)
      text += ` (95 % interval of the difference ${show(average.value - average.half, true)} to ${show(average.value + average.half, true)})`;
    const least = 2 / 2 ** all.length;
    if (chance !== null && least > 0.05)
      return `${text}. With ${all.length} pairs of trainings no difference can be significant: the smallest possible p is ${p(least)}.`;
    const apart = average.half !== null && Math.abs(average.value) > average.half;
    const told = chance === null ? apart : chance <= 0.05;
    const how = chance === null ? "by the interval" : `exact sign-flip p ${chance < 0.001 ? "" : "= "}${p(chance)} over ${all.length} pairs of trainings`;
    return `${text}; ${how}: ${told ? "a significant difference at the 5 % level." : "no significant difference at the 5 % level."}`;
  }

  function update() {
    const group = groups.find((each) => each.id === g.value);
    const one = group.entries.find((each) => each.id === a.value);
    const two = group.entries.find((each) => each.id === b.value);
    const found = one && two && one !== two ? pairs(group, one, two) : [];
    verdict.textContent = one && two ? statement(group, one, two, found) : "Choose two entries.";
    const averages = found.map((pair) => mean(pair.differences));
    const reach = found.flatMap((pair, at) => [...pair.differences, averages[at].value + (averages[at].half || 0), averages[at].value - (averages[at].half || 0)]);
    const span = Math.max(0.01, ...reach.map(Math.abs));
    body.replaceChildren(
      ...found.map((pair, at) => {
        const row = document.createElement("tr"), average = averages[at];
        cell(row, group.labels[pair.key], "", "th");
        cell(row, show(mean(pair.first).value), "num");
        cell(row, show(mean(pair.second).value), "num");
        cell(row, show(average.value, true), "num strong");
        cell(row, average.half === null ? "–" : `${show(average.value - average.half, true)} to ${show(average.value + average.half, true)}`, "num");
        cell(row, p(signFlip(pair.differences)), "num");
        cell(row, String(average.n), "num");
        cell(row, "", "pairs").append(draw(pair.differences, average, span));
        return row;
      }),
    );
    document.getElementById("first").textContent = one ? one.name : "A";
    document.getElementById("second").textContent = two ? two.name : "B";
  }

  function fill(state) {
    const group = groups.find((each) => each.id === state.get("g")) || groups[0];
    g.value = group.id;
    [a, b].forEach((select, at) => {
      select.replaceChildren(...group.entries.map((entry) => new Option(entry.name, entry.id)));
      const wanted = state.get(select.name);
      const known = group.entries.some((entry) => entry.id === wanted);
      select.value = known ? wanted : (group.entries[at] || group.entries[0]).id;
    });
    if (a.value === b.value && !state.has("b")) {
      const other = group.entries.find((entry) => entry.id !== a.value);
      if (other) b.value = other.id;
    }
    update();
  }

  const save = () =>
    history.replaceState(null, "", "#" + new URLSearchParams({ g: g.value, a: a.value, b: b.value }));
  const read = () => fill(new URLSearchParams(location.hash.slice(1)));
  g.addEventListener("change", () => {
    fill(new URLSearchParams({ g: g.value, a: a.value, b: b.value }));
    save();
  });
  for (const select of [a, b])
    select.addEventListener("change", () => {
      update();
      save();
    });
  document.getElementById("swap").addEventListener("click", () => {
    [a.value, b.value] = [b.value, a.value];
    update();
    save();
  });
  form.addEventListener("submit", (event) => event.preventDefault());
  addEventListener("hashchange", read);
  document.getElementById("comparison").hidden = false;
  read();
})();
