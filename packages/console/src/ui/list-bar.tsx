/** The bar above a list: its title and count, a search, a choice of states, and what can be done. */
import type { ComponentChildren } from 'preact'
import { param, setParams } from '../location.js'

interface ListBarProps {
  title: string
  /** what the list is of, as in `Search keys` */
  what: string
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

/** Whether a row matches the search and the state. */
export function isAskedFor({ id, name, status }: { id: string; name: string; status: string }): boolean {
  const [text, state] = [param('q').toLowerCase(), param('status')]
  return (state === '' || status === state) && (name.toLowerCase().includes(text) || id === text)
}
