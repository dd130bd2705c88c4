// Filters and sorts the samples of a report. It reads attributes and text of the page and writes no markup.
(() => {
  const form = document.querySelector(".sample-filter");
  if (form) {
    const list = document.querySelector(".samples");
    const samples = [...list.children];
    const texts = new Map(samples.map((sample) => [sample, sample.textContent.toLowerCase()]));
    const number = (name, sign) => (a, b) => sign * (Number(a.dataset[name]) - Number(b.dataset[name]));
    const orders = { worst: number("place", 1), best: number("place", -1), longest: number("length", -1) };
    const show = () => {
      const wanted = new FormData(form);
      const words = (wanted.get("words") || "").toLowerCase();
      let count = 0;
      for (const sample of samples) {
        const fits = ["stage", "outcome", "domain", "step"].every(
          (name) => !wanted.get(name) || sample.dataset[name] === wanted.get(name));
        sample.hidden = !fits || !texts.get(sample).includes(words);
        count += sample.hidden ? 0 : 1;
      }
      const order = orders[wanted.get("order")];
      list.append(...(order ? [...samples].sort(order) : samples));
      form.querySelector("output").textContent = `${count} shown`;
    };
    form.hidden = false;
    form.addEventListener("input", show);
    form.addEventListener("submit", (event) => event.preventDefault());
    show();
  }
  const versus = document.querySelector(".versus-filter");
  if (versus) {
    const rows = [...document.querySelectorAll(".versus")];
    const verdicts = (row, model) => {
      const column = row.querySelector(`.column[data-model="${model}"]`);
      return column && [...column.querySelectorAll(".answer")].map((item) => item.dataset.outcome).sort().join();
    };
    const show = () => {
      const [left, right] = [versus.elements.left.value, versus.elements.right.value];
      let count = 0;
      for (const row of rows) {
        const [a, b] = [verdicts(row, left), verdicts(row, right)];
        row.hidden = a === null || b === null || (versus.elements.differing.checked && a === b);
        count += row.hidden ? 0 : 1;
        for (const column of row.querySelectorAll(".column")) {
          column.hidden = column.dataset.model !== left && column.dataset.model !== right;
        }
      }
      versus.querySelector("output").textContent = `${count} prompts`;
    };
    versus.hidden = false;
    versus.elements.right.selectedIndex = versus.elements.right.options.length - 1;
    versus.addEventListener("input", show);
    versus.addEventListener("submit", (event) => event.preventDefault());
    show();
  }
})();
