/** An extension of a Prisma client, through which all of its queries go. */
import { findTableInStatement, refuseCall, rememberCaller, runFor } from '@eaas/sdk/adapter'
import { rewriteArgs } from './args.js'
import { openResult } from './results.js'
import { readSchema, type Schema } from './schema.js'

/** What Prisma passes to a query extension. */
interface Call {
  model?: string
  operation: string
  args: unknown
  query(args: unknown): Promise<unknown>
  /** Prisma's own: where in the result is what a call such as `findUnique(…).posts()` returns. */
  __internalParams?: { dataPath?: readonly string[] }
}

interface Extendable {
  $extends(extension: object): object
}

export function extendClient(client: object, models: Readonly<Record<string, object>>): object {
  const schema = readSchema(client, models)
  return (client as Extendable).$extends({
    name: '@eaas/sdk',
    query: {
      async $allOperations(call: Call) {
        await undefined // Prisma calls this in a turn in which nobody is on the stack; in the next one, it has who waits
        return runFor(rememberCaller(), () => runOperation(schema, call))
      },
    },
  })
}

async function runOperation(schema: Schema, { model, operation, args, query, __internalParams }: Call) {
  if (model === undefined) {
    assertRaw(schema, operation, args)
    return query(args)
  }
  const known = schema.get(model)
  const result = await query(await rewriteArgs(schema, known, operation, args))
  // The path alternates between `select` and the field of a relation.
  const path = (__internalParams?.dataPath ?? []).filter((_, at) => at % 2 === 1)
  const returned = path.reduce((one, field) => schema.get(one.relations.get(field) ?? one.name), known)
  if (!['count', 'aggregate', 'groupBy'].includes(operation)) await openResult(schema, returned, result)
  return result
}

/** Refuses SQL as text that writes or names what is encrypted. */
function assertRaw(schema: Schema, operation: string, args: unknown): void {
  const table = findTableInStatement(textOf(operation, args), schema.tables)
  if (table === undefined) return
  const hint =
    'Use the operations of a model, or execute it on the client without this extension, which sees what is stored.'
  refuseCall(`SQL as text that names the table ${table}`, hint)
}

function textOf(operation: string, args: unknown): string {
  const [first] = Array.isArray(args) ? (args as unknown[]) : [args]
  if (typeof first === 'string') return first
  const parts: unknown = Array.isArray(first) ? first : (first as { strings?: unknown } | undefined)?.strings
  return Array.isArray(parts) ? parts.join(' ? ') : refuseCall(operation, 'Use the operations of a model.')
}
