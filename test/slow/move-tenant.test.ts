// Two installations behind the shipped configurations of haproxy and nginx, under load, while a tenant with a long log moves from one
// to the other. Every acknowledged call is in the log. How long its calls waited, and what the others noticed, is printed.
import { type ChildProcess, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { readFileSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, it, onTestFinished } from 'vitest'
import type { NewTenant } from '../../packages/server/src/operators/tenants.js'
import { backend, freshDatabase } from '../support/database/database.js'
import { freePort } from '../support/database/postgres.js'
import { findOrInstallPrograms } from '../support/run/apt-program.js'
import { guardedDir } from '../support/run/guarded-dir.js'
import {
  createTenantInProcess,
  EAAS,
  type EaasOptions,
  environmentOf,
  runEaas,
  startEaas,
} from '../support/service/eaas-process.js'
import { ROOT } from '../support/sources/source-files.js'

const NAMES = ['haproxy', 'nginx'] as const
const programs = backend() === 'embedded' ? undefined : findOrInstallPrograms(NAMES, NAMES)
const ENTRIES = 100_000
const BATCH = 1_000
const NEIGHBOURS = 3
const PAUSE_MS = 5
const QUIET_MS = 10_000
const KILLS = 8
/** Between the moments of the kills, after the tenant was closed. */
const STEP_MS = 10
const ROOT_KEYS = [8, 9].map((byte) => Buffer.alloc(32, byte).toString('base64'))

async function startInstallation(at: 0 | 1) {
  const options: EaasOptions = { database: await freshDatabase('moved'), rootKey: ROOT_KEYS[at] ?? null }
  await createTenantInProcess(options, `first of ${at}`)
  const server = await startEaas(options)
  onTestFinished(async () => void (await server.stop()))
  return { options, server }
}

/** Writes what names the second installation; returns the options of the command. */
function targetFiles(folder: string, { database }: EaasOptions): string[] {
  const file = (name: string, text: string) => {
    writeFileSync(join(folder, name), text)
    return join(folder, name)
  }
  const url = database?.backend === 'postgres' ? database.url : ''
  const config = JSON.stringify({ root_key_file: file('key', ROOT_KEYS[1] ?? '') })
  return ['--to', file('url', url), '--to-config', file('other.json', config)]
}

/** Starts a proxy with the shipped file, on ports of this machine. */
async function startProxy(name: (typeof NAMES)[number], folder: string, ports: readonly string[]) {
  const port = await freePort()
  const [map, socket] = [join(folder, 'tenants.map'), join(folder, 'socket')]
  const shipped = readFileSync(
    join(ROOT, `packages/server/container/installations.${name}.${name === 'nginx' ? 'conf' : 'cfg'}`),
    'utf8',
  )
  const text = shipped
    .replaceAll(/10\.0\.0\.([12]):8420/g, (_, at) => `127.0.0.1:${ports[at - 1]}`)
    .replace(/bind :8420/, `bind 127.0.0.1:${port}`)
    .replace(/listen 8420/, `listen 127.0.0.1:${port}`)
    .replaceAll(/\/etc\/\w+\/tenants\.map/g, map)
    .replaceAll('/run/haproxy/eaas.sock', socket)
  const paths = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map(
    (kind) => `${kind}_temp_path ${folder}/${kind};`,
  )
  const nginx = `pid ${folder}/pid;\nevents {}\nhttp {\naccess_log off;\nerror_log /dev/null;\n${paths.join('\n')}\n${text}}\n`
  const file = join(folder, 'proxy.conf')
  writeFileSync(map, '')
  writeFileSync(file, name === 'nginx' ? nginx : text)
  const options = name === 'haproxy' ? ['-db', '-f', file] : ['-c', file, '-e', 'stderr', '-g', 'daemon off;']
  const child: ChildProcess = spawn(programs?.[name] ?? '', options, { stdio: 'ignore' })
  onTestFinished(async () => {
    child.kill()
    await once(child, 'exit')
  })
  const url = `http://127.0.0.1:${port}`
  await expect.poll(() => fetch(`${url}/health`).then(({ status }) => status, String), { timeout: 20_000 }).toBe(200)
  return {
    url,
    moveTo(tenant_id: string): void {
      const line = `${tenant_id.replaceAll('-', '')} two`
      writeFileSync(map, `${line}${name === 'nginx' ? ';' : ''}\n`)
      if (name === 'nginx') child.kill('SIGHUP')
      else connect(socket).resume().end(`add map ${map} ${line}\n`)
    },
  }
}

async function call(url: string, secret: string, path: string, body?: unknown) {
  const headers = {
    authorization: `Bearer ${secret}`,
    ...(body !== undefined && { 'content-type': 'application/json' }),
  }
  const answer = await fetch(url + path, {
    headers,
    ...(body !== undefined && { method: 'POST', body: JSON.stringify(body) }),
  })
  return { status: answer.status, body: await answer.json() }
}

/** Repeats a call once if its connection was closed before an answer, as any client must: a reload of nginx does that. */
async function callAgain(...args: Parameters<typeof call>): ReturnType<typeof call> {
  return call(...args).catch((error: Error & { cause?: { code?: string } }) => {
    const isUnanswered =
      error.message === 'fetch failed' && ['ECONNRESET', 'UND_ERR_SOCKET'].includes(error.cause?.code ?? '')
    if (!isUnanswered) throw error
    return call(...args)
  })
}

/** Unwraps one data key after the other, and keeps when each call was answered. */
function startCaller(url: string, secret: string, key: { id: string; wrapped_key: string }, make = call) {
  const answers: { at: number; tookMs: number; status: number }[] = []
  let isStopped = false
  const running = (async () => {
    while (!isStopped) {
      const begun = performance.now()
      const { wrapped_key } = key
      const status = await make(url, secret, `/v1/keys/${key.id}/unwrap`, { wrapped_key }).then(
        (a) => a.status,
        () => 0,
      )
      answers.push({ at: performance.now(), tookMs: performance.now() - begun, status })
      await sleep(PAUSE_MS)
    }
  })()
  return {
    answers,
    async stop() {
      isStopped = true
      await running
    },
  }
}

function p99(answers: readonly { tookMs: number }[]): number {
  const sorted = answers.map(({ tookMs }) => tookMs).sort((a, b) => a - b)
  return sorted[Math.floor(sorted.length * 0.99)] ?? 0
}

async function makeKey(url: string, { api_key: { secret } }: NewTenant) {
  const { id } = (await call(url, secret, '/v1/keys', { name: 'k' })).body
  const dek = randomBytes(32).toString('base64')
  const { wrapped_key } = (await call(url, secret, `/v1/keys/${id}/wrap`, { dek })).body
  return { id, wrapped_key, dek }
}

describe.skipIf(!programs).each(NAMES)(
  'a tenant that moves behind %s, under load',
  { timeout: 10 * 60_000 },
  (name) => {
    it('loses no acknowledged call, and leaves the other tenants alone', async () => {
      const folder = guardedDir('eaas-move')
      onTestFinished(folder.remove)
      const [one, two] = [await startInstallation(0), await startInstallation(1)]
      const proxy = await startProxy(
        name,
        folder.path,
        [one, two].map(({ server }) => new URL(server.url).port),
      )
      const moved = await createTenantInProcess(one.options, 'moved')
      const { secret } = moved.api_key
      const key = await makeKey(proxy.url, moved)
      const operations = Array.from({ length: BATCH }, () => ({ op: 'wrap', key_id: key.id, dek: key.dek }))
      for (let at = 0; at < ENTRIES; at += BATCH)
        expect((await call(proxy.url, secret, '/v1/batch', { operations })).status).toBe(200)
      const make = name === 'nginx' ? callAgain : call
      const others = []
      for (let at = 0; at < NEIGHBOURS; at++) {
        const tenant = await createTenantInProcess(one.options, `other ${at}`)
        others.push(startCaller(proxy.url, tenant.api_key.secret, await makeKey(proxy.url, tenant), make))
      }
      const caller = startCaller(proxy.url, secret, key, make)
      await sleep(QUIET_MS)
      const begun = performance.now()
      const file = (name: string, text: string) => {
        writeFileSync(join(folder.path, name), text)
        return join(folder.path, name)
      }
      const url = two.options.database?.backend === 'postgres' ? two.options.database.url : ''
      const config = JSON.stringify({ root_key_file: file('key', ROOT_KEYS[1] ?? '') })
      const to = ['--to', file('url', url), '--to-config', file('other.json', config)]
      const { code, stdout, stderr } = await runEaas(['tenant', 'move', 'moved', ...to, '--json'], one.options)
      expect([code, stderr]).toEqual([0, expect.stringMatching(/arrived there\n$/)])
      const ended = performance.now()
      proxy.moveTo(moved.tenant_id)
      await expect.poll(() => caller.answers.at(-1)?.status, { timeout: 20_000 }).toBe(200)
      await sleep(QUIET_MS)
      for (const each of [caller, ...others]) await each.stop()
      const acknowledged = caller.answers.filter(({ status }) => status === 200)
      const { total } = (await call(proxy.url, secret, '/v1/audit?action=key.unwrap')).body
      const gaps = acknowledged.map(({ at }, index) => at - (acknowledged[index - 1]?.at ?? at))
      const all = others.flatMap(({ answers }) => answers)
      const [before, during] = [all.filter(({ at }) => at < begun), all.filter(({ at }) => at >= begun && at < ended)]
      console.log(
        `${name}: closed for ${JSON.parse(stdout).closed_ms} ms of ${Math.round(ended - begun)} ms, no answer for ${Math.round(Math.max(...gaps))} ms; ` +
          `${acknowledged.length} acknowledged, ${total} in the log; p99 of the others ${p99(before).toFixed(1)} ms before, ${p99(during).toFixed(1)} ms meanwhile`,
      )
      expect(total).toBeGreaterThanOrEqual(acknowledged.length)
      expect(all.filter(({ status }) => status !== 200)).toEqual([])
      expect((await call(proxy.url, secret, '/v1/audit/verify')).body).toMatchObject({ valid: true })
    })
  },
)

describe.skipIf(backend() === 'embedded')('a move that is killed at any moment', { timeout: 15 * 60_000 }, () => {
  it('leaves the tenant served by one installation or by none, and is ended or undone by another run', async () => {
    const folder = guardedDir('eaas-killed-move')
    onTestFinished(folder.remove)
    const [one, two] = [await startInstallation(0), await startInstallation(1)]
    const urls = [one, two].map(({ server }) => server.url)
    const to = targetFiles(folder.path, two.options)
    for (let round = 0; round < KILLS; round++) {
      const name = `killed ${round}`
      const moved = await createTenantInProcess(one.options, name)
      const { secret } = moved.api_key
      const key = await makeKey(urls[0] ?? '', moved)
      const statuses = () =>
        Promise.all(urls.map(async (url) => (await call(url, secret, `/v1/keys/${key.id}/unwrap`, key)).status))
      const command = spawn(process.execPath, [EAAS, 'tenant', 'move', name, ...to], {
        env: environmentOf(one.options),
      })
      const ended = once(command, 'exit')
      const isClosed = async () => (await statuses())[0] !== 200
      while (command.exitCode === null && !(await isClosed()));
      await sleep(round * STEP_MS)
      command.kill('SIGKILL')
      await ended
      const found = await statuses()
      expect(found.filter((status) => status === 200).length).toBeLessThan(2)
      const undo = await runEaas(['tenant', 'move', name, ...to, '--undo'], one.options)
      console.log(`killed ${round * STEP_MS} ms after it was closed: ${found.join(' and ')}, undone with ${undo.code}`)
      if (undo.code === 0) expect(await statuses()).toEqual([200, 401])
      const again = await runEaas(['tenant', 'move', name, ...to], one.options)
      expect([again.code, again.stderr]).toEqual([0, expect.not.stringContaining('may be closed')])
      expect(await statuses()).toEqual([421, 200])
      const file = await runEaas(['audit', 'verify', '--tenant', name, '--json'], one.options)
      expect(JSON.parse(file.stdout)).toMatchObject({ valid: true })
      expect((await call(urls[1] ?? '', secret, '/v1/audit/verify')).body).toMatchObject({ valid: true })
    }
  })
})
