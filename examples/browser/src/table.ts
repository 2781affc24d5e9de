// The table: plaintext for those who may read, ciphertext for all others.
import type { Customer, StoredCustomer } from './customers.js'
import { element, find } from './dom.js'

const COLUMNS = [
  ['name', 'Name'],
  ['email', 'E-mail'],
  ['phone', 'Phone'],
  ['note', 'Note'],
] as const

/** Shows the rows, newest first. */
export function showRows(rows: readonly { sealed: StoredCustomer; plain: Customer | undefined }[]): void {
  const shown = rows.map(({ sealed, plain }) =>
    element(
      'tr',
      { 'data-id': String(sealed.id), 'data-state': plain ? 'open' : 'sealed' },
      ...COLUMNS.map(([field, label]) =>
        element('td', { 'data-label': label }, plain ? textOf(plain[field]) : ciphertextOf(sealed[field])),
      ),
    ),
  )
  find('#rows', HTMLElement).replaceChildren(...shown.reverse())
  find('#empty', HTMLElement).hidden = rows.length > 0
}

/** Removes what the previous user could read. */
export function clearRows(): void {
  find('#rows', HTMLElement).replaceChildren()
}

function textOf(value: string): HTMLElement {
  return value === '' ? element('span', { class: 'none', 'aria-label': 'none' }, '–') : element('span', {}, value)
}

function ciphertextOf(envelope: string): HTMLElement {
  return element('code', { title: 'ciphertext' }, envelope)
}
