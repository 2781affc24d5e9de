// What a server tells systemd: with systemd's own program and, in the place of systemd, a socket that Python holds.
import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { freshDatabase } from '../support/database/database.js'
import { startEaas } from '../support/service/eaas-process.js'

const RECEIVER = `
import os, socket, sys
receiver = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
receiver.bind(sys.argv[1])
print('bound', flush=True)
while True:
    message, descriptors, _, _ = socket.recv_fds(receiver, 4096, 4)
    for descriptor in descriptors: os.close(descriptor)  # as systemd does when it has read the message
    print(message.decode().replace('\\n', ' '), flush=True)
`
const hasNotify = spawnSync('systemd-notify', ['--version']).status === 0
if (!hasNotify)
  console.error('!!! NO SYSTEMD-NOTIFY FOUND: what the server tells systemd was not tested. Install systemd.')

let folder: string
let receiver: ChildProcess
let received: string

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'eaas-notify-'))
  received = ''
  receiver = spawn('python3', ['-c', RECEIVER, join(folder, 'socket')], { stdio: ['ignore', 'pipe', 'inherit'] })
  receiver.stdout?.setEncoding('utf8').on('data', (text: string) => {
    received += text
  })
  if (receiver.stdout) await once(receiver.stdout, 'data')
})
afterEach(() => {
  receiver.kill('SIGKILL')
  rmSync(folder, { recursive: true, force: true })
})

const messages = () => received.split('\n').filter((line) => /^(READY|WATCHDOG|STOPPING)=1$/.test(line))

describe.skipIf(!hasNotify)('a server that systemd started', () => {
  it('tells that it is ready, that it lives, and that it stops', async () => {
    const environment = { NOTIFY_SOCKET: join(folder, 'socket'), WATCHDOG_USEC: '300000' }
    const eaas = await startEaas({ database: await freshDatabase('notify'), environment })
    await expect.poll(() => messages().slice(0, 3)).toEqual(['READY=1', 'WATCHDOG=1', 'WATCHDOG=1'])
    expect(await eaas.stop()).toMatchObject({ code: 0, stderr: expect.not.stringContaining('could not be told') })
    await expect.poll(messages).toContain('STOPPING=1')
  })

  it('does not tell that it lives while its event loop stands still', async () => {
    const environment = { NOTIFY_SOCKET: join(folder, 'socket'), WATCHDOG_USEC: '300000' }
    const eaas = await startEaas({ database: await freshDatabase('notify_stopped'), environment })
    await expect.poll(messages).toContain('WATCHDOG=1')
    process.kill(eaas.pid, 'SIGSTOP')
    await new Promise((resolve) => setTimeout(resolve, 500)) // what was under way arrives
    const before = messages().length
    await new Promise((resolve) => setTimeout(resolve, 1_000))
    expect(messages()).toHaveLength(before)
    process.kill(eaas.pid, 'SIGCONT')
    await eaas.stop()
  })

  it('tells nothing of a watchdog that is not its own', async () => {
    const environment = { NOTIFY_SOCKET: join(folder, 'socket'), WATCHDOG_USEC: '300000', WATCHDOG_PID: '1' }
    const eaas = await startEaas({ database: await freshDatabase('notify_other'), environment })
    await expect.poll(messages).toEqual(['READY=1'])
    await new Promise((resolve) => setTimeout(resolve, 700))
    expect(messages()).toEqual(['READY=1'])
    await eaas.stop()
  })

  it('logs once that systemd does not hear it, and serves', async () => {
    const environment = { NOTIFY_SOCKET: join(folder, 'nobody'), WATCHDOG_USEC: '300000' }
    const eaas = await startEaas({ database: await freshDatabase('notify_deaf'), environment })
    await expect.poll(() => eaas.stderr).toMatch(/systemd could not be told/)
    await new Promise((resolve) => setTimeout(resolve, 700))
    expect(eaas.stderr.match(/systemd could not be told/g)).toHaveLength(1)
    expect((await fetch(`${eaas.url}/livez`)).status).toBe(200)
    await eaas.stop()
  })
})
