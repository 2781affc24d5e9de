// eaas as the first process of a container, which the kernel ends by no signal that it does not handle.
import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { type AddressInfo, createServer } from 'node:net'
import { afterEach, describe, expect, it, onTestFinished } from 'vitest'
import { databaseWithTenant } from '../support/database/filled-database.js'
import { EAAS, environmentOf, ROOT_KEY } from '../support/service/eaas-process.js'

const UNSHARE = ['--pid', '--fork', '--kill-child', process.execPath]
const canUnshare = spawnSync('unshare', [...UNSHARE, '-e', '0']).status === 0
if (!canUnshare) console.error('!!! NO NAMESPACES OF PROCESSES: nothing is tested as the first process of a container.')

describe.runIf(canUnshare)('as the first process', () => {
  const children: ChildProcess[] = []
  afterEach(() => {
    for (const child of children.splice(0)) child.kill('SIGKILL')
  })

  function run(args: string[], environment: Record<string, string>) {
    const child = spawn('unshare', [...UNSHARE, EAAS, ...args], { env: environment, stdio: ['ignore', 'pipe', 'pipe'] })
    children.push(child)
    let output = ''
    for (const stream of [child.stdout, child.stderr]) {
      stream.setEncoding('utf8').on('data', (text: string) => {
        output += text
      })
    }
    return {
      output: () => output,
      signal(name: NodeJS.Signals) {
        const first = readFileSync(`/proc/${child.pid}/task/${child.pid}/children`, 'utf8')
        process.kill(Number(first.trim()), name)
      },
      ended: once(child, 'close').then(([code]) => code as number | null),
    }
  }

  it.each([
    ['SIGTERM', 143],
    ['SIGINT', 130],
  ] as const)('ends by %s while it waits for its database', async (signal, code) => {
    let connections = 0
    const silent = createServer(() => {
      connections++
    }).listen(0, '127.0.0.1')
    await once(silent, 'listening')
    onTestFinished(() => void silent.close())
    const { port } = silent.address() as AddressInfo
    const url = `postgres://eaas@127.0.0.1:${port}/eaas?sslmode=disable`
    const eaas = run(['start'], environmentOf({ environment: { EAAS_DATABASE_URL: url, EAAS_ROOT_KEY: ROOT_KEY } }))
    await expect.poll(() => connections).toBeGreaterThan(0)
    eaas.signal(signal)
    expect(await eaas.ended).toBe(code)
  })

  it('stops in order by SIGTERM once it serves', async () => {
    const { database } = await databaseWithTenant()
    const eaas = run(['start'], environmentOf({ database }))
    await expect.poll(eaas.output).toContain('listening on')
    eaas.signal('SIGTERM')
    expect(await eaas.ended).toBe(0)
  })

  it('lets a command handle the signal by itself', async () => {
    const { database } = await databaseWithTenant()
    const follower = run(['audit', 'follow', '--all'], environmentOf({ database }))
    await expect.poll(follower.output).toContain('"api_key.create"')
    follower.signal('SIGTERM')
    expect(await follower.ended).toBe(0)
  })
})
