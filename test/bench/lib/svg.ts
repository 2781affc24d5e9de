// Plots as SVG, written by hand: lines over labelled axes, readable on a light and on a dark page.
import type { Plot } from './report.js'

const WIDTH = 750
const HEIGHT = 400
const LEFT = 72
const RIGHT = 230
const TOP = 44
const BOTTOM = 56
/** Told apart by colour-blind readers too, and on either ground; the dashes tell them apart in print. */
const COLOURS = ['#0f8b8d', '#d1495b', '#7b6cf6', '#c98a00', '#4c956c', '#8d99ae', '#b0578d', '#5c7a99']
const DASHES = ['', '7 4', '2 3', '10 3 2 3', '', '7 4', '2 3', '10 3 2 3']

export function plotSvg({ title, x, y, lines }: Plot): string {
  const xs = axis(
    lines.flatMap(({ points }) => points.map(([at]) => at)),
    x.log === true,
    [LEFT, WIDTH - RIGHT],
  )
  const ys = axis(
    lines.flatMap(({ points }) => points.map(([, value]) => value)),
    y.log === true,
    [HEIGHT - BOTTOM, TOP],
  )
  const parts = [
    text(LEFT, 24, title, 'title'),
    ...xs.ticks.flatMap((tick) => [
      `<line class="grid" x1="${xs.at(tick)}" x2="${xs.at(tick)}" y1="${TOP}" y2="${HEIGHT - BOTTOM}"/>`,
      text(xs.at(tick), HEIGHT - BOTTOM + 18, label(tick), 'tick middle'),
    ]),
    ...ys.ticks.flatMap((tick) => [
      `<line class="grid" x1="${LEFT}" x2="${WIDTH - RIGHT}" y1="${ys.at(tick)}" y2="${ys.at(tick)}"/>`,
      text(LEFT - 8, ys.at(tick) + 4, label(tick), 'tick end'),
    ]),
    text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 14, x.label, 'axis middle'),
    `<text class="axis middle" transform="translate(18 ${(TOP + HEIGHT - BOTTOM) / 2}) rotate(-90)">${escaped(y.label)}</text>`,
    ...lines.flatMap(({ name, points }, at) => {
      const colour = COLOURS[at % COLOURS.length]
      const dash = DASHES[at % DASHES.length]
      const path = points.map(([px, py], index) => `${index === 0 ? 'M' : 'L'}${xs.at(px)} ${ys.at(py)}`).join('')
      const row = TOP + 10 + at * 20
      return [
        `<path d="${path}" fill="none" stroke="${colour}" stroke-width="2" stroke-dasharray="${dash}"/>`,
        ...points.map(([px, py]) => `<circle cx="${xs.at(px)}" cy="${ys.at(py)}" r="3" fill="${colour}"/>`),
        `<line x1="${WIDTH - RIGHT + 14}" x2="${WIDTH - RIGHT + 38}" y1="${row}" y2="${row}" stroke="${colour}" stroke-width="2" stroke-dasharray="${dash}"/>`,
        text(WIDTH - RIGHT + 44, row + 4, name, 'tick'),
      ]
    }),
  ]
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${HEIGHT}" width="${WIDTH}" height="${HEIGHT}" role="img" aria-label="${escaped(title)}">
<style>
  text { font: 12px system-ui, sans-serif; fill: #1f2933 }
  .title { font-size: 15px; font-weight: 600 }
  .middle { text-anchor: middle }
  .end { text-anchor: end }
  .grid { stroke: #9aa5b1; stroke-opacity: 0.35 }
  .ground { fill: #ffffff }
  @media (prefers-color-scheme: dark) { text { fill: #e4e7eb } .ground { fill: #16191d } }
</style>
<rect class="ground" width="${WIDTH}" height="${HEIGHT}" rx="6"/>
${parts.join('\n')}
</svg>
`
}

interface Axis {
  ticks: number[]
  at(value: number): number
}

function axis(values: readonly number[], log: boolean, [from, to]: [number, number]): Axis {
  const most = Math.max(...values)
  const least = log ? Math.min(...values) : 0
  const ticks = log ? powers(least, most) : steps(most)
  const scale = log ? Math.log10 : (value: number) => value
  const low = scale(Math.min(least, ticks[0] ?? least))
  const high = scale(Math.max(most, ticks.at(-1) ?? most))
  const at = (value: number) => Math.round((from + ((scale(value) - low) / (high - low || 1)) * (to - from)) * 10) / 10
  return { ticks, at }
}

function powers(least: number, most: number): number[] {
  const first = Math.floor(Math.log10(least))
  const last = Math.ceil(Math.log10(most))
  return Array.from({ length: last - first + 1 }, (_, at) => 10 ** (first + at))
}

function steps(most: number): number[] {
  const raw = most / 5
  const power = 10 ** Math.floor(Math.log10(raw))
  const step = ([1, 2, 5, 10].find((factor) => factor * power >= raw) ?? 10) * power
  return Array.from({ length: Math.ceil(most / step) + 1 }, (_, at) => at * step)
}

function label(value: number): string {
  if (value >= 1e6) return `${trim(value / 1e6)} M`
  if (value >= 1e3) return `${trim(value / 1e3)} k`
  return trim(value)
}

function trim(value: number): string {
  return String(Number(value.toPrecision(3)))
}

function text(x: number, y: number, content: string, name: string): string {
  return `<text class="${name}" x="${x}" y="${y}">${escaped(content)}</text>`
}

function escaped(content: string): string {
  return content.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('"', '&quot;')
}
