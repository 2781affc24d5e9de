// Load from outside the process under test: wrk where there is one, else autocannon from npm. Every request is a POST of one
// of a list of JSON bodies, in turn.
import { spawn, spawnSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { pinned } from './cpus.js'

export interface Target {
  url: string
  path: string
  /** JSON texts */
  bodies: readonly string[]
  secret?: string
  /** requests with a path and an API key of their own, in place of `bodies` */
  requests?: readonly { path: string; secret: string; body: string }[]
}

export interface Throughput {
  perSecond: number
  /** milliseconds */
  p50: number
  p99: number
  /** answers that are not 2xx, and requests without an answer */
  failed: number
  requests: number
}

export interface LoadOptions {
  connections: number
  seconds: number
  /** as taskset takes them */
  cpus: string | undefined
  /** for the script of wrk */
  folder: string
}

export const LOADER = spawnSync('wrk', ['-v']).error === undefined ? 'wrk' : 'autocannon'

let scripts = 0

/** Calls the target without a pause over connections that are kept alive. */
export async function load(target: Target, options: LoadOptions): Promise<Throughput> {
  return LOADER === 'wrk' ? loadByWrk(target, options) : loadByAutocannon(target, options)
}

async function loadByWrk(target: Target, { connections, seconds, cpus, folder }: LoadOptions): Promise<Throughput> {
  const script = join(folder, `load-${++scripts}.lua`)
  writeFileSync(script, luaScript(target))
  const output = await run(
    pinned(cpus, ['wrk', '-t1', `-c${connections}`, `-d${seconds}s`, '--timeout', '30s', '-s', script, target.url]),
  )
  const [, json] = /^RESULT (.*)$/m.exec(output) ?? []
  if (json === undefined) throw new Error(`wrk gave no result: ${output}`)
  const { requests, us, p50, p99, failed } = JSON.parse(json)
  return { perSecond: (requests - failed) / (us / 1e6), p50: p50 / 1e3, p99: p99 / 1e3, failed, requests }
}

// The requests are formatted once: wrk then costs about as little as it can.
function luaScript(target: Target): string {
  return `
wrk.method = "POST"
wrk.headers["content-type"] = "application/json"
local all = { ${requestsOf(target)
    .map(({ path, secret, body }) => `{ "${path}", "${secret ?? ''}", [==[${body}]==] }`)
    .join(',\n')} }
local requests = {}
local at = 0
function init(args)
  for index, one in ipairs(all) do
    if one[2] ~= "" then wrk.headers["authorization"] = "Bearer " .. one[2] end
    requests[index] = wrk.format("POST", one[1], wrk.headers, one[3])
  end
end
function request()
  at = at % #requests + 1
  return requests[at]
end
function done(summary, latency, _)
  local errors = summary.errors
  local failed = errors.status + errors.timeout + errors.read + errors.write + errors.connect
  io.write(string.format('RESULT {"requests":%d,"us":%d,"p50":%d,"p99":%d,"failed":%d}\\n',
    summary.requests, summary.duration, latency:percentile(50), latency:percentile(99), failed))
end
`
}

function requestsOf({ path, bodies, secret, requests }: Target) {
  return requests ?? bodies.map((body) => ({ path, secret, body }))
}

async function loadByAutocannon(
  target: Target,
  { connections, seconds, cpus, folder }: LoadOptions,
): Promise<Throughput> {
  const options = {
    url: target.url,
    connections,
    duration: seconds,
    requests: requestsOf(target).map(({ path, secret, body }) => ({
      method: 'POST',
      path,
      body,
      headers: {
        'content-type': 'application/json',
        ...(secret === undefined ? {} : { authorization: `Bearer ${secret}` }),
      },
    })),
  }
  const file = join(folder, `load-${++scripts}.json`)
  writeFileSync(file, JSON.stringify(options))
  const program = `
    const options = JSON.parse(require('fs').readFileSync(${JSON.stringify(file)}, 'utf8'))
    require(${JSON.stringify(createRequire(import.meta.url).resolve('autocannon'))})(options).then((result) =>
      console.log('RESULT ' + JSON.stringify(result)))`
  const output = await run(pinned(cpus, [process.execPath, '-e', program]))
  const [, json = ''] = /^RESULT (.*)$/m.exec(output) ?? []
  const { '2xx': good, non2xx, errors, duration, latency } = JSON.parse(json)
  return {
    perSecond: good / duration,
    p50: latency.p50,
    p99: latency.p99,
    failed: non2xx + errors,
    requests: good + non2xx,
  }
}

/** Runs a command to its end; returns what it said. @throws when its exit code is not 0 */
export async function run([program, ...args]: [string, ...string[]], cwd?: string): Promise<string> {
  const child = spawn(program, args, { stdio: ['ignore', 'pipe', 'pipe'], ...(cwd === undefined ? {} : { cwd }) })
  let output = ''
  let errors = ''
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    output += text
  })
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    errors += text
  })
  const code = await new Promise((resolve, reject) => child.once('error', reject).once('close', resolve))
  if (code !== 0) throw new Error(`${program} ended with code ${code}: ${errors || output}`)
  return output
}
