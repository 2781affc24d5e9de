/** Parses unknown input into a typed value, once; invalid input is refused with the name of the field. */
import { wire } from '@eaas/protocol'
import { en } from 'zod/locales'
import { config, type ZodMiniType } from 'zod/mini'
import { Refusal } from '../runner/refusal.js'

config(en())

/**
 * Parses by a schema. `otherwise` says what is wrong if no field can be named. @throws Refusal E_VALIDATION
 */
export function parse<Value>(schema: ZodMiniType<Value>, input: unknown, otherwise: string): Value {
  const overlong = wire.findOverlong(input)
  if (overlong) throw new Refusal('E_VALIDATION', overlong)
  const result = schema.safeParse(input)
  if (result.success) return result.data
  throw new Refusal('E_VALIDATION', wire.describeIssue(result.error, otherwise))
}
