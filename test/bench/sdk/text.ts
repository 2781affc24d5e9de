// What was measured of text by peer, size and direction, as a table and as a plot.
import { type Plot, type Table, withSpread } from '../lib/report.js'
import { spread } from '../lib/rounds.js'

/** µs an operation, round by round, under `peer/encrypt` and `peer/decrypt`. */
export type Measured = Record<string, number[]>

function peersOf(measured: Measured): string[] {
  return [...new Set(Object.keys(measured).map((name) => name.slice(0, name.indexOf('/'))))]
}

export function textTable(text: Record<string, Measured>, direction: string, where: 'Node' | 'Chromium'): Table {
  const sizes = Object.keys(text)
  const peers = peersOf(text[sizes[0] ?? ''] ?? {})
  return {
    title: `Text ${direction}ed in ${where}: µs a value, warm DEK`,
    columns: ['', ...sizes.map((size) => `${size} B`)],
    rows: peers.map((peer) => [
      peer,
      ...sizes.map((size) => withSpread(spread(text[size]?.[`${peer}/${direction}`] ?? []))),
    ]),
  }
}

export function textPlot(text: Record<string, Measured>, direction: string, where: 'Node' | 'Chromium'): Plot {
  const sizes = Object.keys(text)
  return {
    file: `sdk-${where.toLowerCase()}-${direction}`,
    title: `Text ${direction}ed in ${where}`,
    x: { label: 'bytes of text', log: true },
    y: { label: 'µs a value', log: true },
    lines: peersOf(text[sizes[0] ?? ''] ?? {}).map((peer) => ({
      name: peer,
      points: sizes.map((size) => [Number(size), spread(text[size]?.[`${peer}/${direction}`] ?? []).median]),
    })),
  }
}
