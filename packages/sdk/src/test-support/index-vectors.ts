// What a model stores in the column of a vector, by the options that the vector stands for.
import { type Client, date, type Field, type IndexBy, number, text } from '../index.js'

/** A vector of local-index.md or oblivious-index.md. */
interface ColumnVector {
  model: string
  column: string
  kind: string
  length: number | string
  bits: number
  texts: readonly string[]
}

/** The key under which the model seals, and what makes its index. */
interface Made {
  keyId: string
  index?: IndexBy
}

export async function storedValue(eaas: Client, vector: ColumnVector, made: Made): Promise<unknown> {
  if (vector.kind === 'range') return storedBucket(eaas, vector, made)
  const { column, kind, bits, model } = vector
  const length = Number(vector.length)
  const [a = '', b] = vector.texts
  const indexes =
    b !== undefined
      ? { [column]: { fields: ['a', 'b'] } }
      : {
          [column]:
            kind === 'prefix'
              ? { prefix: 'a', length, bits }
              : { ngram: 'a', length, bits: bits ?? 256, acceptLeakage: true },
        }
  const isOne = kind === 'exact' && b === undefined
  const users = eaas.model({
    name: model,
    bind: false,
    warn: false,
    ...made,
    fields: { a: isOne ? text({ index: column, bits }) : text(), b: text() },
    indexes: (isOne ? {} : indexes) as Record<string, { prefix: 'a'; length: number }>,
  })
  const row = await users.encrypt({ a, b: b ?? 'x' })
  return (row as Record<string, unknown>)[column]
}

async function storedBucket(eaas: Client, vector: ColumnVector, made: Made): Promise<unknown> {
  const { column, length, bits, model, texts } = vector
  const [given = ''] = texts
  const unit = (['day', 'month', 'year'] as const).find((one) => one === length)
  const index = { index: column, bits: bits === 256 ? undefined : bits }
  const field = unit ? date({ ...index, range: unit }) : number({ ...index, range: { step: Number(length) } })
  const users = eaas.model({ name: model, bind: false, ...made, fields: { a: field as Field<unknown> } })
  const row = await users.encrypt({ a: unit ? new Date(Number(given)) : Number(given) })
  return (row as Record<string, unknown>)[column]
}
