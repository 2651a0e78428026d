/** The style of the page: light and dark, from 320 px, and on paper. Risk is told by shape and words too, never by colour alone. */
export const pageStyle = `
:root { color-scheme: light dark;
  --ink: #1f2328;
  --soft: #57606a;
  --paper: #ffffff;
  --card: #f6f8fa;
  --line: #d0d7de;
  --risk: #b42318;
  --calm: #0b5cad;
  }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6edf3;
    --soft: #9da7b3;
    --paper: #0d1117;
    --card: #161b22;
    --line: #30363d;
    --risk: #ff8a80;
    --calm: #79b8ff;
    }
  }
* { box-sizing: border-box; }
body { margin: 0; font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); }
header, main { max-width: 72rem; margin: 0 auto; padding: 1rem; }
h1 { font-size: 1.4rem; margin: 0; overflow-wrap: anywhere; }
h2 { font-size: 1.15rem; margin: 0 0 .5rem; }
h3 { font-size: 1rem; margin: .5rem 0 .25rem; }
section { background: var(--card);
  border: 1px solid var(--line);
  border-radius: .5rem;
  padding: 1rem;
  margin: 0 0 1rem;
  }
.summary { font-size: 1.1rem; font-weight: 600; margin: .25rem 0; }
.note, small, .place { color: var(--soft); }
.opens { border-inline-start: .4rem solid var(--risk); padding-inline-start: .75rem; }
.opens li { color: var(--risk); font-weight: 600; }
.closes { border-inline-start: .4rem solid var(--calm); padding-inline-start: .75rem; }
.refused { border: 2px solid var(--risk); }
.risk, .error b { color: var(--risk); font-weight: 700; }
ul { margin: .25rem 0; padding-inline-start: 1.25rem; }
li, td, th, code, pre { overflow-wrap: anywhere; }
table { border-collapse: collapse; width: 100%; }
td, th { text-align: start;
  vertical-align: top;
  padding: .2rem .5rem;
  border-top: 1px solid var(--line);
  font-weight: 400;
  }
tr td:first-child { width: 1.5rem; font-family: ui-monospace, monospace; }
code, pre, th[scope=row] { font-family: ui-monospace, monospace; font-size: .9em; }
pre { overflow-x: auto; margin: .25rem 0; }
details { content-visibility: auto; contain-intrinsic-size: auto 3rem; }
summary { cursor: pointer; font-weight: 600; padding: .4rem 0; }
.filters { display: flex; flex-wrap: wrap; gap: .75rem; margin: 0 0 .5rem; }
input, select { font: inherit; padding: .25rem .5rem; max-width: 100%; }
svg { max-width: 100%; height: auto; margin-top: .75rem; }
svg text { font: 12px ui-monospace, monospace; fill: var(--ink); }
svg .grid { stroke: var(--line);
  } svg .opened { fill: var(--risk);
  } svg .closed { fill: none;
  stroke: var(--calm);
  stroke-width: 2;
  }
[hidden] { display: none; }
:focus-visible { outline: 3px solid var(--calm); outline-offset: 2px; }
@media (max-width: 40rem) { td.place { display: block; }
  table, tbody, tr, td, th { display: block; border: 0; width: 100%; }
  tr { border-top: 1px solid var(--line); padding: .25rem 0; }
  }
@media print { .filters { display: none; } details { content-visibility: visible; } section { break-inside: avoid; } }
`;

/** Hides rows that do not hold the words or the kind asked for. */
export const pageScript = `
const filter = document.getElementById('filter');
const kind = document.getElementById('kind');
if (filter && kind) {
  const rows = [...document.querySelectorAll('tr[data-row]')].map((row) => [row, row.textContent.toLowerCase()]);
  const show = () => {
    const words = filter.value.toLowerCase().split(/\\s+/).filter(Boolean);
    let shown = 0;
    for (const [row, text] of rows) {
      const fits = words.every((word) => text.includes(word)) && (kind.value === '' || row.dataset.kind === kind.value);
      row.hidden = !fits;
      if (fits) shown++;
    }
    for (const set of document.querySelectorAll('details')) {
      set.hidden = set.querySelector('tr:not([hidden])') === null;
      if (words.length > 0 || kind.value !== '') set.open = true;
    }
    document.getElementById('shown').textContent = shown + ' of ' + rows.length + ' changes';
  };
  filter.addEventListener('input', show);
  kind.addEventListener('change', show);
  filter.form.addEventListener('submit', (event) => event.preventDefault());
}
`;
