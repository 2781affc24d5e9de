// The panels: what the servers saw, and the audit log.
import type { Live, Seen } from './api.js'
import { element, find } from './dom.js'

const time = new Intl.DateTimeFormat(undefined, { timeStyle: 'medium' })

/** Shows the newest of both; unfolded items stay unfolded. */
export function showLive({ seen, entries, chain }: Live): void {
  const requests = find('#requests', HTMLElement)
  const unfolded = new Set([...requests.querySelectorAll('details[open]')].map((one) => one.getAttribute('data-at')))
  requests.replaceChildren(...seen.map((one) => requestOf(one, unfolded.has(one.at))))
  find('#entries', HTMLElement).replaceChildren(...entries.map(entryOf))
  const badge = find('#chain', HTMLElement)
  badge.textContent = chain.valid ? `chain whole · ${chain.total} entries` : 'CHAIN BROKEN'
  badge.dataset.valid = String(chain.valid)
}

function requestOf({ at, by, what, user, body }: Seen, isOpen: boolean): HTMLElement {
  const summary = element(
    'summary',
    {},
    element('span', { class: `by by-${by}` }, by),
    element('b', {}, what),
    element('span', { class: 'when' }, `${user} · ${time.format(new Date(at))}`),
  )
  const details = element('details', { 'data-at': at }, summary, element('pre', {}, JSON.stringify(body, null, 2)))
  if (isOpen) details.setAttribute('open', '')
  return element('li', {}, details)
}

function entryOf({ id, action, created_at, actor, on_behalf_of }: Live['entries'][number]): HTMLElement {
  const who = on_behalf_of === undefined ? actor : `for ${on_behalf_of}`
  return element(
    'li',
    { class: 'entry' },
    element('span', { class: 'number' }, String(id)),
    element('b', {}, action),
    element('span', { class: 'when' }, `${who} · ${time.format(new Date(created_at))}`),
  )
}
