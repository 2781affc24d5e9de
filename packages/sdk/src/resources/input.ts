/** Checks the arguments of resources. Apart from `../input.ts`, so that it is loaded with the first call. */
import { isUuid, isWellFormed, MAX_NAME_CHARACTERS } from '@eaas/protocol'
import { InvalidInputError } from '../errors.js'
import { assertWhole, isoText, isValidDate } from '../input.js'

export function assertName(name: unknown, option = 'name', hint?: string): asserts name is string {
  if (typeof name !== 'string' || name === '' || [...name].length > MAX_NAME_CHARACTERS)
    throw new InvalidInputError(`${option} must be text of 1 to ${MAX_NAME_CHARACTERS} characters`, hint)
  if (!isWellFormed(name) || name.includes('\0'))
    throw new InvalidInputError(`${option} must not contain a NUL or a lone surrogate`)
}

export function assertId(id: unknown, option = 'id'): asserts id is string {
  if (typeof id === 'string' && isUuid(id)) return
  throw new InvalidInputError(`${option} must be a UUID, lower case, with dashes`)
}

export function assertPage(limit: unknown, offset: unknown): void {
  if (limit !== undefined) assertWhole('limit', limit, 1)
  if (offset !== undefined) assertWhole('offset', offset, 0)
}

export function readTime(value: string | Date, name: string): string {
  if (typeof value === 'string') return value
  if (!isValidDate(value)) throw new InvalidInputError(`${name} must be text or a valid Date`)
  return isoText(value)
}
