/** The style of the page: light and dark, from 320 px, and on paper. Risk is told by shape and words too, never by colour alone. */
export const pageStyle = `
:root { color-scheme: light dark; --ink: light-dark(#1f2328, #e6edf3); --soft: light-dark(#57606a, #9da7b3);
  --paper: light-dark(#ffffff, #0d1117); --card: light-dark(#f6f8fa, #161b22); --line: light-dark(#d0d7de, #30363d);
  --risk: light-dark(#b42318, #ff8a80); --calm: light-dark(#0b5cad, #79b8ff); --good: light-dark(#116329, #56d364); }
* { box-sizing: border-box; }
body { margin: 0; font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); }
header, main { max-width: 72rem; margin: 0 auto; padding: 1rem; }
h1 { font-size: 1.4rem; margin: 0; overflow-wrap: anywhere; }
h2 { font-size: 1.15rem; margin: 0 0 .5rem; }
h3 { font-size: 1rem; margin: .5rem 0 .25rem; }
section { background: var(--card); border: 1px solid var(--line); border-radius: .5rem; padding: 1rem; margin: 0 0 1rem; }
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
td, th { text-align: start; vertical-align: top; padding: .2rem .5rem; border-top: 1px solid var(--line); font-weight: 400; }
.marked { table-layout: fixed; }
.marked td:first-child { width: 1.75rem; font-family: ui-monospace, monospace; }
.marked th { width: 26%; }
.marked .place { width: 30%; font-size: .9em; }
.plain td, .plain th { overflow-wrap: break-word; }
.plain td:last-child, #rules th { overflow-wrap: anywhere; }
code, pre, th[scope=row] { font-family: ui-monospace, monospace; font-size: .9em; }
pre { white-space: pre-wrap; margin: .25rem 0; }
details { content-visibility: auto; contain-intrinsic-size: auto 3rem; }
summary { cursor: pointer; font-weight: 600; padding: .4rem 0; }
form { display: flex; flex-wrap: wrap; align-items: end; gap: .75rem; margin: 0 0 .5rem; }
label { display: grid; max-width: 100%; min-width: 0; }
input, select { font: inherit; padding: .25rem .5rem; width: 100%; max-width: 16rem; min-width: 0; }
.picture { overflow-x: auto; margin-top: .75rem; }
svg text { font: 12px ui-monospace, monospace; fill: var(--ink); }
svg .grid { stroke: var(--line); }
svg .opened { fill: var(--risk); }
svg .closed { fill: none; stroke: var(--calm); stroke-width: 2; }
a { color: var(--calm); }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .25rem 1rem; margin: .75rem 0; }
dt { color: var(--soft); }
dd { margin: 0; overflow-wrap: anywhere; }
.state { border-inline-start: .5rem solid var(--soft); padding-inline-start: 1rem; }
.state.good { border-color: var(--good); }
.state.busy { border-color: var(--calm); }
.state.bad { border-color: var(--risk); }
.state.bad h1 { color: var(--risk); }
.state.good h1 { color: var(--good); }
.command { display: inline-block; padding: .15rem .5rem; background: var(--card); border: 1px solid var(--line); }
progress { width: 100%; accent-color: var(--calm); }
button { font: inherit; padding: .25rem .75rem; }
#connection { position: sticky; top: 0; margin: 0; padding: .5rem 1rem; background: var(--risk); color: var(--paper); z-index: 1; }
[hidden] { display: none; }
:focus-visible { outline: 3px solid var(--calm); outline-offset: 2px; }
@media (max-width: 40rem) {
  table, tbody, tr, td, th, .marked th, .marked .place { display: block; border: 0; width: 100%; }
  tr { border-top: 1px solid var(--line); padding: .25rem 0; }
  .plain thead { display: none; }
}
@media (scripting: none) { .filters { display: none; } }
@media print { svg { max-width: 100%; height: auto; } .filters { display: none; } details { content-visibility: visible; } section { break-inside: avoid; } }
`;

/** Hides rows that do not hold the words, the person, the set or the kind asked for. */
export const pageScript = `
const wanted = (id) => document.getElementById(id)?.value ?? '';
function filterRows() {
  const words = wanted('filter').toLowerCase().split(/\\s+/).filter(Boolean);
  const [who, set, kind] = [wanted('who'), wanted('set'), wanted('kind')];
  const narrowed = words.length > 0 || who !== '' || set !== '' || kind !== '';
  let [shown, all] = [0, 0];
  for (const group of document.querySelectorAll('details[data-set]')) {
    let fitting = 0;
    for (const row of group.querySelectorAll('tr[data-kind]')) {
      row.searched ??= row.textContent.toLowerCase();
      row.hidden = !(
        words.every((word) => row.searched.includes(word)) &&
        (who === '' || row.dataset.who === who) &&
        (set === '' || group.dataset.set === set) &&
        (kind === '' || row.dataset.kind === kind)
      );
      all++;
      if (!row.hidden) fitting++;
    }
    shown += fitting;
    group.hidden = fitting === 0;
    if (narrowed) group.open = true;
  }
  const output = document.getElementById('shown');
  if (output) output.textContent = narrowed ? shown + ' of ' + all + ' changes' : '';
}
document.addEventListener('input', (event) => {
  if (event.target.form?.id === 'filters') filterRows();
});
document.addEventListener('submit', (event) => {
  if (event.target.id === 'filters') event.preventDefault();
});
`;
