// The node engine alone: bytes in, bytes out, without the base64 of an envelope. Prints `RESULT <json>`: CPU µs an operation, by
// size and direction, round by round.
import { randomBytes } from 'node:crypto'
import { nodeEngine as engine } from '../../../packages/sdk/src/test-support/engines.js'

const { rounds, targetMs, sizes } = JSON.parse(process.argv[2] ?? '{}')
const [key, iv] = [randomBytes(32), randomBytes(12)]

const measured: Record<string, Record<'encrypt' | 'decrypt', number[]>> = {}
for (const size of sizes) {
  const plaintext = randomBytes(size)
  const sealed = engine.seal(key, iv, plaintext)
  const times = Math.ceil(targetMs / (cpuMs(() => engine.seal(key, iv, plaintext), 3) / 3))
  const figures: (typeof measured)[string] = { encrypt: [], decrypt: [] }
  for (let round = -1; round < rounds; round++) {
    const encrypt = (cpuMs(() => engine.seal(key, iv, plaintext), times) * 1_000) / times
    const decrypt = (cpuMs(() => engine.open(key, iv, sealed), times) * 1_000) / times
    if (round < 0) continue // warms up
    figures.encrypt.push(encrypt)
    figures.decrypt.push(decrypt)
  }
  measured[size] = figures
}
console.log(`RESULT ${JSON.stringify(measured)}`)

function cpuMs(task: () => unknown, times: number): number {
  const before = process.cpuUsage()
  for (let at = 0; at < times; at++) task()
  const { user, system } = process.cpuUsage(before)
  return (user + system) / 1_000
}
