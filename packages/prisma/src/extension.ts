/** An extension of a Prisma client, through which all of its queries go. */
import { InvalidInputError } from '@eaas/sdk'
import { assertStatement, openReturned, type Row, refuseCall, rememberCaller, runFor } from '@eaas/sdk/adapter'
import { rewriteArgs } from './args.js'
import type { Client, Running, Transaction } from './clients.js'
import { changeFound, isByFoundRows } from './found-rows.js'
import { assertNoTriggers, withIds } from './ids.js'
import { hide, newShape, openResult, readFiltered, type Shape } from './results.js'
import { readSchema, type Schema, uncapitalized } from './schema.js'
import { isPlain, withoutSkips } from './values.js'

interface Call {
  model?: string
  operation: string
  args: unknown
  query(args: unknown, params?: Params): Promise<unknown>
  __internalParams?: Params
}

/** Prisma's own type: how a query runs. */
interface Params extends Row {
  /** the path in the result to what a call such as `findUnique(…).posts()` returns */
  dataPath?: readonly string[]
  transaction?: Transaction | undefined
}

const NAME = '@eaas/sdk'

export function extendClient(client: object, models: Readonly<Record<string, object>>): object {
  const schema = readSchema(client, models)
  const extended = (client as Client).$extends({
    name: NAME,
    query: {
      async $allOperations(call: Call) {
        await undefined // the caller is not on the stack here, but in the next turn the code that awaits is
        return runFor(rememberCaller(), () => runOperation(schema, client as Client, call))
      },
    },
  })
  return refuseLaterQueries(extended)
}

/** Refuses later extensions with queries: they could change sealed values, or store plaintext. */
function refuseLaterQueries(client: Client): Client {
  const extend = client.$extends.bind(client)
  client.$extends = (other: Partial<Row> | ((client: Client) => Client)) => {
    if (typeof other === 'function') return other(client)
    if (other.name !== NAME && Object.keys(other.query ?? {}).length > 0) {
      const message = 'an extension with queries after encrypted() would change or miss what is sealed already'
      throw new InvalidInputError(message, 'Call `$extends` with it first, and with `encrypted()` last.')
    }
    return refuseLaterQueries(extend(other))
  }
  return client
}

async function runOperation(schema: Schema, client: Client, call: Call) {
  const { model, operation, args, query, __internalParams } = call
  if (model === undefined) {
    assertRaw(schema, operation, args)
    return query(args)
  }
  const known = schema.get(model)
  const { callsite, otelParentCtx, transaction } = __internalParams ?? {}
  const running: Running = {
    client,
    transaction,
    statementIn:
      (of) =>
      (action, given, name = model) => {
        const jsModelName = uncapitalized(name)
        const clientMethod = `${jsModelName}.${action}`
        const named = { model: name, jsModelName, clientMethod, action }
        return query(given, { ...named, callsite, otelParentCtx, dataPath: [], transaction: of })
      },
  }
  const asked = { model: known, operation, args: withoutSkips(isPlain(args) ? args : {}) }
  const one = { ...asked, args: await withIds(schema, running, asked) }
  // The path alternates between `select` and the field of a relation.
  const path = (__internalParams?.dataPath ?? []).filter((_, at) => at % 2 === 1)
  const step = (of: unknown, field: string) => (of as Record<string, unknown> | null)?.[field]
  const shapeAt = (shape: Shape) => path.reduce((of, field) => of.inner.get(field) ?? newShape(), shape)
  const returned = path.reduce((of, field) => schema.get(of.relations.get(field) ?? of.name), known)
  if (isByFoundRows(one)) {
    await assertNoTriggers(schema, running, operation)
    const changed = await changeFound(running, one)
    const result = path.reduce(step, changed.result)
    await openReturned(true, () => openResult(returned, result))
    hide(shapeAt(changed.shape), result)
    return result
  }
  const rewritten = await rewriteArgs(one)
  if (rewritten.filters.length > 0) {
    const found = await readFiltered(running, one, rewritten)
    // Prisma itself throws that there is none.
    if (found === null && operation === 'findFirstOrThrow') return query({ ...rewritten.args, where: { OR: [] } })
    if (operation !== 'count') hide(rewritten.shape, found)
    return path.reduce(step, found)
  }
  await assertNoTriggers(schema, running, operation)
  const result = await query(rewritten.args)
  if (['count', 'aggregate', 'groupBy'].includes(operation)) return result
  // In a list of operations, a read is opened after the writes of the list are committed.
  const wrote: boolean | 'perhaps' = !operation.startsWith('find') || (transaction?.kind === 'batch' && 'perhaps')
  await openReturned(wrote, () => openResult(returned, result))
  hide(shapeAt(rewritten.shape), result)
  return result
}

/** Refuses SQL as text that writes or names what is encrypted. */
function assertRaw(schema: Schema, operation: string, args: unknown): void {
  const hint =
    'Use the operations of a model, or execute it on the client without this extension, which sees what is stored.'
  assertStatement(textOf(operation, args), schema.tables, hint)
}

function textOf(operation: string, args: unknown): string {
  const [first] = Array.isArray(args) ? (args as unknown[]) : [args]
  const { strings, sql = first } = (first ?? {}) as { strings?: unknown; sql?: unknown } // of `Prisma.sql`, of TypedSQL
  const parts = Array.isArray(first) ? first : strings
  if (Array.isArray(parts)) return parts.join(' ? ')
  return typeof sql === 'string' ? sql : refuseCall(operation, 'Use the operations of a model.')
}
