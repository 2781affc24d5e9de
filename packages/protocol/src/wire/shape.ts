/**
 * What the answers of the API look like, as data: the SDK reads answers by it, the server makes the OpenAPI document of it. Unlike the
 * requests, which zod parses on the server, answers are read in browsers, where zod would be five of the kilobytes that pages download.
 */

/** The shape of one value. It coerces nothing. */
export type Shape<T = unknown> = Form & {
  /** For TypeScript only. */
  readonly '~type'?: T
}

type Form =
  | Checked
  | { kind: 'choice'; names: readonly string[] }
  | { kind: 'list'; item: Shape }
  /** An object with these members, of which the optional ones may be absent. Others are left out, unless they have the shape `others`. */
  | { kind: 'object'; members: Readonly<Record<string, Shape>>; others?: Shape | undefined }
  | { kind: 'optional' | 'nullable'; of: Shape }

/** A value that a function checks, such as text in a format; `message` says what it must be. */
export interface Checked {
  kind: 'value'
  message: string
  is(value: unknown): boolean
}

/** The type of the values of a shape. */
export type Infer<S extends Shape> = S extends Shape<infer T> ? T : never

type Members = Readonly<Record<string, Shape>>
type OptionalNames<M extends Members> = { [K in keyof M]: undefined extends Infer<M[K]> ? K : never }[keyof M]
type ObjectOf<M extends Members> = {
  [K in Exclude<keyof M, OptionalNames<M>>]: Infer<M[K]>
} & { [K in OptionalNames<M>]?: Infer<M[K]> } extends infer O
  ? { [K in keyof O]: O[K] }
  : never

/** A value for which the function returns true. */
export function checked<T>(is: (value: unknown) => boolean, message: string): Shape<T> & Checked {
  return { kind: 'value', is, message }
}

/** A text for which the function returns true. */
export function textThat(is: (text: string) => boolean, message: string) {
  return checked<string>((value) => typeof value === 'string' && is(value), message)
}

/** Any value that JSON has. */
export const anything = checked<unknown>(() => true, '')
export const string = textThat(() => true, 'must be text')

/** One of a few texts. */
export function choice<const N extends string>(names: readonly N[]): Shape<N> {
  return { kind: 'choice', names }
}

export function list<T>(item: Shape<T>): Shape<T[]> {
  return { kind: 'list', item }
}

/** An object. `others` is the shape of the members that have no name; without it they are ignored. */
export function object<const M extends Members>(members: M): Shape<ObjectOf<M>> {
  return { kind: 'object', members }
}

/** An object with members of any name, all of one shape. */
export function record<T>(others: Shape<T>): Shape<Record<string, T>> {
  return { kind: 'object', members: {}, others }
}

/** A member that may be absent. */
export function optional<T>(of: Shape<T>): Shape<T | undefined> {
  return { kind: 'optional', of }
}

export function nullable<T>(of: Shape<T>): Shape<T | null> {
  return { kind: 'nullable', of }
}

/** Thrown for a value that does not have its shape. The message names the member and what it must be, and repeats nothing of the value. */
export class ShapeError extends Error {}

/** Returns a copy of what JSON.parse returned, without the members that the shape ignores. @throws ShapeError */
export function readShape<T>(shape: Shape<T>, value: unknown, path = ''): T {
  return read(shape, value, path) as T
}

function read(shape: Shape, value: unknown, path: string): unknown {
  const refuse = (message: string): never => {
    throw new ShapeError(`${path || 'the body'}: ${message}`)
  }
  const inside = (name: string | number) => (path ? `${path}.${name}` : `${name}`)
  switch (shape.kind) {
    case 'value':
      return shape.is(value) ? value : refuse(shape.message)
    case 'choice':
      return shape.names.includes(value as string) ? value : refuse(`must be one of ${shape.names.join(', ')}`)
    case 'optional':
      return value === undefined ? value : read(shape.of, value, path)
    case 'nullable':
      return value === null ? value : read(shape.of, value, path)
    case 'list':
      if (!Array.isArray(value)) return refuse('must be an array')
      return value.map((item, at) => read(shape.item, item, inside(at)))
    case 'object': {
      if (typeof value !== 'object' || value === null || Array.isArray(value)) return refuse('must be an object')
      const names = Object.keys(shape.others ? { ...value, ...shape.members } : shape.members)
      // Own members only: `constructor` is no member of an answer that lacks it. fromEntries defines `__proto__` like any other.
      return Object.fromEntries(
        names.flatMap((name) => {
          const given = Object.hasOwn(value, name) ? (value as Record<string, unknown>)[name] : undefined
          const own = Object.hasOwn(shape.members, name) ? shape.members[name] : shape.others
          const kept = read(own ?? anything, given, inside(name))
          return kept === undefined ? [] : [[name, kept]]
        }),
      )
    }
  }
}
