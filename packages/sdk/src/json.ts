/** Writes values as JSON without loss: refuses a value that JSON would change or drop. */
import { InvalidInputError, isEaasError, type RecordPlace } from './errors.js'
import { assertValue, isObject, isValidDate, kindOf, readValue } from './input.js'

const MAX_PATH = 200
const HINT = 'Make a Date a text and a Map an array; bytes need encrypt() or bytes().'

/**
 * Writes JSON. Leaves out undefined members, and writes -0 as 0. @throws InvalidInputError with the path of what JSON
 * loses: a class, `toJSON`, NaN, a bigint, a function, a symbol, undefined or a gap in an array, a cycle
 */
export function readJson(value: unknown, place?: RecordPlace): string {
  try {
    return JSON.stringify(copyJson(value, { path: 'value', parents: new Set(), place }))
  } catch (error) {
    if (isEaasError(error)) throw error
    // Without the platform's message, which may quote the value.
    throw new InvalidInputError('JSON cannot represent this value: nested too deeply, or not readable', HINT, place)
  }
}

export function encodeJson(value: unknown, place: RecordPlace): Uint8Array {
  return readValue(readJson(value, place), place)
}

export function assertJsonValue(value: unknown, place: RecordPlace): void {
  assertValue(readJson(value, place), place)
}

type Where = { path: string; parents: Set<unknown>; place: RecordPlace | undefined }

// Each member is read once, since a getter might return another value the next time.
function copyJson(value: unknown, where: Where): unknown {
  if (value === null || typeof value === 'string' || typeof value === 'boolean') return value
  if (typeof value === 'number' && Number.isFinite(value)) return value
  if (typeof value !== 'object') refuse(kindOf(value), where)
  if (where.parents.has(value)) refuse('an object that contains itself', where)
  if (typeof (value as { toJSON?: unknown }).toJSON === 'function') {
    refuse(isValidDate(value) ? 'a Date' : 'an object with a toJSON method', where)
  }
  if (!isPlain(value)) refuse(describeObject(value), where)
  const symbols = Object.getOwnPropertySymbols(value)
  if (symbols.some((symbol) => Object.prototype.propertyIsEnumerable.call(value, symbol))) {
    refuse('an object with a symbol', where)
  }
  const names = Object.keys(value)
  const isList = Array.isArray(value)
  if (isList && (names.length !== value.length || names.some((name, at) => name !== String(at)))) {
    refuse('an array with gaps or named members', where)
  }
  if (Object.getOwnPropertyNames(value).length !== names.length + (isList ? 1 : 0)) {
    refuse('an object with a hidden member', where)
  }
  where.parents.add(value)
  const copy = isList ? [] : Object.create(null) // without a prototype, `__proto__` is a member like any other
  for (const name of names) {
    const member = (value as Record<string, unknown>)[name]
    if (member === undefined && !isList) continue
    const path = where.path + (isList ? `[${name}]` : /^[\w$]+$/.test(name) ? `.${name}` : `[${JSON.stringify(name)}]`)
    copy[name] = copyJson(member, { ...where, path })
  }
  where.parents.delete(value)
  return copy
}

/** Tells whether it is an array, or an object without a class, from any realm. */
function isPlain(value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value)
  return Array.isArray(value) ? isRoot(Object.getPrototypeOf(prototype)) : prototype === null || isRoot(prototype)
}

function isRoot(prototype: unknown): boolean {
  if (!isObject(prototype)) return false
  return Object.getPrototypeOf(prototype) === null && Object.hasOwn(prototype, 'isPrototypeOf')
}

function describeObject(value: object): string {
  const tag = Object.prototype.toString.call(value).slice(8, -1)
  return tag === 'Object' || tag === 'Array' ? 'an instance of a class' : `a value of type ${tag}`
}

function refuse(what: string, { path, place }: Where): never {
  throw new InvalidInputError(`JSON cannot represent ${path.slice(0, MAX_PATH)}, which is ${what}`, HINT, place)
}
