/** The form of a case of the contract, and what cases check with. */
import { inspect, isDeepStrictEqual } from 'node:util'
import { type OperationId, ROUTES, visibleLine } from '@eaas/protocol'
import type { Session } from '../session.js'

export const OPERATIONS = Object.keys(ROUTES) as OperationId[]

/** Cases by name: the calls that a case is about, as `operationId`s of the OpenAPI document, or `every call`, then a colon and the rule. */
export type Cases = Readonly<Record<string, (session: Session) => Promise<void>>>
export type Case = readonly [name: string, run: Cases[string]]

/** Returns the calls that a case is about. */
export function callsIn(name: string): string[] {
  return name.slice(0, name.indexOf(': ')).split(', ')
}

/** Skips a case if server mode is not open, or not closed, as the case needs. @throws Skip */
export function needs(session: Session, mode: 'open' | 'closed'): void {
  if (session.isOpen === (mode === 'open')) return
  throw new Skip(mode === 'open' ? 'server mode is closed to the tenant' : 'server mode is open to the tenant')
}

/** Returns the base64 of a new DEK, or of other bytes. */
export function randomBase64(bytes = 32): string {
  return Buffer.from(crypto.getRandomValues(new Uint8Array(bytes))).toString('base64')
}

/** Changes one bit of a base64 text. */
export function flip(base64: string, at: number): string {
  const bytes = Buffer.from(base64, 'base64')
  bytes[at] = (bytes[at] ?? 0) ^ 1
  return bytes.toString('base64')
}

/** An id that no key has. */
export const NOWHERE = '00000000-0000-4000-8000-000000000000'

const SHOWN_CHARACTERS = 600

export class Fault extends Error {
  override readonly name = 'Fault'
}

/** Thrown by a case that this tenant or server cannot run; the message says why. */
export class Skip extends Error {
  override readonly name = 'Skip'
}

export function same(actual: unknown, expected: unknown, what: string): void {
  if (!isDeepStrictEqual(actual, expected)) throw new Fault(`${what}: expected ${show(expected)}, got ${show(actual)}`)
}

export function check(isSo: boolean, what: string): asserts isSo {
  if (!isSo) throw new Fault(what)
}

export function each<Item, Name extends keyof Item>(items: readonly Item[], name: Name): Item[Name][] {
  return items.map((item) => item[name])
}

/** Shows a value in one line, without the secrets of API keys. */
export function show(value: unknown): string {
  const text = inspect(value, { depth: 6, breakLength: Number.POSITIVE_INFINITY, maxStringLength: 200 })
  return redact(text.length > SHOWN_CHARACTERS ? `${text.slice(0, SHOWN_CHARACTERS)}…` : text)
}

/** Replaces the secrets of API keys, and escapes invisible characters. */
export function redact(text: string): string {
  return visibleLine(text.replaceAll(/(eaas_sk_\w{4})[\w-]+/g, '$1…'))
}
