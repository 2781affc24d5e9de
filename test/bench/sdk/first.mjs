// What a program pays before its first value is encrypted, or, as `fetch`, before its first answer of any service: prints
// `RESULT <json>`, in milliseconds, elapsed and of CPU. Run in a fresh process.
const { baseUrl, apiKey, keyId, what } = JSON.parse(process.argv[2])
const startedAt = performance.now()
const cpuAtStart = process.cpuUsage()
const importedAt = what === 'fetch' ? await fetchOnce() : await encryptOnce()
const endedAt = performance.now()
const { user, system } = process.cpuUsage(cpuAtStart)
const result = { import: importedAt - startedAt, all: endedAt - startedAt, cpu: (user + system) / 1_000 }
console.log(`RESULT ${JSON.stringify(result)}`)
process.exit() // connections that are kept alive are not waited for

async function encryptOnce() {
  const { createClient } = await import('@eaas/sdk')
  const importedAt = performance.now()
  const eaas = createClient({ baseUrl, apiKey })
  await eaas.encrypt('Ada Lovelace', { keyId })
  return importedAt
}

async function fetchOnce() {
  const headers = { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json' }
  const body = JSON.stringify({ dek: 'AA=='.padStart(44, 'A') })
  const response = await fetch(`${baseUrl}/v1/keys/${keyId}/wrap`, { method: 'POST', headers, body })
  await response.json()
  return startedAt
}
