/** Keeps secrets out of errors: removes them from the other end's text, and from what a fetch threw. */
import { isWellFormed } from '@eaas/protocol'
import { isObject, kindOf } from '../input.js'

/** Shorter secrets are removed only as whole words: removing them inside words would damage any sentence. */
const MIN_SECRET = 4
const MAX_DEPTH = 5
const COMMON: readonly unknown[] = ['constructor', 'toString']

/** Lists the spellings in which text may repeat secrets, longest first, since one may begin another. */
export function spellingsOf(secrets: readonly string[]): readonly string[] {
  return secrets.flatMap(spell).sort((a, b) => b.length - a.length)
}

/** Removes secrets from a text; `hidden` are their spellings. */
export function hide(text: string, hidden: readonly string[]): string {
  return hidden.reduce(
    (shown, secret) =>
      shown.replaceAll(secret, (found, at: number) => {
        const beside = shown.charAt(at - 1) + shown.charAt(at + secret.length)
        return secret.length < MIN_SECRET && /\w/.test(beside) ? found : '[removed]'
      }),
    text,
  )
}

/** Replaces each control character, and each half of a character, by a blank. */
export function toPrintable(text: string): string {
  return text.replace(/[\p{Cc}\p{Cs}]/gu, ' ')
}

function spell(secret: string): string[] {
  const url = isWellFormed(secret) ? encodeURIComponent(secret) : secret
  const spellings = new Set([secret, toPrintable(secret), JSON.stringify(secret).slice(1, -1), url])
  return [...spellings].filter((spelling) => spelling.trim() !== '')
}

/** Returns what a fetch threw, or a copy without secrets if a text, member, getter or method of its class may hold one. */
export function causeOf(thrown: unknown, hidden: readonly string[]): unknown {
  try {
    return isHarmless(thrown, hidden, 0) ? thrown : copyOf(thrown, hidden, 0)
  } catch {
    return undefined // an error whose members cannot be read
  }
}

function isHarmless(value: unknown, hidden: readonly string[], depth: number): boolean {
  if (typeof value === 'string') return hide(value, hidden) === value
  if (!isObject(value)) return typeof value !== 'function'
  if (depth > MAX_DEPTH || !(isError(value) || Array.isArray(value))) return false
  const members = Reflect.ownKeys(value).map((key) => Reflect.get(value, key) as unknown)
  if (isError(value)) members.push(...inheritedBy(value))
  return members.every((member) => isHarmless(member, hidden, depth + 1))
}

/** Lists what an error inherits, including getters and methods, except from Object.prototype, which has no prototype. */
function inheritedBy(error: Error): unknown[] {
  const values: unknown[] = []
  let owner = Object.getPrototypeOf(error)
  while (owner && Object.getPrototypeOf(owner)) {
    // From Node 26 on, the platform's class has functions under symbols, with which Node copies it to a worker.
    const isPlatforms = owner === globalThis.DOMException?.prototype
    for (const key of isPlatforms ? Object.getOwnPropertyNames(owner) : Reflect.ownKeys(owner)) {
      if (!COMMON.includes(key)) values.push(Reflect.get(owner, key, error))
    }
    owner = Object.getPrototypeOf(owner)
  }
  return values
}

function copyOf(thrown: unknown, hidden: readonly string[], depth: number): Error {
  if (!isError(thrown)) return new Error(`fetch threw ${kindOf(thrown)}`)
  const { name, message, stack, code, cause } = thrown as unknown as Partial<Record<string, unknown>>
  const hasCause = cause !== undefined && depth < MAX_DEPTH
  const copy = new Error(clean(message), hasCause ? { cause: copyOf(cause, hidden, depth + 1) } : undefined)
  for (const [key, text] of Object.entries({ name, stack })) {
    if (typeof text === 'string')
      Object.defineProperty(copy, key, { value: clean(text), configurable: true, writable: true })
  }
  return typeof code === 'string' || typeof code === 'number' ? Object.assign(copy, { code: clean(code) }) : copy

  function clean(text: unknown): string {
    return hide(String(text), hidden)
  }
}

function isError(value: unknown): value is Error {
  return /^\[object (?:Error|DOMException)\]$/.test(Object.prototype.toString.call(value))
}
