/** The answers for pages, read without zod, which is larger than everything else. A test compares with `answers.ts`. */
import { KEY_BYTES } from '../aead.js'
import { isBase64 } from '../bytes.js'
import type { OperationId } from '../routes.js'
import type { Answers, Problem } from './answers.js'

/** Thrown for an answer that violates the contract. Names the member and its requirement, and repeats no value. */
export class AnswerError extends Error {}

export interface TextKind {
  is(text: string): boolean
  must: string
}

/** Ours have 88 characters (wrapped-key.md 1); those of a KMS have a few hundred. */
export const WRAPPED_KEY_CHARACTERS = 1_024

/* Keys are checked by functions, so that no regular expression keeps a DEK as the last text that it matched. */
export const BASE64_KEY: TextKind = {
  is: (text) => isBase64(text, KEY_BYTES),
  must: `must be canonical standard base64 of exactly ${KEY_BYTES} bytes`,
}
export const WRAPPED_KEY: TextKind = {
  is: (text) => text !== '' && text.length <= WRAPPED_KEY_CHARACTERS && isBase64(text),
  must: 'must be canonical standard base64 of 1 to 1,024 characters',
}
export const UUID = {
  pattern: /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/,
  must: 'must be a UUID, lower case, with dashes',
}
export const HEX_32 = { pattern: /^[0-9a-f]{64}$/, must: 'must be 64 hexadecimal digits' }
export const MAX_VERSION = 2 ** 31 - 1
export const wholeMessage = (least: 0 | 1, most = Number.MAX_SAFE_INTEGER) =>
  `must be a whole number from ${least} to ${most}`

/** Returns what a value must be, or undefined if it is valid. */
type Check = (value: unknown) => string | undefined
/** The checks of the members, in the order in which they run. */
type Checks<T> = { readonly [K in keyof T]-?: Check }

const text: Check = (value) => (typeof value === 'string' ? undefined : 'must be text')
const kind =
  ({ is, must }: TextKind): Check =>
  (value) =>
    text(value) ?? (is(value as string) ? undefined : must)
const uuid: Check = (value) => (text(value) === undefined && UUID.pattern.test(value as string) ? undefined : UUID.must)
const whole =
  (least: 0 | 1, most = Number.MAX_SAFE_INTEGER): Check =>
  (value) =>
    Number.isSafeInteger(value) && (value as number) >= least && (value as number) <= most
      ? undefined
      : wholeMessage(least, most)

const KEY = { key_id: uuid, key_version: whole(1, MAX_VERSION) }
const WRAPPED: Checks<Answers['wrap']> = { wrapped_key: kind(WRAPPED_KEY), ...KEY }
const PAGE_ANSWERS = {
  wrap: WRAPPED,
  unwrap: { dek: kind(BASE64_KEY), ...KEY },
  rewrap: WRAPPED,
  indexSecret: { secret: kind(BASE64_KEY), key_id: uuid },
  hash: { hash: kind({ is: (digits) => HEX_32.pattern.test(digits), must: HEX_32.must }), key_id: uuid },
} satisfies { [Id in OperationId & keyof Answers]?: Checks<Answers[Id]> }

const PROBLEM: Checks<Problem> = {
  type: text,
  title: text,
  status: whole(0),
  detail: text,
  code: text,
  retry_after: (value) => (value === undefined ? undefined : whole(0)(value)),
}

/** A call whose answer `readPageAnswer` reads. */
type PageCall = keyof typeof PAGE_ANSWERS

export function isPageCall(id: OperationId): id is PageCall {
  return Object.hasOwn(PAGE_ANSWERS, id)
}

export function readPageAnswer(id: PageCall, value: unknown): unknown {
  return readMembers(PAGE_ANSWERS[id], value)
}

export function readProblem(value: unknown): Problem {
  return readMembers(PROBLEM, value) as Problem
}

/** Reads the results of a batch, but not their bodies. @throws AnswerError */
export function readBatchResults(value: unknown): Answers['batch'] {
  const results: Check = (list) => (Array.isArray(list) ? undefined : 'must be an array')
  const status: Check = (one) => (Number.isSafeInteger(one) ? undefined : 'must be a whole number')
  const read = readMembers({ results }, value) as { results: unknown[] }
  const body: Check = (one) => (one === undefined ? 'is missing or wrong' : undefined)
  return {
    results: read.results.map((one, at) =>
      readMembers({ status, body }, one, `results.${at}`),
    ) as Answers['batch']['results'],
  }
}

function readMembers(checks: Readonly<Record<string, Check>>, value: unknown, place = ''): Record<string, unknown> {
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw new AnswerError(`${place || 'the body'}: must be an object`)
  const out: Record<string, unknown> = {}
  for (const [name, check] of Object.entries(checks)) {
    const member = Object.hasOwn(value, name) ? (value as Record<string, unknown>)[name] : undefined
    const fault = check(member)
    if (fault !== undefined) throw new AnswerError(`${place && `${place}.`}${name}: ${fault}`)
    if (member !== undefined) out[name] = member
  }
  return out
}
