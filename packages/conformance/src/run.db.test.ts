// The command line: its exit codes, its reports, and what it leaves behind.
import { setTimeout } from 'node:timers/promises'
import { ROUTES } from '@eaas/protocol'
import { createClient } from '@eaas/sdk'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { answering, breaking, type Call } from '../../../test/support/service/breaking.js'
import { type Service, startService } from '../../../test/support/service/service.js'
import { callsIn } from './cases/case.js'
import { run } from './run.js'
import { CASES } from './suite.js'
import { runKit } from './test-support/command.js'

const HASH = '--only=^hash: (answers one|differs)'

let server: Service
let service: { baseUrl: string; apiKey: string; fetch: typeof fetch }
beforeAll(async () => {
  server = await startService()
})
beforeEach(async () => {
  service = await createTenant({ envelope_only: true })
})
afterAll(() => server.close())

async function createTenant(options: { envelope_only: boolean }) {
  return { baseUrl: server.url, apiKey: (await server.createTenant(options)).secret, fetch }
}

/** Runs a command line that does not get as far as to a server. */
async function refused(...argv: string[]): Promise<string> {
  const told: string[] = []
  const code = await run(argv, {
    folder: import.meta.dirname,
    print: () => undefined,
    tell: (line) => void told.push(line),
    signal: new AbortController().signal,
    fetch: () => Promise.reject(new Error('nothing is to be sent')),
  })
  expect(code).toBe(2)
  return told[0] ?? ''
}

describe('the command', () => {
  it('exits with 0 where all cases pass, and prints TAP 14: a plan, and a line for each case', async () => {
    const { code, out, err } = await runKit(service, HASH)
    expect([code, err]).toEqual([0, ''])
    expect(out.split('\n')).toEqual([
      'TAP version 14',
      '1..2',
      expect.stringMatching(/^ok 1 - hash: answers one text of 64 hexadecimal digits/),
      expect.stringMatching(/^ok 2 - hash: differs/),
      '# 2 passed, 0 failed, 0 skipped',
      '',
    ])
  })

  it('exits with 1 where a case fails, and says what was expected, in both reports', async () => {
    const fetch = breaking(
      service.fetch,
      answering(({ body }) => {
        if (body?.hash) body.hash = 'nothing\u009b'
      }),
    )
    const { code, out, report } = await runKit({ ...service, fetch }, '--only=^hash: answers one')
    expect(code).toBe(1)
    const message = 'not 64 hexadecimal digits: nothing\\u009b'
    expect(out).toContain(`not ok 1 - ${report.cases[0].name}\n  ---\n  message: ${JSON.stringify(message)}\n  ...\n`)
    expect(report).toMatchObject({
      url: service.baseUrl,
      version: expect.stringMatching(/^\d+\.\d+\.\d+/),
      started_at: expect.stringMatching(/^\d{4}-.*Z$/),
      passed: 0,
      failed: 1,
      skipped: 0,
      cases: [{ operations: ['hash'], outcome: 'failed', message }],
    })
  })

  it('says which cases it skips, and why', async () => {
    const { code, out } = await runKit(service, '--only=^encrypt: answers')
    expect([code, out]).toEqual([0, expect.stringContaining(' # SKIP server mode is closed to the tenant\n')])
  })

  it.each([
    ['no URL', [], 'missing required argument'],
    ['no API key', ['http://127.0.0.1:1'], "option '--api-key-file <file>' not specified"],
    ['an option that is given twice', ['http://127.0.0.1:1', '--only', 'x', '--only=y'], 'once only'],
    ['an API key', ['http://127.0.0.1:1', '--api-key=eaas_sk_0'], 'never given on the command line'],
    ['another option', ['http://127.0.0.1:1', '--apikeyfile', 'x'], 'unknown option'],
    ['no URL of the web', ['ftp://x', '--api-key-file', 'run.ts'], 'must begin with https://'],
    ['a password', ['https://me:secret@x', '--api-key-file', 'run.ts'], 'no user, password'],
    ['another machine over http', ['http://192.0.2.1', '--api-key-file', 'run.ts'], '--allow-insecure'],
    ['a pattern that is none', ['http://127.0.0.1:1', '--api-key-file', 'run.ts', '--only', '('], 'regular expression'],
    ['a pattern of no case', ['http://127.0.0.1:1', '--api-key-file', 'run.ts', '--only', 'x{9}'], 'no case'],
    ['a file that is not there', ['http://127.0.0.1:1', '--api-key-file', 'gone'], 'ENOENT'],
    ['a file of other content', ['http://127.0.0.1:1', '--api-key-file', 'run.ts'], 'one API key alone'],
  ])('exits with 2 for %s, and sends nothing', async (_, argv, message) => {
    const told = await refused(...argv)
    expect(told).toContain(message)
    expect(told).not.toMatch(/secret|eaas_sk_/)
  })

  it('exits with 3 where the server does not answer, is another one, or refuses the API key', async () => {
    const gone = () => Promise.reject(new TypeError('fetch failed', { cause: { code: 'ECONNREFUSED' } }))
    expect(await runKit({ ...service, fetch: gone })).toMatchObject({
      code: 3,
      out: '',
      err: 'eaas-conformance: GET /v1/tenant was not answered: fetch failed (ECONNREFUSED)\n',
    })
    const other = async () => new Response('{"hello":"world"}')
    expect((await runKit({ ...service, fetch: other })).err).toContain('no server of this API')
    const { code, err } = await runKit({ ...service, apiKey: 'eaas_sk_wrong' })
    expect([code, err]).toEqual([3, expect.stringContaining('answered 401 E_UNAUTHORIZED')])
    expect(err).not.toContain('eaas_sk_wrong')
  })

  it.each([
    [
      { permissions: ['keys:read', 'api_keys:read', 'encrypt', 'decrypt', 'audit:read'] },
      'lacks permissions: keys:create',
    ],
    [{ permissions: ['keys:read'] }, '403 E_MISSING_PERMISSION: missing permission: api_keys:read'],
    [{ keys: ['people/*'] }, 'is limited to some keys'],
    [{ permissions: ['api_keys:read', 'keys:read'], budgets: { hash: { per_day: 1 } } }, 'lacks permissions: encrypt'],
  ])('exits with 3 where the API key may not do what the cases need, and says which: %j', async (fields, message) => {
    const eaas = createClient(service)
    const own = (await eaas.apiKeys.list()).api_keys[0]
    const { secret } = await eaas.apiKeys.create({
      name: 'less',
      permissions: own?.permissions ?? [],
      ...fields,
    } as never)
    eaas.close()
    const { code, err, out } = await runKit({ ...service, apiKey: secret })
    expect([code, err, out]).toEqual([3, expect.stringContaining(message), ''])
  })

  it('exits with 3 for --server-mode where it is closed, and runs where it is open', async () => {
    expect((await runKit(service, HASH, '--server-mode')).err).toContain('server mode is closed')
    expect((await runKit(await createTenant({ envelope_only: false }), HASH, '--server-mode')).code).toBe(0)
  })

  it('destroys the keys that it made and revokes the API keys, by names that say whose they are', async () => {
    const eaas = createClient(service)
    const { id } = await eaas.keys.create({ name: 'ours' })
    await runKit(service, HASH)
    const { keys } = await eaas.keys.list()
    expect(keys.length).toBeGreaterThan(3)
    for (const key of keys.filter((one) => one.id !== id)) {
      expect(key).toMatchObject({
        status: 'pending_destruction',
        name: expect.stringMatching(/^conformance [a-z]{8} \d+/),
      })
    }
    expect((await eaas.keys.get(id)).status).toBe('active')
    const { api_keys } = await eaas.apiKeys.list()
    expect(api_keys.filter(({ status }) => status === 'active')).toHaveLength(1)
    eaas.close()
  })

  it('cleans up when it is interrupted, and says so', async () => {
    const interruption = new AbortController()
    let calls = 0
    const fetch: typeof globalThis.fetch = (...call) => {
      calls += 1
      if (calls === 12) interruption.abort('SIGINT')
      return service.fetch(...call)
    }
    const { code, out } = await runKit({ ...service, fetch, signal: interruption.signal })
    expect([code, out]).toEqual([130, expect.stringContaining('Bail out! ended by a signal\n')])
    const eaas = createClient(service)
    expect((await eaas.keys.list({ status: 'active' })).count).toBe(0)
    eaas.close()
  })

  const CREATIONS = ['/v1/keys', '/v1/batch/keys', '/v1/api-keys']
  const isCreation = ({ method, url }: Request) => method === 'POST' && CREATIONS.includes(new URL(url).pathname)
  const active = async () => {
    const eaas = createClient(service)
    const { keys } = await eaas.keys.list({ status: 'active' })
    const { api_keys } = await eaas.apiKeys.list()
    eaas.close()
    return [...keys, ...api_keys.filter(({ status }) => status === 'active').slice(1)].map(({ name }) => name)
  }

  it.each(CREATIONS)('removes what a call of %s made whose answer was lost, and nothing else', async (path) => {
    const eaas = createClient(service)
    await eaas.keys.create({ name: 'conformance ours' })
    eaas.close()
    const interruption = new AbortController()
    let isLost = false
    const fetch: typeof globalThis.fetch = async (...call) => {
      const request = new Request(...call)
      const isFirst = !isLost && isCreation(request) && new URL(request.url).pathname === path
      const answer = await service.fetch(...call)
      if (!isFirst || answer.status >= 300) return answer
      isLost = true
      interruption.abort('SIGINT')
      throw new TypeError('fetch failed')
    }
    const { code, err } = await runKit(
      { ...service, fetch, signal: interruption.signal },
      '--only=^createApiKey|^createKey',
    )
    expect([code, err, isLost]).toEqual([130, '', true])
    expect(await active()).toEqual(['conformance ours'])
  })

  it('waits for a creation that is under way when it is interrupted, and removes what it makes', async () => {
    const interruption = new AbortController()
    const fetch: typeof globalThis.fetch = async (input, init) => {
      const request = new Request(input, init)
      if (!isCreation(request)) return service.fetch(input, init)
      interruption.abort('SIGINT')
      // The server has the call, and makes the key later than a caller that does not wait would look for it.
      const made = setTimeout(100).then(() => service.fetch(input, { ...init, signal: null }))
      const { signal } = request
      const left = new Promise<never>((_, reject) => {
        if (signal.aborted) reject(signal.reason)
        else signal.addEventListener('abort', () => reject(signal.reason))
      })
      return Promise.race([made, left])
    }
    const { code } = await runKit({ ...service, fetch, signal: interruption.signal }, HASH)
    expect(code).toBe(130)
    await setTimeout(150)
    expect(await active()).toEqual([])
  })

  it.each([
    [
      'what is left cannot be found out',
      ({ method, path }: Call) => method === 'GET' && path === '/v1/keys',
      /^eaas-conformance: could not be removed: keys and API keys named "conformance [a-z]{8} …"/,
    ],
    [
      'a key cannot be removed',
      ({ path }: Call) => path.endsWith('/destroy'),
      /^eaas-conformance: could not be removed: key [0-9a-f-]{36}\n/,
    ],
  ])('exits with 1 where %s, and names it', async (_, isBroken, message) => {
    const fetch = breaking(service.fetch, async (call, forward) => {
      const answer = await forward()
      return isBroken(call) ? { ...answer, status: 500, body: {} } : answer
    })
    const { code, out, err } = await runKit({ ...service, fetch }, HASH)
    expect([code, err]).toEqual([1, expect.stringMatching(message)])
    const count = err.trim().split('\n').length
    expect(out).toContain(`\n# ${count} could not be removed\n# 2 passed, 0 failed, 0 skipped\n`)
  })

  it('prints no secret of an API key and no API key of its own', async () => {
    const fetch = breaking(service.fetch, async (call, forward) => {
      const answer = await forward()
      return call.method === 'POST'
        ? { ...answer, body: { ...answer.body, detail: service.apiKey, permissions: answer.body } }
        : answer
    })
    const { out, report, failed } = await runKit({ ...service, fetch }, '--only=createApiKey')
    expect(failed.length).toBeGreaterThan(3)
    expect(out + JSON.stringify(report)).not.toMatch(/eaas_sk_\w{5}/)
  })
})

describe('the cases', () => {
  it('have names of their own, which cite operations of the API', () => {
    const names = CASES.map(([name]) => name)
    expect(new Set(names).size).toBe(names.length)
    expect(names.filter((name) => name.includes('\n'))).toEqual([])
    const calls = [...Object.keys(ROUTES), 'every call']
    expect(names.flatMap(callsIn).filter((call) => !calls.includes(call))).toEqual([])
  })
})
