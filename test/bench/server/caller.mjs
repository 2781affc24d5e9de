// One client in a process of its own, so that neither the server nor another client waits for it. Calls in turn what it is told to,
// either without a pause, or every so many milliseconds; a call's time then counts from when it was to be made. Prints `RESULT <json>`.
import { readFileSync } from 'node:fs'
import { Agent, request } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'

const { url, secret, calls, clients, seconds, everyMs } = JSON.parse(process.argv[2])
const agent = new Agent({ keepAlive: true })
const made = calls.map(({ method, path, file }) => ({ method, path, body: file && readFileSync(file) }))
const until = performance.now() + seconds * 1_000
const times = []
let failed = 0
let next = 0

function call({ method, path, body }) {
  const headers = { authorization: `Bearer ${secret}` }
  if (body) Object.assign(headers, { 'content-type': 'application/json', 'content-length': body.length })
  return new Promise((resolve, reject) => {
    const sent = request(url + path, { method, agent, headers }, (answer) => {
      answer
        .resume()
        .once('end', () => resolve(answer.statusCode))
        .once('error', reject)
    })
    sent.once('error', reject)
    sent.end(body)
  })
}

async function makeCall(from) {
  const status = await call(made[next++ % made.length]).catch(() => 0)
  times.push(performance.now() - from)
  if (status < 200 || status > 299) failed += 1
  if (status === 503) await sleep(100) // told to come back later, it does so too early
}

async function press() {
  while (performance.now() < until) await makeCall(performance.now())
}

async function pace() {
  const begun = []
  for (let at = performance.now(); at < until; at += everyMs) {
    const wait = at - performance.now()
    if (wait > 0) await sleep(wait)
    begun.push(makeCall(at))
  }
  await Promise.all(begun)
}

await Promise.all(Array.from({ length: clients }, everyMs === undefined ? press : pace))
times.sort((a, b) => a - b)
const at = (share) => times[Math.min(times.length - 1, Math.floor(times.length * share))] ?? 0
console.log(`RESULT ${JSON.stringify({ calls: times.length, failed, p50: at(0.5), p99: at(0.99), most: at(1) })}`)
process.exit(0)
