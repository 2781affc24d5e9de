// The table of most pages: a sticky head, and rows of one height that open in place. The document has only the rows
// that the window shows, however many there are. Also a plain table for few rows.
import { signal, useComputed, useSignal } from '@preact/signals'
import type { ComponentChildren } from 'preact'
import { useEffect, useRef } from 'preact/hooks'
import { param, setParams } from '../location.js'

const ROW_PX = 34 // as in style.css
const SPARE_ROWS = 4 // drawn above and below the window, so that keys and wheels find the next one there

/** As in style.css: too narrow for the columns that are `wide`. */
const narrow = matchMedia('(max-width: 44rem)')
const isNarrow = signal(narrow.matches)
narrow.addEventListener('change', () => {
  isNarrow.value = narrow.matches
})

export interface Column<Row> {
  title: string
  cell(row: Row): ComponentChildren
  wide?: boolean // hidden on a phone, where the opened row shows it
  isNumber?: boolean
  width?: number // share of the width; 1 by default
}

interface TableProps<Row> {
  label: string
  rows: readonly Row[]
  columns: readonly Column<Row>[]
  keyOf(row: Row): string | number
  /** where the first cell's link leads; without it, the cell's control opens the row */
  linkOf?(row: Row): string
  open?(row: Row): ComponentChildren
  toneOf?(row: Row): string
  /** called when the last rows come into view */
  onEnd?(): void
}

export function Table<Row>({ label, rows, columns: all, keyOf, linkOf, open, toneOf, onEnd }: TableProps<Row>) {
  const body = useRef<HTMLTableSectionElement>(null)
  const first = useSignal(0)
  const shown = useSignal(60)
  const opened = useSignal<string | number | undefined>(undefined)
  const endShown = useComputed(() => first.value + shown.value)

  useEffect(() => {
    let frame = 0
    const measure = () => {
      frame = 0
      const top = body.current?.getBoundingClientRect().top ?? 0
      first.value = Math.max(0, Math.floor(-top / ROW_PX) - SPARE_ROWS)
      shown.value = Math.ceil(innerHeight / ROW_PX) + 2 * SPARE_ROWS
    }
    const onScroll = () => {
      frame ||= requestAnimationFrame(measure)
    }
    measure()
    addEventListener('scroll', onScroll, { passive: true })
    addEventListener('resize', onScroll)
    return () => {
      cancelAnimationFrame(frame)
      removeEventListener('scroll', onScroll)
      removeEventListener('resize', onScroll)
    }
  }, [])
  useEffect(() => {
    if (endShown.value >= rows.length) onEnd?.()
  })

  const from = Math.min(first.value, Math.max(0, rows.length - shown.value))
  const visible = rows.slice(from, endShown.value)
  const below = Math.max(0, rows.length - from - visible.length)
  const columns = all.filter(({ wide }) => !wide || !isNarrow.value)
  const total = columns.reduce((sum, { width = 1 }) => sum + width, 0)
  return (
    <table aria-label={label} aria-rowcount={rows.length}>
      <colgroup>
        {columns.map(({ title, width = 1 }) => (
          <col key={title} style={{ width: `${(100 * width) / total}%` }} />
        ))}
      </colgroup>
      <Head columns={columns} />
      <tbody ref={body}>
        {from > 0 && <Spacer rows={from} columns={columns.length} />}
        {visible.map((row, at) => {
          const key = keyOf(row)
          const isOpen = opened.value === key
          const toggle = () => {
            opened.value = isOpen ? undefined : key
          }
          const control = (children: ComponentChildren) =>
            linkOf ? (
              <a class="row-link" href={linkOf(row)}>
                {children}
              </a>
            ) : open ? (
              <button type="button" class="row-link" aria-expanded={isOpen} onClick={toggle}>
                {children}
              </button>
            ) : (
              children
            )
          return [
            <tr key={key} class={toneOf?.(row) ?? ''} aria-rowindex={from + at + 1}>
              {columns.map(({ title, cell, isNumber }, column) => (
                <td key={title} class={isNumber ? 'number' : ''}>
                  {column === 0 ? control(cell(row)) : cell(row)}
                </td>
              ))}
            </tr>,
            isOpen && open && (
              <tr key={`${key} opened`} class="opened">
                <td colSpan={columns.length}>{open(row)}</td>
              </tr>
            ),
          ]
        })}
        {below > 0 && <Spacer rows={below} columns={columns.length} />}
      </tbody>
    </table>
  )
}

function Head<Row>({ columns }: { columns: readonly Column<Row>[] }) {
  return (
    <thead>
      <tr>
        {columns.map(({ title, isNumber }) => (
          <th key={title} scope="col" class={isNumber ? 'number' : ''}>
            {title}
          </th>
        ))}
      </tr>
    </thead>
  )
}

/** A table of few rows, all of which are in the document; without rows, it shows `empty`. */
export function PlainTable<Row>({ label, rows, columns, keyOf, empty }: TableProps<Row> & { empty?: string }) {
  if (rows.length === 0 && empty !== undefined) return <p class="empty">{empty}</p>
  return (
    <table class="plain" aria-label={label}>
      <Head columns={columns} />
      <tbody>
        {rows.map((row) => (
          <tr key={keyOf(row)}>
            {columns.map(({ title, cell, isNumber }) => (
              <td key={title} class={isNumber ? 'number' : ''}>
                {cell(row)}
              </td>
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  )
}

function Spacer({ rows, columns }: { rows: number; columns: number }) {
  return (
    <tr class="spacer">
      <td colSpan={columns} style={{ height: `${rows * ROW_PX}px` }} />
    </tr>
  )
}

/** Moves the focus to the next or the previous row (`j`, `k`). */
export function moveRow(step: 1 | -1): void {
  const links = [...document.querySelectorAll<HTMLElement>('.row-link')]
  const at = links.indexOf(document.activeElement as HTMLElement)
  const next = links[at < 0 ? 0 : at + step]
  next?.focus()
  next?.scrollIntoView({ block: 'nearest' })
}

interface ListBarProps {
  title: string
  what: string // the plural of the listed things, as in `Search keys`
  count: string
  states: readonly string[]
  children: ComponentChildren
}

export function ListBar({ title, what, count, states, children }: ListBarProps) {
  return (
    <div class="bar">
      <h1>{title}</h1>
      <span class="count">{count}</span>
      <input
        type="search"
        placeholder="Name or id  /"
        aria-label={`Search ${what}`}
        value={param('q')}
        onInput={(event) => setParams({ q: event.currentTarget.value })}
      />
      <select
        aria-label="State"
        value={param('status')}
        onChange={(event) => setParams({ status: event.currentTarget.value })}
      >
        <option value="">any state</option>
        {states.map((state) => (
          <option key={state} value={state}>
            {state.replace('_', ' ')}
          </option>
        ))}
      </select>
      <span class="tools">{children}</span>
    </div>
  )
}

export function isAskedFor({ id, name, status }: { id: string; name: string; status: string }): boolean {
  const [text, state] = [param('q').toLowerCase(), param('status')]
  return (state === '' || status === state) && (name.toLowerCase().includes(text) || id === text)
}
