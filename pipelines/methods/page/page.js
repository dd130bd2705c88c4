const filters = document.querySelector(".filters");
const rows = [...document.querySelectorAll("details.method")];
const earlier = [...document.querySelectorAll(".earlier [data-family]")];
const apply = () => {
  const family = filters.elements.family.value, verdict = filters.elements.verdict.value;
  const fits = (row) => (!family || row.dataset.family === family) && (!verdict || row.dataset.verdicts.split("|").includes(verdict));
  for (const row of [...rows, ...earlier]) row.hidden = !fits(row);
  filters.querySelector("output").textContent = `${rows.filter(fits).length} of ${rows.length} methods`;
};
const open = () => {
  const row = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (row instanceof HTMLDetailsElement) row.open = true;
};
filters.hidden = false;
filters.addEventListener("input", apply);
filters.addEventListener("submit", (event) => event.preventDefault());
addEventListener("hashchange", open);
apply();
open();
