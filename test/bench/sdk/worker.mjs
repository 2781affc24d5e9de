// Measures the SDK and its peers in one process, interleaved, and prints `RESULT <json>`. A process of its own, so that it can
// be pinned; plain JavaScript, so that nothing stands between the code and Node. What is measured is the CPU time of the
// process, all threads: on a quiet machine with one CPU to itself it is the elapsed time, and on a busy one it still holds.
import { createClient, text } from '@eaas/sdk'
import { awsPeer, ciphersweetPeer, cloakPeer } from './peers.mjs'
import { measureText } from './text-rounds.mjs'
import { josePeer } from './web-peers.mjs'

const SEARCHES = 1_000
const WARM_UPS = 3
const { baseUrl, apiKey, keyId, rounds, targetMs } = JSON.parse(process.argv[2])
let requests = 0
const counting = (...args) => {
  requests += 1
  return fetch(...args)
}
const eaas = createClient({ baseUrl, apiKey, fetch: counting })

const peers = {
  eaas: {
    encrypt: (value) => eaas.encrypt(value, { keyId }),
    decrypt: (envelope) => eaas.decryptText(envelope),
  },
  cloak: cloakPeer(),
  'ciphersweet (FIPSCrypto)': ciphersweetPeer(),
  'aws-crypto, caching CMM': awsPeer(),
  'jose A256GCM': await josePeer(),
}
const results = {
  major: Number.parseInt(process.versions.node, 10),
  text: await measureText(peers, { rounds, targetMs, clock: cpuMs }),
  many: await measureMany(),
  search: await measureSearch(),
}
console.log(`RESULT ${JSON.stringify(results)}`)
eaas.close()

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
  for (let at = 0; at < WARM_UPS; at++) {
    await together()
    await singles()
  }
  const measured = { together: [], togetherCpu: [], singles: [], asking: [], requests: [] }
  for (let round = 0; round < rounds; round++) {
    for (const [name, task, times] of [
      ['together', together, 1],
      ['singles', singles, 1],
      ['asking', asking, 10],
    ]) {
      requests = 0
      const cpu = cpuMs()
      const startedAt = performance.now()
      await task()
      measured[name].push((performance.now() - startedAt) * times)
      if (name !== 'together') continue
      measured.togetherCpu.push(cpuMs() - cpu)
      measured.requests.push(requests)
    }
  }
  return measured
}

/** The index of a value to search by: ms, and the requests of all. */
async function measureSearch() {
  const people = eaas.model({ name: 'people', keyId, bind: ['id'], fields: { email: text({ index: 'email_index' }) } })
  const searches = async () => {
    const startedAt = performance.now()
    for (let at = 0; at < SEARCHES; at++) await people.index({ email: `ada.${at}@example.org` })
    return (performance.now() - startedAt) / SEARCHES
  }
  await searches() // fetches the secret of the index
  requests = 0
  const ms = []
  for (let round = 0; round < rounds; round++) ms.push(await searches())
  return { ms, requests: [requests] }
}

/** CPU time of the process so far, all threads, in milliseconds. */
function cpuMs() {
  const { user, system } = process.cpuUsage()
  return (user + system) / 1_000
}
