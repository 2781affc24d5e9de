/** What few calls that seal many rows share: own DEKs, indexes made by the service, and parallel calls. */
import { decodeUtf8, encodeUtf8 } from '@eaas/protocol'
import type { OwnDek } from '../deks/random.js'
import type { Batcher } from '../http/batcher.js'
import { assertNotAborted, type DekScope } from '../input.js'
import type { NamedUse } from '../uses.js'
import { onAbort, untilAborted } from '../waiting.js'
import { BLOCK_RECORDS, MADE_TEXT, type RecordsDeps } from './blocks.js'

const BLOCK_HASHES = 4_000
const COLON = 0x3a

interface DeksOptions {
  /** The key of a record; undefined if it has nothing to seal. */
  keyOf: (at: number) => string | undefined
  /** What a record's DEK is wrapped for: one use for all records of a call that share it. */
  useOf?: (at: number) => NamedUse | undefined
  dek: DekScope
  count: number
  signal: AbortSignal | undefined
}

/** `dekOf` is undefined for the scope `shared`. The DEKs of a block are wrapped together, and released after it. */
export async function withDeks(
  { wrap, decryptDeks, createOwnDek }: Pick<RecordsDeps, 'wrap' | 'decryptDeks' | 'createOwnDek'>,
  { keyOf, useOf, dek, count, signal }: DeksOptions,
  task: (start: number, end: number, dekOf: (at: number) => OwnDek | undefined) => Promise<void>,
): Promise<void> {
  const block = dek === 'record' ? BLOCK_RECORDS : count
  const nameOf = (at: number) => (dek === 'call' ? keyOf(at) : at)
  for (let start = 0; start < count; start += block) {
    const end = Math.min(count, start + block)
    const wanted = new Map<string | number | undefined, { keyId: string; use: NamedUse | undefined }>()
    for (let at = start; at < end && dek !== 'shared'; at++) {
      const keyId = keyOf(at)
      if (keyId !== undefined) wanted.set(nameOf(at), { keyId, use: useOf?.(at) })
    }
    const own = await createDeks([...wanted.values()].map(({ keyId, use }) => createOwnDek(wrap, keyId, signal, use)))
    const deks = new Map([...wanted.keys()].map((name, number) => [name, own[number]]))
    try {
      if (dek === 'call') for (const { wrapped, dek } of own) decryptDeks.add(wrapped, dek)
      await task(start, end, (at) => deks.get(nameOf(at)))
    } finally {
      for (const { dek } of own) dek.release()
    }
  }
}

async function createDeks(making: readonly Promise<OwnDek>[]): Promise<OwnDek[]> {
  const made = await Promise.allSettled(making)
  const deks = made.flatMap((result) => (result.status === 'fulfilled' ? [result.value] : []))
  const failed = made.find((result) => result.status === 'rejected')
  if (!failed) return deks
  for (const { dek } of deks) dek.release()
  throw failed.reason
}

export async function hashEach(
  batcher: Batcher,
  values: ReadonlySet<string>,
  { keyId, signal }: { keyId: string; signal?: AbortSignal | undefined },
): Promise<Map<string, string>> {
  const hashes = new Map<string, string>()
  const list = [...values]
  for (let start = 0; start < list.length; start += BLOCK_HASHES) {
    const block = list.slice(start, start + BLOCK_HASHES)
    const made = await together(signal, (own) => block.map((one) => batcher.hash(one, keyId, own, valuesIn(one))))
    for (const [at, one] of block.entries()) hashes.set(one, made[at] ?? '')
  }
  return hashes
}

function valuesIn(text: string): string[] {
  if (!MADE_TEXT.test(text)) return []
  const values: string[] = []
  const bytes = encodeUtf8(text)
  for (let at = text.indexOf(':'); at < bytes.length; ) {
    const start = bytes.indexOf(COLON, at + 1) + 1
    const end = start + Number(decodeUtf8(bytes.subarray(at + 1, start - 1)))
    values.push(decodeUtf8(bytes.subarray(start, end)))
    at = end
  }
  return text.startsWith('eaas/index/') ? values.slice(2) : values // without the names of the model and the column
}

export type Calls<T extends readonly unknown[]> = readonly [...{ [K in keyof T]: Promise<T[K]> }]

/** All calls must succeed. The first error, or the signal, aborts the others. @throws AbortedError, or that error */
export async function together<T extends readonly unknown[]>(
  signal: AbortSignal | undefined,
  call: (signal: AbortSignal) => Calls<T>,
): Promise<T> {
  assertNotAborted(signal)
  const controller = new AbortController()
  const ignoreSignal = onAbort(signal, () => controller.abort(signal?.reason))
  try {
    const all = Promise.all(call(controller.signal))
    return (await untilAborted(all, controller.signal)) as readonly unknown[] as T
  } catch (error) {
    controller.abort(error)
    throw error
  } finally {
    ignoreSignal()
  }
}
