/** The plots of a report: a bar for each day, and a table of days and hours. They need no script. Pure. */
import { counted } from '@eaas/protocol'
import type { Figure } from './figure.js'
import { html, type Markup } from './markup.js'
import type { Day } from './table.js'

const DAY_MS = 86_400_000
const BAR = 10
const HEIGHT = 100
const HEAT_DAYS = 100
const LEVELS = 5

type NumberOf = (figure: Figure) => number | undefined

export function drawDays(days: readonly Day[], numberOf: NumberOf): Markup {
  return html`<h3>By day</h3>
${drawBars(days, linkBy(numberOf))}
<p class="note">A bar is a day of UTC from ${days[0]?.day} to ${days.at(-1)?.day}; the highest is ${days.reduce((most, { opened }) => Math.max(most, opened), 0)} opened. A day with a spike is amber, with an export of a key red.</p>
`
}

export function drawHours(days: readonly Day[], numberOf: NumberOf): Markup {
  return html`<h3>By day and hour</h3>
${drawHeat(days, linkBy(numberOf))}
`
}

function linkBy(numberOf: NumberOf): Link {
  return (figure, content) => {
    const number = numberOf(figure)
    return number === undefined ? content : html`<a href="#f${number}">${content}</a>`
  }
}

type Link = (figure: Figure, content: Markup) => Markup

function drawBars(days: readonly Day[], link: Link): Markup {
  const first = Date.parse(days[0]?.day ?? '')
  const position = (day: string) => Math.round((Date.parse(day) - first) / DAY_MS)
  const width = BAR * (position(days.at(-1)?.day ?? '') + 1)
  const most = days.reduce((most, { opened }) => Math.max(most, opened), 1)
  const bars = days.map(({ day, opened, exported, isSpike, figure }) => {
    const height = Math.max(opened > 0 || exported > 0 ? 2 : 0, (HEIGHT * opened) / most)
    const told = `${day}: ${opened} opened${exported > 0 ? `, ${exported} exported` : ''}${isSpike ? ', spike' : ''}`
    const bar = html`<rect x="${BAR * position(day)}" y="${(HEIGHT - height).toFixed(1)}" width="${BAR - 2}" height="${height.toFixed(1)}"><title>${told}</title></rect>`
    return html`<g class="${exported > 0 ? 'exported' : isSpike ? 'spike' : ''}">${link(figure, bar)}</g>`
  })
  // Otherwise a few days would fill the page's width.
  const room = Math.max(width, 60 * BAR)
  return html`<svg class="days" viewBox="0 0 ${room} ${HEIGHT}" preserveAspectRatio="none" role="img" aria-label="Opened by day; the table below has the numbers">${bars}</svg>`
}

function drawHeat(days: readonly Day[], link: Link): Markup {
  const busiest = new Set(days.toSorted((a, b) => b.opened - a.opened).slice(0, HEAT_DAYS))
  const shown = days.filter((day) => busiest.has(day))
  const most = Math.max(1, ...shown.flatMap(({ hours }) => hours))
  const hours = Array.from({ length: 24 }, (_, hour) => html`<th scope="col">${String(hour).padStart(2, '0')}</th>`)
  const rows = shown.map(({ day, hours, opened, figure }) => {
    const cells = hours.map((count, hour) => {
      if (count === 0) return html`<td></td>`
      const level = Math.max(1, Math.ceil(LEVELS * Math.sqrt(count / most)))
      const at = `${day}T${String(hour).padStart(2, '0')}`
      return html`<td class="h${level}" title="${at}: ${count} opened">${link(figure, html`${shorten(count)}`)}</td>`
    })
    return html`<tr><th scope="row">${link(figure, html`${day}`)}</th>${cells}<td class="number">${opened}</td></tr>
`
  })
  const left = days.length - shown.length
  return html`<div class="wide"><table class="heat">
<thead><tr><th scope="col">Day</th>${hours}<th scope="col">All</th></tr></thead>
<tbody>${rows}</tbody>
</table></div>
<p class="note">Opened by hour of UTC.${left > 0 && ` The ${HEAT_DAYS} days on which most was opened; ${counted(left, 'other is', 'others are')} left out.`}</p>`
}

function shorten(count: number): string {
  if (count < 1_000) return String(count)
  if (count < 10_000) return `${(count / 1_000).toFixed(1)}k`
  return count < 1_000_000 ? `${Math.floor(count / 1_000)}k` : `${Math.floor(count / 1_000_000)}M`
}
