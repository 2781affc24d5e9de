/** What the entries of changes say about the rights that they grant (chain.md 12). Pure. */
import { createHash } from 'node:crypto'
import * as protocol from '@eaas/protocol'

/** What an API key is granted. */
export function recordGrant(grant: protocol.Grant): protocol.RecordedGrant {
  return protocol.recordGrant(grant, sha256)
}

/** What an API key was granted before a change, limited to what the change made different. */
export function recordGrantBefore(before: protocol.Grant, after: protocol.Grant): protocol.RecordedGrant {
  return protocol.recordGrantBefore(before, after, sha256)
}

type Values = Record<string, string | number | boolean | null>

/** The values of changed columns, and under `<name>_before` those that they replace. */
export function recordChanges<Row extends object>(before: Row, changes: Partial<Row>): Values {
  const values: Values = {}
  for (const name of Object.keys(changes) as (keyof Row & string)[]) {
    values[name] = changes[name] as Values[string]
    values[`${name}_before`] = before[name] as Values[string]
  }
  return values
}

function sha256(text: string): string {
  return createHash('sha256').update(text).digest('hex')
}
