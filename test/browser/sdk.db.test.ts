// The SDK where it must not be trusted to be Node: pages and workers in Chromium, before a broker or with short-lived keys.
import { createHash } from 'node:crypto'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, expect, it } from 'vitest'
import vectors from '../../packages/protocol/src/envelope.vectors.json' with { type: 'json' }
import { createClient } from '../../packages/sdk/src/index.js'
import type { SuiteOutcome } from '../support/platforms/packed-sdk.js'
import { measureUses } from '../support/platforms/page-uses.js'
import { type Service, startService } from '../support/service/service.js'
import { RUNTIMES, rowOf } from '../support/sources/runtime-table.js'
import { inChromium, NOTHING_STORED, type OpenedPage, stored } from './chromium-pages.js'
import { type PageServer, startPageServer } from './page-server.js'

const START_TIMEOUT_MS = 120_000

type RunSuite = (vectors: unknown, redirecting: string, without: readonly string[]) => Promise<SuiteOutcome>

inChromium('the SDK in a page', ({ open, marksByTask }) => {
  let service: Service
  let pages: PageServer
  let keyId: string
  let minted: string[]
  let lifeMs: number
  let opened: OpenedPage

  beforeAll(async () => {
    pages = await startPageServer()
    service = await startService({ environment: { EAAS_CORS_ORIGINS: pages.url } })
    const owner = createClient({ baseUrl: service.url, apiKey: (await service.createTenant()).secret })
    keyId = (await owner.keys.create({ name: 'pages' })).id
    const permissions = ['encrypt', 'decrypt', 'audit:on_behalf_of'] as const
    const { secret } = await owner.apiKeys.create({ name: 'broker', permissions })
    const mint = async () => {
      const expires_at = new Date(Date.now() + lifeMs)
      const key = await owner.apiKeys.create({ name: 'page', permissions: ['encrypt'], expires_at })
      minted.push(key.secret)
      return { secret: key.secret, expires_at: key.expires_at, created_at: key.created_at }
    }
    pages.service = { url: service.url, brokerKey: secret, keyId, mint }
    minted = []
    lifeMs = 300_000
    opened = await open(pages.url)
    await opened.page.waitForFunction(() => globalThis.harness !== undefined)
  }, START_TIMEOUT_MS)
  afterAll(async () => {
    await opened?.close()
    await pages?.close()
    await service?.close()
  })

  const sealed = ['web', 'noble', 'auto'].flatMap((name) =>
    vectors.seal.map(({ ciphertext = '', ciphertext_sha256 }) => ({
      name,
      sealed: ciphertext_sha256 ?? createHash('sha256').update(Buffer.from(ciphertext, 'base64')).digest('hex'),
      isSame: true,
    })),
  )

  it('seals and opens the published vectors with every engine that it has, WebCrypto by default', async () => {
    const outcome = await opened.page.evaluate((vectors) => globalThis.harness.runVectors(vectors), vectors.seal)
    expect(outcome).toEqual({ outcomes: sealed, isWeb: true })
  })

  it('passes the suite of all runtimes', async () => {
    const other = await open(`${pages.url}/suite`)
    await other.page.waitForFunction(() => 'runSuite' in globalThis)
    pages.answered.length = 0
    // A page cannot set `sec-fetch-site`: what the check sends as a browser would is refused, as it should be.
    const without = ['a broker stands between a page and the service']
    const { passed, ...outcome } = await other.page.evaluate(
      ({ vectors, without }) => {
        const { runSuite } = globalThis as unknown as { runSuite: RunSuite }
        return runSuite(vectors, `${location.origin}/redirecting`, without)
      },
      { vectors, without },
    )
    expect(outcome).toEqual({ engines: RUNTIMES.chromium.engines, failed: [] })
    console.info(rowOf(RUNTIMES.chromium))
    expect(passed).toBeGreaterThan(200)
    const asked = pages.answered.map(({ path }) => path)
    expect(asked.filter((path) => !path.endsWith('.js'))).toEqual(['/redirecting/v1/keys', '/redirecting/v1/hash'])
    expect(await other.violations()).toEqual([])
    await other.close()
  })

  it('names a redirect as the reason, and asks once', async () => {
    const other = await open(pages.url)
    await other.page.waitForFunction(() => globalThis.harness !== undefined)
    pages.answered.length = 0
    const code = await other.page.evaluate(() => {
      const eaas = globalThis.harness.sdk.createClient({ baseUrl: '/redirecting' })
      return eaas.keys.list().then(String, (error: { code: string }) => error.code)
    })
    expect(code).toBe('E_PROTOCOL')
    const asked = pages.answered.map(({ path }) => path)
    expect(asked.filter((path) => !path.endsWith('.js'))).toEqual(['/redirecting/v1/keys'])
    await other.close()
  })

  it.each(vectors.refuse)('refuses: $name', async ({ error, envelope }) => {
    // The SDK also reads JSON as text: the format, whose vector is JSON, knows objects only.
    const given = typeof envelope === 'string' ? envelope.slice(0, -1) : envelope
    const code = await opened.page.evaluate(({ envelope, key }) => globalThis.harness.openRefused(envelope, key), {
      envelope: given,
      key: vectors.key,
    })
    // Whether it is our envelope at all is decided by the key's id, which these vectors may lack.
    const isForKey = (envelope as { key_id?: unknown } | null)?.key_id === vectors.valid.key_id
    expect(code).toBe(error === 'format' || !isForKey ? 'E_INVALID_INPUT' : 'E_DECRYPTION')
  })

  it('works under default-src self, in the page and in a worker, and breaks no rule of it', async () => {
    const { page } = opened
    expect(await page.evaluate((keyId) => globalThis.harness.roundTrip(keyId), keyId)).toBe('called twice')
    const inWorker = await page.evaluate(({ keyId, vectors }) => globalThis.harness.startWorker(keyId, vectors), {
      keyId,
      vectors: vectors.seal,
    })
    expect(inWorker).toEqual({ note: 'called twice', vectors: { outcomes: sealed, isWeb: true }, violations: [] })
    expect(await opened.violations()).toEqual([])
    expect(opened.complaints.filter((complaint) => /content security|eval/i.test(complaint))).toEqual([])
  })

  it('downloads at most 35,500 bytes to seal one form, and 33,300 to show one row, in four files each', async () => {
    const openAt = async (url: string) => (await open(url)).page
    const sdk = fileURLToPath(new URL('../../packages/sdk/src/index.ts', import.meta.url))
    const { seal, show } = await measureUses(openAt, sdk)
    const form = { id: 7, email: 'Ada@example.org', complaint: 'sleeps badly' }
    expect(show.row).toEqual(form)
    expect(seal.row).toEqual({
      id: 7,
      email: expect.stringMatching(/^eaas\.2/),
      complaint: expect.stringMatching(/^eaas\.2/),
      email_index: expect.stringMatching(/^[0-9a-f]{64}$/),
    })
    for (const [{ bytes, files, violations }, most] of [[seal, 35_500] as const, [show, 33_300] as const]) {
      expect(files).toContain('/page.js')
      expect(files).toHaveLength(4)
      expect(bytes).toBeGreaterThan(20 * 1_024)
      expect(bytes).toBeLessThanOrEqual(most)
      expect(violations).toEqual([])
    }
    console.info(
      `gzip: ${seal.bytes} bytes in ${seal.files.length} files to seal, ${show.bytes} in ${show.files.length} to show`,
    )
  })

  it('would be caught if it evaluated text', async () => {
    const other = await open(pages.url)
    await other.page.waitForFunction(() => globalThis.harness !== undefined)
    await other.page.evaluate(() => {
      const script = document.createElement('script')
      script.textContent = 'globalThis.evaluated = true'
      document.body.append(script)
    })
    await expect.poll(other.violations).toEqual(['script-src-elem'])
    await other.close()
  })

  it('holds DEKs as keys that cannot be exported, and wipes their bytes at once', async () => {
    const imports = await opened.page.evaluate(async (keyId) => {
      const { watchImports, roundTrip } = globalThis.harness
      const watched = watchImports()
      await roundTrip(keyId)
      return watched.imports
    }, keyId)
    expect(imports.length).toBeGreaterThanOrEqual(2) // the writer's and the reader's
    for (const one of imports) expect(one).toEqual({ isExtractable: false, isWiped: true })
  })

  it('sends the broker its session, and no API key', async () => {
    const toBroker = opened.requests.filter((request) => request.url().includes('/api/eaas/'))
    expect(toBroker.length).toBeGreaterThan(0)
    for (const request of toBroker) {
      const headers = await request.allHeaders()
      expect(headers).not.toHaveProperty('authorization')
      expect(headers.cookie).toBe('sid=ada')
    }
  })

  it('renews a short-lived API key that has expired, and its user sees nothing of it', async () => {
    lifeMs = 1_500
    minted.length = 0
    const read = await opened.page.evaluate(
      async ({ baseUrl, keyId }) => {
        const { sdk } = globalThis.harness
        const apiKey = sdk.expiringApiKey(async () => (await fetch('/api/key', { method: 'POST' })).json())
        const eaas = sdk.createClient({ baseUrl, apiKey })
        const first = await eaas.encrypt('before', { keyId, dek: 'call' })
        await new Promise((resolve) => setTimeout(resolve, 2_000))
        const [second, third] = await Promise.all([
          eaas.encrypt('after', { keyId, dek: 'call' }),
          eaas.hash('after', { keyId }),
        ])
        return [first.key_id, second.key_id, third.length]
      },
      { baseUrl: service.url, keyId },
    )
    expect(read).toEqual([keyId, keyId, 64])
    expect(minted).toHaveLength(2)
  })

  it('cannot read with a key that was minted to write', async () => {
    lifeMs = 300_000
    const status = await opened.page.evaluate(
      async ({ baseUrl, keyId }) => {
        const { sdk } = globalThis.harness
        const apiKey = sdk.expiringApiKey(async () => (await fetch('/api/key', { method: 'POST' })).json())
        const envelope = await sdk.createClient({ baseUrl, apiKey }).encrypt('x', { keyId })
        const reading = sdk.createClient({ baseUrl, apiKey }).decrypt(envelope)
        return reading.catch((error: { problem: string }) => error.problem)
      },
      { baseUrl: service.url, keyId },
    )
    expect(status).toBe('E_MISSING_PERMISSION')
  })

  it.each([
    ['another site', 'localhost'],
    ['another port of the same site', '127.0.0.1'],
  ])('is refused from %s, by the broker and by CORS', async (_, host) => {
    const foreign = await startPageServer()
    // Its own policy out of the way: an attacker's page would have none.
    const other = await open(`http://${host}:${foreign.port}`, { bypassCSP: true })
    await other.page.waitForFunction(() => globalThis.harness !== undefined)
    pages.answered.length = 0
    const outcome = await other.page.evaluate(
      async ({ broker, keyId, service, secret }) => {
        const { sdk } = globalThis.harness
        const codeOf = (call: Promise<unknown>) =>
          call.then(String, (error: { code?: string; name: string }) => error.code ?? error.name)
        const sneak = (type: string) =>
          codeOf(
            fetch(`${broker}/v1/hash`, {
              method: 'POST',
              credentials: 'include',
              headers: { 'content-type': type },
              body: '{}',
            }),
          )
        return [
          await sneak('text/plain'),
          await sneak('application/json'),
          await codeOf(sdk.createClient({ baseUrl: broker, retries: 0 }).hash('v', { keyId })),
          await codeOf(sdk.createClient({ baseUrl: service, apiKey: secret, retries: 0 }).hash('v', { keyId })),
        ]
      },
      { broker: `${pages.url}/api/eaas`, keyId, service: service.url, secret: minted.at(-1) ?? '' },
    )
    expect(outcome).toEqual(['TypeError', 'TypeError', 'E_NETWORK', 'E_NETWORK'])
    const statuses = pages.answered.filter(({ path }) => path.startsWith('/api/')).map(({ status }) => status)
    expect(statuses[0]).toBe(403) // what was sent without asking
    expect(new Set(statuses.slice(1))).toEqual(new Set([405])) // what was asked for
    await other.close()
    await foreign.close()
  })

  it.each(['auto', 'noble'] as const)(
    'decrypts 1,000 rows in many tasks, with a turn for the page after each 8 ms, %s',
    async (engine) => {
      const { page } = opened
      await page.evaluate(({ keyId, engine }) => globalThis.harness.sealRows(keyId, 1_000, engine), { keyId, engine })
      const open = (msForEach: number) =>
        marksByTask(page, 'text', async () => {
          expect(await page.evaluate((ms) => globalThis.harness.openRows(ms), msForEach)).toBe(1_000)
        })
      const { all, most } = await open(1)
      expect(all).toBeGreaterThanOrEqual(3_000) // each row has three
      // Of WebCrypto's, so many are under way at a time (waiting.ts), and may all be ready at once.
      expect(most).toBeLessThanOrEqual(engine === 'noble' ? 8 : 8 + 500)
      // Where no time passes, no turn is due.
      if (engine === 'noble') expect((await open(0)).most).toBeGreaterThanOrEqual(3_000)
    },
  )

  it('leaves nothing in the browser', async () => {
    expect(await stored(opened.page)).toEqual(NOTHING_STORED)
  })
})
