// What a process does that continues from a copy of its memory: equal randomness must not lead to equal ivs.
import { execFileSync } from 'node:child_process'
import { createSecretKey } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { encodeHex, IV_BYTES } from '@eaas/protocol'
import { build } from 'esbuild'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { seal } from './aead.js'
import { type SecretBinding, sealSecret } from './key-hierarchy.js'
import { wrapDek } from './wrapped-key.js'

// The generator of a machine that is restored before each draw. OpenSSL's lies in the memory of the process,
// as a pool would.
vi.mock('node:crypto', async (original) => ({
  ...(await original<typeof import('node:crypto')>()),
  randomFillSync: (bytes: Uint8Array) => bytes.fill(7),
}))

const key = createSecretKey(new Uint8Array(32).fill(3))
const storeKeys = { current: 1, keys: new Map([[1, key]]) }
const [one, two] = [new Uint8Array(32).fill(1), new Uint8Array(32).fill(2)]
const aad = new Uint8Array([1, 2, 3])
const kek: SecretBinding = { purpose: 'kek', tenant_id: crypto.randomUUID(), id: crypto.randomUUID(), version: 1 }

const ivOf = (sealed: Uint8Array, at = 0) => encodeHex(sealed.subarray(at, at + IV_BYTES))

describe('with equal randomness', () => {
  it.each<[string, Uint8Array[], number]>([
    [
      'two DEKs that are wrapped',
      [wrapDek(key, 1, { aad, isBound: false }, one), wrapDek(key, 1, { aad, isBound: false }, two)],
      5,
    ],
    [
      'one DEK that is wrapped for two keys',
      [wrapDek(key, 1, { aad, isBound: false }, one), wrapDek(key, 1, { aad: two, isBound: false }, one)],
      5,
    ],
    ['two secrets that are sealed', [sealSecret(storeKeys, kek, one), sealSecret(storeKeys, kek, two)], 5],
    [
      'one secret that is sealed for two places',
      [sealSecret(storeKeys, kek, one), sealSecret(storeKeys, { ...kek, version: 2 }, one)],
      5,
    ],
    ['two plaintexts of server mode, whose DEKs are equal too', [seal(one.slice(), aad), seal(one.slice(), two)], 0],
    [
      'AAD that ends where the plaintext begins',
      [seal(key, aad.subarray(1), aad.subarray(0, 1)), seal(key, aad.subarray(2), aad.subarray(0, 2))],
      0,
    ],
    ['AAD and plaintext exchanged', [seal(key, one, two), seal(key, two, one)], 0],
    ['long plaintexts', [seal(key, new Uint8Array(65_536)), seal(key, new Uint8Array(65_536).fill(1, 65_535))], 0],
  ])('%s get different ivs', (_, sealed, at) => {
    expect(new Set(sealed.map((each) => ivOf(each, at))).size).toBe(2)
  })

  it('equal values get equal bytes, which is all that a copy shows', () => {
    expect(seal(key, one, aad)).toEqual(seal(key, one, aad))
  })
})

/**
 * Seals and makes an API key while the snapshot is made, so that whatever is pooled is filled, and again in
 * each process that starts from it.
 */
const PROGRAM = `
  import { startupSnapshot } from 'node:v8'
  import { seal } from './aead.js'
  import { generateApiKey } from './api-key.js'
  const run = (text) => ({ sealed: Buffer.from(seal(new Uint8Array(32).fill(3), Buffer.from(text))).toString('hex'),
                           apiKey: generateApiKey('7c9e6679-7425-40de-944b-e07fc1f90ae7') })
  run('')
  startupSnapshot.setDeserializeMainFunction(() => console.log(JSON.stringify(run(process.argv.at(-1)))))
`

describe('two processes that start from one snapshot', () => {
  const folder = mkdtempSync(join(tmpdir(), 'eaas-snapshot-'))
  const [program, blob] = [join(folder, 'program.cjs'), join(folder, 'snapshot.blob')]
  const node = (...args: string[]) =>
    execFileSync(process.execPath, ['--snapshot-blob', blob, ...args], {
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'ignore'],
    })
  let runs: { sealed: string; apiKey: string }[]
  beforeAll(async () => {
    const resolveDir = fileURLToPath(new URL('.', import.meta.url))
    const stdin = { contents: PROGRAM, resolveDir, loader: 'ts' as const }
    await build({ stdin, bundle: true, format: 'cjs', platform: 'node', outfile: program })
    node('--build-snapshot', program)
    runs = ['attack at dawn', 'retreat at six'].map((text) => JSON.parse(node('main', text)))
  })
  afterAll(() => rmSync(folder, { recursive: true }))

  it('seal different plaintexts under one key with different ivs', () => {
    expect(new Set(runs.map(({ sealed }) => sealed.slice(0, 2 * IV_BYTES))).size).toBe(2)
  })

  it('make different API keys', () => {
    expect(new Set(runs.map(({ apiKey }) => apiKey)).size).toBe(2)
  })
})
