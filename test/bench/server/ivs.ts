// What it costs that an iv depends on the value which is sealed (key-hierarchy.md 6), against a random one. In this process, not pinned.
import { createCipheriv, type KeyObject, randomBytes, randomFillSync } from 'node:crypto'
import { importKey, ivKeyOf, makeIv, randomKey } from '../../../packages/server/src/crypto/aead.js'
import type { Findings } from '../lib/report.js'
import { interleave, spread } from '../lib/rounds.js'
import type { Scene } from '../lib/scene.js'

const SEALS = 100_000
const IV_BYTES = 12
const RANDOM_BYTES = 16

export async function measureIvs({ options }: Scene): Promise<Findings> {
  const key = importKey(randomKey())
  const [plaintext, aad] = [randomBytes(32), randomBytes(64)]
  const made = () => makeIv(ivKeyOf(key), { random: randomFillSync(new Uint8Array(RANDOM_BYTES)), aad, plaintext })
  const drawn = () => randomFillSync(new Uint8Array(IV_BYTES))
  const sealing = (iv: () => Uint8Array) => () => cpuUs(() => sealWith(key, iv(), { plaintext, aad }))
  const measured = await interleave({ made: sealing(made), drawn: sealing(drawn) }, options)
  const more = measured.made.map((us, at) => us - (measured.drawn[at] ?? Number.NaN))
  return {
    bars: [
      {
        what: 'iv that depends on the value: CPU a wrap',
        against: 'more than a random one',
        measured: spread(more),
        unit: 'µs',
        atMost: 2,
      },
      { what: 'a seal of 32 bytes with a random iv: CPU', against: '', measured: spread(measured.drawn), unit: 'µs' },
    ],
    tables: [],
    plots: [],
  }
}

function sealWith(key: KeyObject, iv: Uint8Array, { plaintext, aad }: Record<'plaintext' | 'aad', Uint8Array>): Buffer {
  const cipher = createCipheriv('aes-256-gcm', key, iv)
  cipher.setAAD(aad)
  cipher.update(plaintext)
  cipher.final()
  return cipher.getAuthTag()
}

function cpuUs(task: () => unknown): number {
  const before = process.cpuUsage()
  for (let at = 0; at < SEALS; at++) task()
  const { user, system } = process.cpuUsage(before)
  return (user + system) / SEALS
}
