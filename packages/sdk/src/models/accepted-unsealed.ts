/**
 * Recognises and counts the values that a model opens during a migration although they are not sealed, or bound to
 * nothing.
 */
import { isMissing, type Row } from '../input.js'
import type { OpenJob } from '../records/blocks.js'
import { getAt } from '../records/paths.js'
import { spellingsOf } from '../records/spellings.js'
import { isCompact } from './compact-rows.js'
import type { Definition, PlacedField } from './definition.js'
import type { Accepted } from './model-deps.js'
import { readPlain } from './plain-texts.js'

/**
 * Tells whether the model accepts a field's value as plaintext.
 *
 * @throws InvalidInputError when it is not of the field's kind, or its text is not
 */
export function acceptPlain(definition: Definition, field: PlacedField, value: unknown, index: number): boolean {
  if (!definition.acceptPlaintext || looksSealed(value)) return false
  return !looksSealed(readPlain(definition, field, value, index)) // an envelope may be inside of JSON
}

// Quotes, brackets, backslashes and invisible characters may come first, where JSON was written twice or text was
// pasted. The base64 in its first member identifies a compact field, however short it was truncated.
const SEALED_TEXT =
  /^[\s\p{C}"'[\\]*(eaas\.|\{(.*"(ciphertext|wrapped_key)\\*"|\s*\\*"[ci]\\*"\W*([\w+/]{16}|[\w+/]*$)))/su

/**
 * Tells whether a value is an envelope, whole or truncated: a truncated one must fail, not be accepted as plaintext
 * and sealed again.
 */
export function looksSealed(value: unknown): boolean {
  const queue = [value] // instead of recursion, which nested lists could exhaust
  for (const one of queue) {
    if (typeof one === 'string') {
      if (spellingsOf(one).some((text) => SEALED_TEXT.test(text))) return true
    } else if (Array.isArray(one)) {
      for (const member of one as unknown[]) if (!isCompact(member)) queue.push(member)
    } else if (isCompact(one) || Object(one).ciphertext !== undefined || Object(one).wrapped_key !== undefined)
      return true
  }
  return false
}

/** Counts the accepted values of an opened row, and warns of the model's first one that was not sealed. */
export function countAccepted(accepted: Accepted, definition: Definition, row: Row, jobs: readonly OpenJob[]): void {
  const { acceptPlaintext, acceptUnbound, envelope, fields, name: model, rowSeal, warn } = definition
  if (envelope === 2) accepted.unbound += jobs.filter(({ parts }) => !parts.commitment).length
  if (rowSeal && acceptUnbound && isMissing(row.row_seal)) accepted.unbound++
  if (!acceptPlaintext) return
  const sealed = new Set(jobs.map(({ place }) => place.field))
  for (const { name, path } of fields) {
    if (sealed.has(name) || isMissing(getAt(row, path))) continue
    if (accepted.plaintext++ > 0 || !warn) continue
    const place = JSON.stringify([model, name])
    console.warn(`@eaas/sdk: ${place} holds values that are not encrypted, see acceptPlaintext`)
  }
}
