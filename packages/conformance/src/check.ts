/** What cases check with: a fault says what was expected, and what came. */
import { inspect, isDeepStrictEqual } from 'node:util'
import { visibleLine } from '@eaas/protocol'

const SHOWN_CHARACTERS = 600

/** A violation of the contract by the server. */
export class Fault extends Error {
  override readonly name = 'Fault'
}

/** Thrown by a case that this tenant or server cannot run; the message says why. */
export class Skip extends Error {
  override readonly name = 'Skip'
}

/** Checks that two values are deeply equal. @throws Fault */
export function same(actual: unknown, expected: unknown, what: string): void {
  if (!isDeepStrictEqual(actual, expected)) throw new Fault(`${what}: expected ${show(expected)}, got ${show(actual)}`)
}

/** Checks a condition. @throws Fault */
export function check(isSo: boolean, what: string): asserts isSo {
  if (!isSo) throw new Fault(what)
}

/** Shows a value in one line, without secrets of API keys. */
export function show(value: unknown): string {
  const text = inspect(value, { depth: 6, breakLength: Number.POSITIVE_INFINITY, maxStringLength: 200 })
  return redact(text.length > SHOWN_CHARACTERS ? `${text.slice(0, SHOWN_CHARACTERS)}…` : text)
}

/** Replaces the secrets of API keys, and escapes what is hidden. */
export function redact(text: string): string {
  return visibleLine(text.replaceAll(/(eaas_sk_\w{4})[\w-]+/g, '$1…'))
}
