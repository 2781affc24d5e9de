// Measures the SDK and its peers in one process, interleaved, and prints `RESULT <json>`. A process of its own, so that it can
// be pinned; plain JavaScript, so that nothing stands between the code and Node. What is measured is the CPU time of the
// process, all threads: on a quiet machine with one CPU to itself it is the elapsed time, and on a busy one it still holds.
import { randomBytes } from 'node:crypto'
import { createClient } from '@eaas/sdk'
import { gcm } from '@noble/ciphers/aes.js'
import { awsPeer, ciphersweetPeer, cloakPeer } from './peers.mjs'
import { agePeer, josePeer } from './web-peers.mjs'

const { baseUrl, apiKey, keyId, rounds, targetMs } = JSON.parse(process.argv[2])
let requests = 0
const counting = (...args) => {
  requests += 1
  return fetch(...args)
}
const eaas = createClient({ baseUrl, apiKey, fetch: counting })
const noble = createClient({ baseUrl, apiKey, engine: 'noble', fetch: counting })

const SIZES = [32, 256, 4_096, 65_536]
const text = (bytes) => 'Ada Lovelace, 12 St James Square '.repeat(Math.ceil(bytes / 32)).slice(0, bytes)

const results = {
  text: await measureText(),
  sizes: await measureSizes(),
  bytes: await measureBytes(),
  many: await measureMany(),
  noble: await measureNoble(),
}
console.log(`RESULT ${JSON.stringify(results)}`)
eaas.close()
noble.close()

/** µs of CPU an operation, by peer, size and direction. */
async function measureText() {
  const peers = {
    eaas: {
      encrypt: (value) => eaas.encrypt(value, { keyId }),
      decrypt: (envelope) => eaas.decryptText(envelope),
    },
    cloak: cloakPeer(),
    'ciphersweet (BoringCrypto)': ciphersweetPeer('BoringCrypto'),
    'ciphersweet (FIPSCrypto)': ciphersweetPeer('FIPSCrypto'),
    'aws-crypto, caching CMM': awsPeer(),
    'jose A256GCM': await josePeer(),
    age: await agePeer(),
  }
  const measured = {}
  for (const size of SIZES) {
    const value = text(size)
    const cases = {}
    for (const [name, { encrypt, decrypt }] of Object.entries(peers)) {
      const sealed = await encrypt(value)
      if ((await decrypt(sealed)) !== value) throw new Error(`${name} does not give back what it was given`)
      cases[`${name}/encrypt`] = () => encrypt(value)
      cases[`${name}/decrypt`] = () => decrypt(sealed)
    }
    measured[size] = await interleave(cases)
  }
  return measured
}

/** µs of CPU an operation, by size. */
async function measureSizes() {
  const measured = {}
  for (const size of [16, 64, 256, 1_024, 4_096, 16_384, 65_536]) {
    const value = text(size)
    const sealed = await eaas.encrypt(value, { keyId })
    measured[size] = await interleave({
      encrypt: () => eaas.encrypt(value, { keyId }),
      decrypt: () => eaas.decryptText(sealed),
    })
  }
  return measured
}

/** µs of CPU an operation, by size: bytes in, bytes out. */
async function measureBytes() {
  const measured = {}
  for (const size of [2 ** 20, 2 ** 24]) {
    const value = randomBytes(size)
    const sealed = await eaas.encrypt(value, { keyId })
    measured[size] = await interleave({
      encrypt: () => eaas.encrypt(value, { keyId }),
      decrypt: () => eaas.decrypt(sealed),
    })
  }
  return measured
}

/** 6,000 fields of 40 bytes: in one call, in as many calls with a warm DEK, and in calls that ask the service each. */
async function measureMany() {
  const fields = ['a', 'b', 'c', 'd', 'e', 'f']
  const rows = Array.from({ length: 1_000 }, (_, id) => ({
    id,
    ...Object.fromEntries(fields.map((field) => [field, `${field}${id}`.padEnd(40, '.')])),
  }))
  const fresh = () => createClient({ baseUrl, apiKey, fetch: counting })
  const together = async () => {
    const client = fresh()
    await client.encryptMany(rows, { keyId, fields })
    client.close()
  }
  const singles = async () => {
    const client = fresh()
    for (const row of rows) for (const field of fields) await client.encrypt(row[field], { keyId })
    client.close()
  }
  const asking = async () => {
    const client = fresh()
    for (const row of rows.slice(0, 100)) {
      for (const field of fields) await client.encrypt(row[field], { keyId, dek: 'call' })
    }
    client.close()
  }
  await together()
  await singles()
  const measured = { together: [], togetherCpu: [], singles: [], asking: [], requests: {} }
  for (let round = 0; round < rounds; round++) {
    for (const [name, task, times] of [
      ['together', together, 1],
      ['singles', singles, 1],
      ['asking', asking, 10],
    ]) {
      requests = 0
      const cpu = process.cpuUsage()
      const startedAt = performance.now()
      await task()
      measured[name].push((performance.now() - startedAt) * times)
      if (name === 'together') measured.togetherCpu.push(cpuMs(cpu))
      measured.requests[name] = requests * times
    }
  }
  return measured
}

/** The noble engine by way of the SDK, against the least that gives the same with stock noble. */
async function measureNoble() {
  const key = randomBytes(32)
  const measured = {}
  for (const size of [32, 4_096, 65_536]) {
    const value = text(size)
    const stock = () => {
      const iv = crypto.getRandomValues(new Uint8Array(12))
      const sealed = gcm(key, iv).encrypt(new TextEncoder().encode(value))
      return { ciphertext: Buffer.from(sealed).toString('base64'), iv: Buffer.from(iv).toString('base64') }
    }
    const sealed = stock()
    const stockOpen = () =>
      new TextDecoder('utf-8', { fatal: true }).decode(
        gcm(key, Buffer.from(sealed.iv, 'base64')).decrypt(Buffer.from(sealed.ciphertext, 'base64')),
      )
    const envelope = await noble.encrypt(value, { keyId })
    measured[size] = await interleave({
      'eaas/encrypt': () => noble.encrypt(value, { keyId }),
      'eaas/decrypt': () => noble.decryptText(envelope),
      'stock/encrypt': async () => stock(),
      'stock/decrypt': async () => stockOpen(),
    })
  }
  return measured
}

/** Each case once a round; µs of CPU an operation. How often a case runs is found out first. */
async function interleave(cases) {
  const times = {}
  for (const [name, task] of Object.entries(cases)) times[name] = await timesFor(task)
  const measured = Object.fromEntries(Object.keys(cases).map((name) => [name, []]))
  const names = Object.keys(cases)
  for (let round = 0; round < rounds; round++) {
    for (let at = 0; at < names.length; at++) {
      const name = names[(at + round) % names.length]
      measured[name].push(((await cpuOf(cases[name], times[name])) * 1_000) / times[name])
    }
  }
  return measured
}

async function timesFor(task) {
  let times = 1
  for (;;) {
    const took = await cpuOf(task, times)
    if (took >= targetMs) return times
    times = Math.ceil(took < targetMs / 10 ? times * 8 : (times * targetMs * 1.1) / took)
  }
}

async function cpuOf(task, times) {
  const before = process.cpuUsage()
  for (let at = 0; at < times; at++) await task()
  return cpuMs(before)
}

function cpuMs(before) {
  const { user, system } = process.cpuUsage(before)
  return (user + system) / 1_000
}
