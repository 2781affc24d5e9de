// The check that a size of message passes between our engines and another language, both ways; for cross-language.test.ts and test/slow.
import { randomBytes } from 'node:crypto'
import { expect } from 'vitest'
import type { Engine } from '../../packages/sdk/src/engines/engine.js'
import { createWebEngine } from '../../packages/sdk/src/engines/web.js'
import { DecryptionError } from '../../packages/sdk/src/errors.js'
import { nobleEngine, nodeEngine } from '../../packages/sdk/src/test-support/engines.js'
import { type Job, openElsewhere, sealElsewhere } from '../support/vectors/other-language.js'

const webEngine = createWebEngine()
if (!webEngine) throw new Error('these tests need WebCrypto')

/** From here on bytes, altering a message takes as long as all else: one in ten is. */
const LONG = 2 ** 16

/** Our implementations of AES-256-GCM. One of them wipes the key that it gets: each call gets a copy. */
export const ENGINES: readonly (readonly [string, Engine])[] = [
  ['noble', nobleEngine],
  ['node:crypto', nodeEngine],
  ['WebCrypto', webEngine],
]

/** Random messages of a size pass both ways: what one side sealed the other opens, and not with one bit altered. */
export async function expectExchange({
  bytes,
  messages,
  engine,
}: {
  bytes: number
  messages: number
  engine: Engine
}): Promise<void> {
  const jobs = Array.from(
    { length: messages },
    (_, at): Job => ({
      key: random(32),
      iv: random(12),
      aad: random(at % 3 === 0 ? at : 0), // envelopes have no AAD, wrapped keys have one
      text: random(bytes),
    }),
  )
  const theirs = await sealElsewhere(jobs)
  const ours: Uint8Array[] = []
  for (const { key, iv, aad, text } of jobs) ours.push(await engine.seal(key.slice(), iv, text, aad))
  for (const [at, { key, iv, aad, text }] of jobs.entries()) {
    const [sealed, made] = [theirs[at] ?? new Uint8Array(0), ours[at] ?? new Uint8Array(0)]
    expect(sealed.length).toBe(bytes + 16)
    expect(same(sealed, made)).toBe(true)
    expect(same(await engine.open(key.slice(), iv, sealed, aad), text)).toBe(true)
    if (bytes > LONG && at % 10 !== 0) continue
    await expect(async () => engine.open(key.slice(), iv, altered(sealed, at), aad)).rejects.toThrow(DecryptionError)
  }
  const ourJobs = jobs.map((job, at) => ({ ...job, text: ours[at] ?? new Uint8Array(0) }))
  const [refused, ...opened] = await openElsewhere([...ourJobs.slice(0, 1).map(alteredJob), ...ourJobs])
  expect(refused).toBeUndefined()
  expect(opened.map((plaintext, at) => plaintext && same(plaintext, jobs[at]?.text ?? plaintext.subarray(1)))).toEqual(
    jobs.map(() => true),
  )
}

function random(bytes: number): Uint8Array {
  return new Uint8Array(randomBytes(bytes))
}

function alteredJob(job: Job): Job {
  return { ...job, text: altered(job.text, 0) }
}

/** Walks through the bytes from one message to the next, and through the bits. */
function altered(sealed: Uint8Array, at: number): Uint8Array {
  const copy = sealed.slice()
  const place = (at * 7_919) % copy.length
  copy[place] = (copy[place] ?? 0) ^ (1 << (at % 8))
  return copy
}

// Comparing megabytes by `toEqual` takes seconds.
function same(a: Uint8Array, b: Uint8Array): boolean {
  return Buffer.compare(a, b) === 0
}
