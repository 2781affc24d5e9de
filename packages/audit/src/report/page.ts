/** A report as one HTML page, without scripts or external content. Pure. */
import { counted, encodeBase64, encodeHex, encodeUtf8, quoteWord, visible } from '@eaas/protocol'
import { sha256 } from '../crypto.js'
import type { Evidence } from './evidence.js'
import { type Figure, filterOptions } from './figure.js'
import { html, type Markup } from './markup.js'
import { drawDays, drawHours } from './plots.js'
import { listNotes, type Report } from './report.js'
import { STYLE } from './style.js'
import { type Cell, type Column, isFigure, type Row, type Section, type Table } from './table.js'

/** The most rows of a table that a page shows; CSV has all. */
const SHOWN_ROWS = 500
const ID_CHARACTERS = 8

export interface PageOptions {
  /** the exports, as named by the commands in the annex */
  files: readonly string[]
}

/** Writes the page. */
export function writePage(report: Report, options: PageOptions): string {
  const page = new Page(report, options)
  const policy = `default-src 'none'; style-src 'sha256-${encodeBase64(sha256(encodeUtf8(STYLE)))}'; base-uri 'none'; form-action 'none'`
  // Not written with `html`: the style element must contain exactly the text whose hash is in the policy.
  const head = html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">
<title>Audit report</title>
`
  return `${head.text}<style>${STYLE}</style>\n</head>\n<body>\n${page.write().text}</body>\n</html>\n`
}

class Page {
  /** the annex's number for each figure shown */
  readonly #numbers = new Map<Figure, number>()
  readonly #entries: ReadonlySet<number>

  constructor(
    private readonly report: Report,
    private readonly options: PageOptions,
  ) {
    this.#entries = new Set(report.entries.map(({ id }) => id))
    const shown = report.sections.flatMap(({ days = [], tables }) => [
      ...days.map(({ figure }) => figure),
      ...tables.flatMap(({ rows }) => rows.slice(0, SHOWN_ROWS).flatMap(({ cells }) => cells.filter(isFigure))),
    ])
    for (const figure of shown) {
      if (figure.count > 0 && !this.#numbers.has(figure)) this.#numbers.set(figure, this.#numbers.size + 1)
    }
  }

  write(): Markup {
    const { evidence, sections } = this.report
    const titles = sections.map(({ id, title }) => html`<li><a href="#${id}">${title}</a></li>`)
    return html`<header>
<h1>Audit report</h1>
${sections.length > 0 && html`<nav><ul>${titles}<li><a href="#figures">Annex</a></li></ul></nav>`}
</header>
<main>
${this.#evidence(evidence)}
${sections.map((section) => this.#section(section))}
${sections.length > 0 && this.#annex()}
</main>
`
  }

  #evidence({ verdict, tone, facts, not_proven }: Evidence): Markup {
    return html`<section id="evidence">
<p class="verdict ${tone}">${verdict}</p>
<dl>${facts.map(({ name, text }) => html`<dt>${name}</dt><dd>${text}</dd>`)}</dl>
${
  not_proven.length > 0 &&
  html`<h3>What is not proven</h3>
<ul>${not_proven.map((text) => html`<li>${text}</li>`)}</ul>`
}
<div class="signatures"><div>Date, name, signature</div><div>Date, name, signature</div></div>
</section>
`
  }

  #section({ id, title, about, tables, days = [] }: Section): Markup {
    const numberOf = (figure: Figure) => this.#numbers.get(figure)
    return html`<section>
<h2 id="${id}">${title}</h2>
${about.map((text) => html`<p class="about">${text}</p>`)}
${days.length > 0 && drawDays(days, numberOf)}
${tables.map((table) => this.#table(table))}
${days.length > 0 && drawHours(days, numberOf)}
</section>
`
  }

  #table({ title, columns, rows, empty, notes = [] }: Table): Markup {
    const shown = rows.slice(0, SHOWN_ROWS)
    const cut =
      rows.length > shown.length &&
      `${counted(rows.length - shown.length, 'further row is', 'further rows are')} in the CSV.`
    return html`<h3>${title}</h3>
${
  rows.length === 0
    ? html`<p>${empty}</p>`
    : html`<p class="note">${counted(rows.length, 'row')}</p>
<div class="wide"><table>
<thead><tr>${columns.map(({ title, kind }) => html`<th scope="col" class="${classOf(kind)}"><span>${title}</span></th>`)}</tr></thead>
<tbody>${shown.map((row) => this.#row(row, columns))}</tbody>
</table></div>`
}
${[...notes, cut].map((note) => note && html`<p class="note">${note}</p>`)}
`
  }

  #row({ cells, tones = {} }: Row, columns: readonly Column[]): Markup {
    const written = columns.map(({ name, kind }, at) => {
      const classes = [classOf(kind), tones[name] ?? ''].join(' ').trim()
      return html`<td class="${classes}">${this.#cell(cells[at] ?? null, kind)}</td>`
    })
    return html`<tr>${written}</tr>
`
  }

  #cell(cell: Cell, kind: Column['kind']): Markup | string | number | null {
    if (isFigure(cell)) {
      const number = this.#numbers.get(cell)
      return number === undefined ? cell.count : html`<a href="#f${number}">${cell.count}</a>`
    }
    if (cell === null) return kind === 'user' ? html`<span class="soft">none named</span>` : null
    if (kind === 'id') return this.#id(String(cell))
    if (kind === 'time') return timeOf(String(cell))
    if ((kind === 'entry' || kind === 'mark') && typeof cell === 'number') return this.#entry(cell)
    return typeof cell === 'string' ? foldAfter(/(?<=_)/, visible(cell)) : cell
  }

  #entry(id: number): Markup | number {
    return this.#entries.has(id) ? html`<a href="#e${id}">${id}</a>` : id
  }

  #id(id: string): Markup {
    const name = this.report.names.get(id)
    const rest = id.slice(ID_CHARACTERS)
    const short = /^[0-9a-f-]{36}$/.test(id) ? html`<b>${id.slice(0, ID_CHARACTERS)}</b><i>${rest}</i>` : html`${id}`
    return html`${name !== undefined && html`<span class="name">${visible(name)}</span>`}<span class="id" title="${id}">${short}</span>`
  }

  #annex(): Markup {
    const { report, options } = this
    const figures = [...this.#numbers].map(([figure, number]) => {
      const { title, filter, count, entries, first, last } = figure
      const more = count > entries.length && ` and ${count - entries.length} more`
      return html`<tr id="f${number}"><td class="number">${number}</td><td>${title}</td><td class="number">${count}</td>
<td class="text">${entries.join(', ')}${more}</td><td class="time">${timeOf(first?.created_at ?? '')}</td><td class="time">${timeOf(last?.created_at ?? '')}</td>
<td class="command"><code>npx @eaas/audit entries ${options.files.map(quoteWord).join(' ')} ${filterOptions(filter)}</code></td></tr>
`
    })
    const entries = report.entries.map(
      (
        entry,
      ) => html`<tr id="e${entry.id}"><td class="number">${entry.id}</td><td class="time">${timeOf(entry.created_at)}</td><td>${entry.action}</td>
<td>${entry.key_id !== null && this.#id(entry.key_id)}</td><td class="number">${entry.key_version}</td><td>${this.#id(entry.actor)}</td><td>${entry.ip_address}</td>
<td class="text"><code>${entry.metadata}</code></td><td class="hash"><code>${encodeHex(entry.hash)}</code></td></tr>
`,
    )
    const notes = listNotes(report)
      .filter(({ table }) => table === 'entries')
      .map(({ text }) => html`<p class="note">${text}</p>`)
    return html`<section>
<h2 id="figures">Annex: the entries of each figure</h2>
<p class="about">Of each figure the first entries by id, and the command that lists all of them from the same export.</p>
<div class="wide"><table>
<thead><tr><th class="number">Figure</th><th>What</th><th class="number">Entries</th><th>Ids</th><th>First</th><th>Last</th><th>Command</th></tr></thead>
<tbody>${figures}</tbody>
</table></div>
<h3 id="entries">Entries that the tables name</h3>
<div class="wide"><table>
<thead><tr><th class="number">Entry</th><th>Time</th><th>Action</th><th>Key</th><th class="number">Version</th><th>By</th><th>Address</th><th>Metadata</th><th>h</th></tr></thead>
<tbody>${entries}</tbody>
</table></div>
${notes}
</section>
`
  }
}

function classOf(kind: Column['kind']): string {
  return kind === 'count' || kind === 'entry' ? 'number' : kind === 'user' ? 'text user' : kind === 'id' ? '' : kind
}

/** A time as in the log; the line may break after the date. */
function timeOf(time: string): Markup {
  return html`<time>${foldAfter(/(?<=T)/, time)}</time>`
}

/** A text that may go on in a new line at the places, as in `pending_destruction`. */
function foldAfter(places: RegExp, text: string): Markup {
  return html`${text.split(places).map((part, at) => html`${at > 0 && html`<wbr>`}${part}`)}`
}
