/** The look of a report: on a screen, light or dark, on a phone, and on paper. */
export const STYLE = `
:root {
  color-scheme: light dark;
  --ink: #1b1f24; --soft: #59626c; --line: #d8dde3; --ground: #ffffff; --raised: #f6f8fa;
  --accent: #0b5cad; --red: #b3261e; --amber: #8a5300; --green: #1a6b3a; --heat: 11 92 173;
}
@media (prefers-color-scheme: dark) {
  :root {
    --ink: #e4e8ed; --soft: #9aa5b1; --line: #333b45; --ground: #14181d; --raised: #1c2229;
    --accent: #79b4f2; --red: #ff8a80; --amber: #f0b95a; --green: #7ed19c; --heat: 121 180 242;
  }
}
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; }
body {
  margin: 0 auto; max-width: 84rem; padding: 1.5rem 1.5rem 4rem;
  font: 14px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Liberation Sans", sans-serif;
  font-variant-numeric: tabular-nums; color: var(--ink); background: var(--ground);
}
h1 { font-size: 1.6rem; line-height: 1.25; margin: 0 0 .25rem; font-weight: 600; }
h2 { font-size: 1.25rem; line-height: 1.3; margin: 3rem 0 .5rem; padding-top: 1rem; border-top: 1px solid var(--line); font-weight: 600; }
h3 { font-size: 1rem; margin: 1.75rem 0 .5rem; font-weight: 600; }
p, li { max-width: 46rem; }
p { margin: .4rem 0; }
a { color: var(--accent); text-decoration: none; }
a:hover, a:focus { text-decoration: underline; }
:target { background: rgb(var(--heat) / .18); }
nav ul { list-style: none; margin: .75rem 0 0; padding: 0; display: flex; flex-wrap: wrap; gap: .25rem 1.25rem; }
code, .id { font: 12.5px/1.45 ui-monospace, SFMono-Regular, Menlo, Consolas, "Liberation Mono", monospace; }
.soft, .about, .note { color: var(--soft); }
.verdict { max-width: none; margin: 1rem 0; padding: .75rem 1rem; border-left: 4px solid var(--line); background: var(--raised); font-size: 1.05rem; }
.verdict.good { border-color: var(--green); }
.verdict.due { border-color: var(--amber); }
.verdict.alarm { border-color: var(--red); }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .2rem 1.25rem; margin: 1rem 0; }
dt { color: var(--soft); }
dd { margin: 0; overflow-wrap: anywhere; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; }
th, td { padding: .3rem .6rem; text-align: left; vertical-align: top; border-bottom: 1px solid var(--line); }
th:first-child, td:first-child { padding-left: 0; }
thead th { font-weight: 600; font-size: 12.5px; color: var(--soft); vertical-align: bottom; }
td { max-width: 26rem; overflow-wrap: break-word; }
.number { text-align: right; }
td.number { white-space: nowrap; }
.time { min-width: 6.6rem; }
.text { min-width: 7.5rem; max-width: 26rem; overflow-wrap: anywhere; }
.user { min-width: 10rem; }
.mark { text-align: center; }
thead .mark { height: 9.5rem; padding: 0 .2rem .3rem; font-weight: 400; }
thead .mark span { writing-mode: vertical-rl; transform: rotate(180deg); white-space: nowrap; }
.id b { font-weight: 400; }
.id i { display: none; font-style: normal; }
.name { display: block; }
td.alarm { color: var(--red); font-weight: 600; }
td.due { color: var(--amber); font-weight: 600; }
td.alarm a, td.due a { color: inherit; text-decoration: underline; }
.days { display: block; width: 100%; height: 6.5rem; margin: .5rem 0 .25rem; }
.days rect { fill: var(--accent); }
.days .spike rect { fill: var(--amber); }
.days .exported rect { fill: var(--red); }
.heat { width: auto; }
.heat th, .heat td { padding: 1px; border: 0; text-align: center; font-size: 11px; font-weight: 400; min-width: 1.95rem; white-space: nowrap; }
.heat th:first-child { text-align: left; padding-right: .6rem; }
.heat td { border: 1px solid var(--ground); height: 1.5rem; vertical-align: middle; background: var(--raised); }
.heat td a { display: block; color: inherit; }
.h1 { background: rgb(var(--heat) / .12) !important; } .h2 { background: rgb(var(--heat) / .22) !important; }
.h3 { background: rgb(var(--heat) / .32) !important; } .h4 { background: rgb(var(--heat) / .42) !important; }
.h5 { background: rgb(var(--heat) / .54) !important; }
.signatures { display: grid; grid-template-columns: 1fr 1fr; gap: 2rem; margin-top: 3.5rem; max-width: 46rem; }
.signatures div { border-top: 1px solid var(--ink); padding-top: .25rem; color: var(--soft); }
.hash, .command { overflow-wrap: anywhere; min-width: 14rem; }
@media (max-width: 42rem) {
  body { padding: 1rem .9rem 3rem; }
  dl { grid-template-columns: 1fr; gap: 0; }
  dd { margin-bottom: .6rem; }
  .signatures { gap: 1rem; }
}
@media print {
  @page { size: A4 landscape; margin: 14mm; }
  :root { --ink: #000; --soft: #444; --line: #bbb; --ground: #fff; --raised: #f4f4f4; --accent: #000; --red: #a01010; --amber: #704400; --green: #0d4f28; --heat: 60 60 60; }
  body { padding: 0; max-width: none; font-size: 9.5pt; }
  nav { display: none; }
  h2 { break-before: page; border: 0; margin-top: 0; padding-top: 0; }
  h2, h3 { break-after: avoid; }
  tr, .verdict, .signatures { break-inside: avoid; }
  thead { display: table-header-group; }
  .wide { overflow: visible; }
  th, td { padding: .15rem .35rem; }
  code, .id { font-size: 7.5pt; }
  .id i { display: inline; }
  .heat th, .heat td { min-width: 0; font-size: 7pt; }
  .heat td, .verdict, .days { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
}
`
