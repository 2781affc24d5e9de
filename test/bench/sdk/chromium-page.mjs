// The SDK and its peers in a page: µs an operation, interleaved. The service is the in-memory one: it is asked once for a DEK.
import { createClient } from '@eaas/sdk'
import { createTestService } from '@eaas/sdk/testing'
import { agePeer, josePeer } from './web-peers.mjs'

const SIZES = [32, 256, 4_096, 65_536]

globalThis.measureText = async ({ rounds, targetMs }) => {
  const eaas = createClient(createTestService())
  const { id: keyId } = await eaas.keys.create({ name: 'bench' })
  const peers = {
    eaas: {
      encrypt: (value) => eaas.encrypt(value, { keyId }),
      decrypt: (envelope) => eaas.decryptText(envelope),
    },
    'jose A256GCM': await josePeer(),
    age: await agePeer(),
  }
  const measured = {}
  for (const size of SIZES) {
    const value = 'Ada Lovelace, 12 St James Square '.repeat(Math.ceil(size / 32)).slice(0, size)
    const cases = {}
    for (const [name, { encrypt, decrypt }] of Object.entries(peers)) {
      const sealed = await encrypt(value)
      if ((await decrypt(sealed)) !== value) throw new Error(`${name} does not give back what it was given`)
      cases[`${name}/encrypt`] = () => encrypt(value)
      cases[`${name}/decrypt`] = () => decrypt(sealed)
    }
    measured[size] = await interleave(cases, { rounds, targetMs })
  }
  eaas.close()
  return measured
}

async function interleave(cases, { rounds, targetMs }) {
  const names = Object.keys(cases)
  const times = {}
  for (const name of names) times[name] = await timesFor(cases[name], targetMs)
  const measured = Object.fromEntries(names.map((name) => [name, []]))
  for (let round = 0; round < rounds; round++) {
    for (let at = 0; at < names.length; at++) {
      const name = names[(at + round) % names.length]
      measured[name].push(((await elapsed(cases[name], times[name])) * 1_000) / times[name])
    }
  }
  return measured
}

async function timesFor(task, targetMs) {
  let times = 1
  for (;;) {
    const took = await elapsed(task, times)
    if (took >= targetMs) return times
    times = Math.ceil(took < targetMs / 10 ? times * 8 : (times * targetMs * 1.1) / took)
  }
}

async function elapsed(task, times) {
  const startedAt = performance.now()
  for (let at = 0; at < times; at++) await task()
  return performance.now() - startedAt
}
