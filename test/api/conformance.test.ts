// The conformance kit against a real server over HTTP: ours passes, and one that breaks a rule does not.
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { CASES } from '../../packages/conformance/src/suite.js'
import { runKit } from '../../packages/conformance/src/test-support/command.js'
import { answering, type Break, hearing, startBroken } from '../support/service/breaking.js'
import { type Service, startService } from '../support/service/service.js'

let service: Service
let atOnce: Service
beforeAll(async () => {
  service = await startService()
  atOnce = await startService({ environment: { EAAS_DESTROY_WINDOW_DAYS: '0' } })
})
afterAll(async () => {
  await service.close()
  await atOnce.close()
})

describe('our server', () => {
  it('passes every case, each in one of two tenants, where no key and no API key of the runs works on', async () => {
    const closed = await service.createTenant({ envelope_only: true })
    const open = await atOnce.createTenant({ envelope_only: false })
    const runs = [
      await runKit({ baseUrl: service.url, apiKey: closed.secret }),
      await runKit({ baseUrl: atOnce.url, apiKey: open.secret }, '--server-mode'),
    ]
    for (const { code, failed, err } of runs) expect([code, failed, err]).toEqual([0, [], ''])
    const passed = runs.flatMap(({ report }) => report.cases).filter(({ outcome }) => outcome === 'passed')
    expect(new Set(passed.map(({ name }) => name)).size).toBe(CASES.length)
    for (const [{ call }, status] of [
      [closed, 'pending_destruction'],
      [open, 'destroyed'],
    ] as const) {
      const { keys } = (await call('GET', '/v1/keys')).body
      expect(new Set(keys.map((key: { status: string }) => key.status))).toEqual(new Set([status]))
      const { api_keys } = (await call('GET', '/v1/api-keys')).body
      expect(api_keys.filter((one: { status: string }) => one.status === 'active')).toHaveLength(1)
    }
  })
})

describe('a server that breaks rules', () => {
  const EXPORT = /^exportAudit, readAuditCheckpoint: verify offline/

  /** Runs cases through a proxy; returns the names of those that fail. */
  async function failing(change: Break, ...argv: string[]): Promise<string[]> {
    const { secret } = await service.createTenant({ envelope_only: true })
    const broken = await startBroken(service.url, change)
    const { failed } = await runKit({ baseUrl: broken.url, apiKey: secret }, ...argv)
    broken.close()
    return failed
  }

  it('fails their cases alone: an export without an entry, an API key that is taken from any address', async () => {
    const change = answering((answer) => {
      if (answer.body?.code === 'E_IP_NOT_ALLOWED') Object.assign(answer, { status: 200, body: {} })
      if (answer.headers.get('content-type') !== 'application/x-ndjson') return
      const lines = `${answer.body}`.split('\n')
      answer.body = [...lines.slice(0, 4), ...lines.slice(5)].join('\n')
    })
    const names = [/: makes one that is answered 403 E_IP_NOT_ALLOWED/, EXPORT]
    expect(await failing(change)).toEqual(names.map((name) => expect.stringMatching(name)))
  })

  it('fails the case of a checkpoint whose signature is another one', async () => {
    const change = answering(({ body }) => {
      if (body?.checkpoint) body.checkpoint = body.checkpoint.replace(/.{8}(?==*\n$)/, 'AAAAAAAA')
    })
    expect(await failing(change, `--only=${EXPORT.source}`)).toHaveLength(1)
  })

  it('fails the case of an export that begins at the first entry whatever it is asked for', async () => {
    const change = hearing(({ query }) => query.delete('after_id'))
    expect(await failing(change, `--only=${EXPORT.source}`)).toHaveLength(1)
  })

  it('fails the case of a budget that does not say when it begins anew', async () => {
    const change = answering((answer) => {
      answer.headers = new Headers([...answer.headers].filter(([name]) => name !== 'retry-after'))
    })
    expect(await failing(change, '--only=keep an API key to its budgets')).toHaveLength(1)
  })

  it('fails the case of an API key that does not expire', async () => {
    const change = answering((answer) => {
      if (answer.status === 401) Object.assign(answer, { status: 200, body: { keys: [], count: 0 } })
    })
    expect(await failing(change, '--only=once it has expired')).toHaveLength(1)
  })
})
